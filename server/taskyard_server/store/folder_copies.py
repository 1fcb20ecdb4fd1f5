"""Copies of a folder of stores: a backup that is made while others go on, and its restore in a new epoch.

A backup is a folder as the store itself is one. Each of its files is as of one commit of its namespace.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, Final

from .folder import COMMON_FILE, NAMESPACES, file_of
from .owners_file import FILE, Owned, OwnersFile
from .port import EPOCH_JUMP, BackupFailed, StoreError
from .sqlite_file import statements, sync_folder
from .sqlite_restore import Restored, restore

PART: Final = ".part"


class Snapshot:
    """A new folder for a backup, which gets its name once it is complete. All methods wait for the disk."""

    def __init__(self, path: str, *, replace: bool = False) -> None:
        self._path = os.path.abspath(path)
        self._part = self._path + PART
        self._replace = replace

    def begin(self) -> str:
        """Make the folder that the copies go to. Raises `BackupFailed`."""
        if os.path.lexists(self._path) and not self._replace:
            raise BackupFailed(f"{self._path} is there already; name a new folder")
        try:
            shutil.rmtree(self._part, ignore_errors=True)
            os.makedirs(os.path.join(self._part, NAMESPACES), 0o700)
        except OSError as error:
            raise BackupFailed(f"{self._part}: {(error.strerror or str(error)).lower()}") from error
        return self._part

    def finish(self, rows: Iterable[Owned]) -> None:
        """Note what is in it, and give it its name. Raises `BackupFailed`."""
        try:
            _note(self._part, list(rows))
            if os.path.lexists(self._path):
                shutil.rmtree(self._path)
            os.rename(self._part, self._path)
            sync_folder(os.path.dirname(self._path))
        except (OSError, StoreError) as error:
            raise BackupFailed(f"{self._path}: {error}") from error

    def give_up(self) -> None:
        """Remove what there is of it."""
        shutil.rmtree(self._part, ignore_errors=True)


def sum_of(stats: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The `StoreStats` of several files as that of one store; the first is the one that all share."""
    rows, used, free, number, at, epoch, version = stats[0]
    rows = dict(rows)
    for its, its_used, its_free, its_number, its_at, _, _ in stats[1:]:
        for table, count in its.items():
            rows[table] = rows.get(table, 0) + count
        used, free, number, at = used + its_used, min(free, its_free), max(number, its_number), max(at, its_at)
    return rows, used, free, number, at, epoch, version


def restore_folder(backup: str, path: str, *, replace: bool = False) -> Restored:
    """Make a backup the store in the folder `path`, in a new epoch. Waits for the disk. Raises `StoreError`.

    A folder that is there is refused, or with `replace` set aside under another name. The backup stays as it is.
    """
    backup, path = os.path.abspath(backup), os.path.realpath(path)
    if not os.path.isfile(os.path.join(backup, FILE)):
        raise StoreError(f"{backup} is no backup of a folder; name one")
    there = os.path.lexists(path)
    if there and not replace:
        raise StoreError(f"{path} is there already; say that it is to be replaced, or name another folder")
    part, before = path + ".restored", _epoch_in(path) if there else 0
    shutil.rmtree(part, ignore_errors=True)
    try:
        common = restore(os.path.join(backup, COMMON_FILE), os.path.join(part, COMMON_FILE), epoch_above=before)
        at, rows = common.at, []
        for row in _noted_in(backup):
            source = file_of(backup, row.number, row.name or "")
            if row.name is None or not os.path.exists(source):
                continue
            done = restore(source, file_of(part, row.number, row.name), epoch_above=common.epoch - 1)
            at = max(at, done.at)
            rows.append(row._replace(term=row.term + EPOCH_JUMP, needs_owner=True, is_owned=False))
        _note(part, rows)
        set_aside = _set_aside(path) if there else None
        os.rename(part, path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; see to that, then restore again") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Restored(at, common.epoch, set_aside)


def _noted_in(folder: str) -> list[Owned]:
    file = OwnersFile(folder)
    _, _, rows = file.open(0.0)
    file.close()
    return rows


def _note(folder: str, rows: list[Owned]) -> None:
    file = OwnersFile(folder)
    file.open(0.0)
    try:
        file.note(0.0, max((row.number for row in rows), default=0), rows)
    finally:
        file.close()


def _epoch_in(folder: str) -> int:
    """The epoch of a folder that no server has; 0 if it cannot be read, as one that is damaged."""
    _noted_in(folder) if os.path.exists(os.path.join(folder, FILE)) else None
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(os.path.join(folder, COMMON_FILE))) as db,
    ):
        return int(db.execute(statements()["read_meta"]).fetchone()[2])
    return 0


def _set_aside(path: str) -> str:
    number = 1
    while os.path.lexists(name := f"{path}.replaced-{number}"):
        number += 1
    os.rename(path, name)
    return name
