"""A folder of files, which servers kept for a while, is copied into a store of today.

See docs/operate/durability.md, Copy.

`yards/folder.tar.gz` was made by the last version that wrote one, of the small yard of 0.2.0.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from taskyard_server.store.folder_source import FolderSource
from taskyard_server.store.port import StoreError
from taskyard_server.store.sqlite.store import SqliteStore

from .test_copying import everything

YARDS = Path(__file__).parent / "yards"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(YARDS / "folder.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "folder"


def store_command(*words: str) -> str:
    """What `taskyard store` says."""
    command = [sys.executable, "-m", "taskyard_server", "store", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def test_every_row_of_its_files_is_in_the_copy(folder: Path, tmp_path: Path) -> None:
    shutil.copy(YARDS / "v0.2.0.db", before := tmp_path / "before.db")
    one, source = SqliteStore(str(before), ballast_bytes=0), FolderSource(str(folder))
    await one.open()
    await source.open()
    assert await everything(source) == await everything(one)
    assert (await source.stats()).rows == (await one.stats()).rows
    await one.close()
    await source.close()


def test_the_command_makes_a_file_of_a_folder(folder: Path, tmp_path: Path) -> None:
    made = f"sqlite:///{tmp_path}/yard.db"
    assert "holds all 34 rows" in store_command("copy", f"sqlite:///{folder}/", made)
    assert "Nothing is wrong" in store_command("check", "--store", made)


async def test_a_folder_without_a_store_is_refused_and_nothing_is_made_in_it(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store in"):
        await FolderSource(str(tmp_path)).open()
    assert not os.listdir(tmp_path)


async def test_a_folder_that_a_server_has_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskyard_server.store.folder_source.WAIT_SECS", 0.0)
    owners = sqlite3.connect(folder / "owners.db", isolation_level=None)
    owners.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="in use"):
        await FolderSource(str(folder)).open()
    owners.close()
