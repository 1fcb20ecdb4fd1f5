"""A backup put in the place of a SQLite store, in a new epoch.

What a restored store forgot, others remember: fencing tokens, orders, cursors. So the numbers of commits jump here,
and those within records as they are loaded, by `EPOCH_JUMP` for each epoch (port.py, StoreMeta). No server may run.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import NamedTuple

from taskyard_server.store.port import EPOCH_JUMP, BackupFailed, StoreError

from .check import check_file
from .copies import prepare, put_in_place, remove
from .file import APPLICATION_ID, VERSION, Unusable, explain, lock, newer, no_yard, pragma, primary, statements


class Restored(NamedTuple):
    """The time of the backup's last commit, the new epoch, and where the file that was there is now, if one was."""

    at: float
    epoch: int
    set_aside: str | None


def restore(backup: str, path: str, *, replace: bool = False, epoch_above: int = 0) -> Restored:
    """Make a backup the store at `path`, in a new epoch, above that one. Waits for the disk. Raises `StoreError`.

    A file that is there is refused, or with `replace` set aside under another name. The backup stays as it is.
    """
    backup = os.path.abspath(backup)
    path = os.path.realpath(path)
    part = path + ".restored"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with contextlib.ExitStack() as held:
            at, epoch_before = _read(backup)
            there = os.path.lexists(path)
            if there and not replace:
                raise StoreError(f"{path} is there already; say that it is to be replaced, or name another file")
            epoch = max(epoch_before, epoch_above, _take(path, held) if there else 0) + 1
            prepare(backup, part, final=part, replace=True, min_free_bytes=0)
            held.callback(remove, part)
            _copy(backup, part, epoch, epoch_before)
            set_aside = _set_aside(path) if there else None
            put_in_place(part, path, replace=False)
    except sqlite3.Error as error:
        raise StoreError(explain(backup, error)) from error
    except (BackupFailed, Unusable) as error:
        raise StoreError(str(error)) from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; see to that, then restore again") from error
    return Restored(at, epoch, set_aside)


def _read(backup: str) -> tuple[float, int]:
    """The time and epoch of a sound backup."""
    if not os.path.isfile(backup):
        raise StoreError(f"{backup} is no file; name a backup")
    with contextlib.closing(sqlite3.connect(backup, timeout=0, isolation_level=None)) as db:
        if pragma(db, "application_id") != APPLICATION_ID:
            raise Unusable(no_yard(backup))
        if (version := pragma(db, "user_version")) > VERSION:
            raise Unusable(newer(backup, version))
        _, at, epoch = db.execute(statements()["read_meta"]).fetchone()
    if lines := check_file(backup):
        raise StoreError(f"{backup} is damaged: {lines[0]}; name another backup")
    return at, epoch


def _take(path: str, held: contextlib.ExitStack) -> int:
    """Lock servers out of the file that is replaced, make one file of it and its log; its epoch, if it can be read."""
    db = sqlite3.connect(path, timeout=0, isolation_level=None)
    held.callback(db.close)
    try:
        lock(db, path, 0.0)
        _, _, epoch = db.execute(statements()["read_meta"]).fetchone()
        db.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        # A damaged one is what is replaced most often.
        if primary(error) == sqlite3.SQLITE_BUSY:
            raise
        db.close()
        return 0
    return int(epoch)


def _copy(backup: str, part: str, epoch: int, epoch_before: int) -> None:
    with (
        contextlib.closing(sqlite3.connect(backup, timeout=0, isolation_level=None)) as source,
        contextlib.closing(sqlite3.connect(part, isolation_level=None)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        target.execute(statements()["begin_epoch"], (EPOCH_JUMP * (epoch - epoch_before), epoch))


def _set_aside(path: str) -> str:
    """Rename what is there, its log first: a log must never lie beside a file that is not its own."""
    number = 1
    while os.path.lexists(name := f"{path}.replaced-{number}"):
        number += 1
    if os.path.lexists(path + "-wal"):
        os.rename(path + "-wal", name + "-wal")
    os.rename(path, name)
    return name
