"""The older version beside this one: without it, `make bench` says so and goes on."""

import older
import pytest


def test_without_an_older_version_there_is_none() -> None:
    assert older.tree(older.NONE) is None


def test_a_version_that_is_not_here_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert older.tree("no-such-version") is None
    assert "There is no no-such-version here" in capsys.readouterr().err
