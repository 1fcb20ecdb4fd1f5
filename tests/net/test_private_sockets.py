"""A folder of sockets goes with the process that made it, whichever way that ends."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskyard_server.net.private_sockets import IN_USE, new_private_folder, remove_private_folder

MAKES_ONE = """
import os, signal, tempfile
from taskyard_server.net.private_sockets import new_private_folder
tempfile.tempdir = {folder!r}
folder = new_private_folder()
(folder / "envoy.yaml").write_text("{{}}")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # The path is short, since paths of sockets must be.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def folders(temporary: Path) -> list[Path]:
    return sorted(temporary.glob("taskyard-*"))


def test_what_a_killed_process_has_left_is_removed_by_the_next(temporary: Path) -> None:
    subprocess.run([sys.executable, "-c", MAKES_ONE.format(folder=str(temporary))], check=False)
    assert len(folders(temporary)) == 1
    own = new_private_folder()
    assert folders(temporary) == [own]
    remove_private_folder(own)
    assert folders(temporary) == []


def test_what_a_live_process_has_stays(temporary: Path) -> None:
    one, two = new_private_folder(), new_private_folder()
    assert folders(temporary) == sorted([one, two])
    assert one.stat().st_mode & 0o777 == 0o700
    for each in (one, two):
        remove_private_folder(each)


def test_what_is_not_known_to_be_abandoned_stays(temporary: Path) -> None:
    others = [temporary / "taskyard-of-somebody", temporary / "taskyard-with-a-link"]
    for folder in others:
        folder.mkdir()
    (others[1] / IN_USE).symlink_to(temporary / "elsewhere")
    own = new_private_folder()
    assert folders(temporary) == sorted([*others, own])
    remove_private_folder(own)
