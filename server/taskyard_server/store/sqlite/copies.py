"""Copies of the file of a SQLite store: room for them, and how one gets into its place.

These wait for the disk: a thread is where they belong.
"""

from __future__ import annotations

import contextlib
import os

from taskyard_server.store.port import BackupFailed

from .file import sync_folder


def prepare(store: str, path: str, *, final: str, replace: bool, min_free_bytes: int) -> None:
    """Make the empty file that a copy is written to, before it becomes `final`. Raises `BackupFailed`."""
    try:
        _refuse_existing(final, replace)
        for name in (path, final):
            if os.path.exists(name) and os.path.samefile(name, store):
                raise BackupFailed(f"{name} is the store itself; name another file")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        found = os.statvfs(path)
        free = found.f_bavail * found.f_frsize
        log = store + "-wal"
        needed = os.stat(store).st_size + (os.stat(log).st_size if os.path.exists(log) else 0) + min_free_bytes
        if free < needed:
            remove(path)
            text = f"{final} needs {needed >> 20} MiB, and {free >> 20} are free"
            raise BackupFailed(f"{text}; make room, or name another folder")
    except OSError as error:
        raise BackupFailed(f"{final} cannot be written: {error.strerror}; make its folder, or name another") from error


def put_in_place(part: str, path: str, replace: bool) -> None:
    """Give a finished copy its name, so that it lasts. Raises `BackupFailed`."""
    try:
        fd = os.open(part, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        _refuse_existing(path, replace)
        os.rename(part, path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        raise BackupFailed(f"{path} cannot be written: {error.strerror}; name another file") from error


def _refuse_existing(path: str, replace: bool) -> None:
    if os.path.lexists(path) and not replace:
        raise BackupFailed(f"{path} is there already; remove it, or name another file")


def remove(path: str) -> None:
    """Remove a copy, if it is there."""
    for end in ("", "-journal", "-wal"):
        with contextlib.suppress(OSError):
            os.unlink(path + end)
