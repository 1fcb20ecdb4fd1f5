"""`taskyard health`: what a health check of a container asks."""

import pytest

from taskyard_server.cli.failure import UNREACHED
from tests.cli.conftest import Command
from tests.ports import free_port


@pytest.mark.parametrize("words", [(), ("--ready",)])
def test_a_server_that_serves_is_well(taskyard: Command, words: tuple[str, ...]) -> None:
    answer = taskyard("health", *words)
    assert (answer.out, answer.code) == ("ok\n", 0)


@pytest.mark.parametrize("words", [(), ("--ready",)])
def test_where_nobody_answers_it_fails(anywhere: Command, words: tuple[str, ...]) -> None:
    answer = anywhere("health", *words, "--server", f"127.0.0.1:{free_port()}")
    assert answer.code == UNREACHED
    assert answer.err.startswith("taskyard: no server answers at 127.0.0.1:")
