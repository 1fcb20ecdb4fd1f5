"""The store: whether a server with these settings can open it, and for how long it has room."""

from __future__ import annotations

import fcntl
import os
import pwd
import sqlite3
import stat
import struct
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil

from taskyard_server.cli.server import size_text
from taskyard_server.engine.persistence import MAX_AHEAD_SECS
from taskyard_server.settings.store_url import MEMORY, is_postgres, sqlite_path
from taskyard_server.store.sqlite.file import (
    VERSION,
    Unusable,
    explain,
    no_yard,
    pragma,
    primary,
    recognize,
    statements,
)

from .database import database
from .examined import Examined
from .findings import Finding, Findings, failure, failure_of, ok, utc, warning

CHECK: Final = "store"
DISK: Final = "disk of the store"
NETWORK: Final = ("nfs", "cifs", "smb", "9p", "ceph", "afs", "lustre", "gluster", "fuse.sshfs", "ocfs", "gfs")
"""Beginnings of the names of file systems that several machines share, or that another one holds."""
LOW: Final = 4
"""As `TaskyardDiskLow` does: this many times `store.minFreeBytes` are little."""
LOCKED_FROM: Final = 0x40000000
LOCKED_BYTES: Final = 512
"""The bytes that SQLite locks (sqlite.org/fileformat.html, The Lock-Byte Page)."""
FLOCK: Final = "hhqqi4x"


def store(on: Examined) -> Findings:
    """Look at what `store.url` names. Nothing is opened for writing."""
    url = on.settings.store.url
    if is_postgres(url):
        yield from database(on)
    elif (path := sqlite_path(url)) is None:
        yield ok(CHECK, f"{MEMORY}: nothing is kept, all tasks end with the server")
    else:
        yield from _file(Path(os.path.realpath(path)), on)


def _file(path: Path, on: Examined) -> Findings:
    folder = nearest_folder(path)
    if not folder.is_dir():
        yield failure(CHECK, f"{folder} is no folder", "move it away, or name another file in store.url")
        return
    if not may_use(folder, os.W_OK | os.X_OK):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            seen, todo = "is mounted read-only", "mount it for writing"
        else:
            seen, todo = f"cannot be written by {user()}", f"let {user()} write there"
        yield failure(CHECK, f"{folder} {seen}", f"{todo}, or name another file in store.url")
    elif not os.path.lexists(path):
        yield ok(CHECK, f"{path} is not there yet: the first start makes it")
    else:
        yield from _content(path, on)
    yield from _disk(folder, on.settings.store.min_free_bytes)


def nearest_folder(path: Path) -> Path:
    """The nearest thing above a path that is there: folders below it are still to be made."""
    return next(each for each in path.parents if os.path.lexists(each))


def may_use(path: Path, mode: int) -> bool:
    """True if this user may, as the system would decide it now."""
    return os.access(path, mode, effective_ids=True)


def user() -> str:
    """Who runs this."""
    try:
        return f"user {pwd.getpwuid(os.geteuid()).pw_name}"
    except KeyError:
        # Containers run programs under numbers that no file names.
        return f"user {os.geteuid()}"


def _content(path: Path, on: Examined) -> Findings:
    if not stat.S_ISREG(path.stat().st_mode):
        yield failure_of(CHECK, no_yard(str(path)))
        return
    if not may_use(path, os.R_OK | os.W_OK):
        seen = f"{path} cannot be read and written by {user()}"
        if on.runs:
            yield warning(CHECK, seen, "run this as the user of the server, to see more of it")
        else:
            yield failure(CHECK, seen, f"give it to {user()}, or start the server as the user that it belongs to")
        return
    try:
        version, at = _head(path)
    except Unusable as error:
        yield failure_of(CHECK, error)
        return
    size = _bytes_of(str(path)) + _bytes_of(f"{path}-wal")
    words = f"{path}, {size_text(size)}" + (f", last commit {utc(at)}" if at else "")
    yield _holder(path, on, words)
    if version and version < VERSION:
        seen = (
            f"{path} is of schema {version}: the next start takes it to {VERSION}, and then no older version opens it"
        )
        yield warning(CHECK, seen, "make a backup before, by `taskyard store backup`, if you may want to go back")
    if at - time.time() > MAX_AHEAD_SECS:
        todo = "set the clock right; or, if the store's was wrong, start once with --accept-clock"
        yield failure(
            "clock", f"the last commit of the store is of {utc(at)}, and the clock shows {utc(time.time())}", todo
        )


def _head(path: Path) -> tuple[int, float]:
    """The version of a file, and the time of its last commit; 0 for what only its log knows. Raises `Unusable`.

    It is read as it lies there, past SQLite's locks and its log, so that nothing is changed.
    """
    try:
        db = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        try:
            recognize(db, str(path))
            version = pragma(db, "user_version")
            row = db.execute(statements()["read_meta"]).fetchone() if version else None
        finally:
            db.close()
    except sqlite3.Error as error:
        if primary(error) == sqlite3.SQLITE_CORRUPT and _bytes_of(f"{path}-wal"):
            # What the log holds is missing in the file: together they are sound.
            return 0, 0.0
        raise Unusable(explain(str(path), error)) from None
    return version, float(row[1]) if row else 0.0


def _bytes_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _holder(path: Path, on: Examined, words: str) -> Finding:
    pid = _locked_by(path)
    if pid is None:
        if on.server:
            return warning(CHECK, f"{words}; process {on.server} runs and has it not open", "see the log of the server")
        return ok(CHECK, f"{words}; nobody has it open")
    own = on.processes()
    if pid in own or (on.runs and not (pid and own)):
        return ok(CHECK, f"{words}; the running server has it open")
    who = f"process {pid}" if pid else "a process that cannot be seen from here"
    return failure(CHECK, f"{words}; {who} has it open, and is no server that answers", "end that one, or wait for it")


def _locked_by(path: Path) -> int | None:
    """The process that has locked a file, 0 for one that cannot be seen from here; None if none has."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, LOCKED_FROM, LOCKED_BYTES, 0)
        kind, *_, pid = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return None
    finally:
        os.close(file)
    return None if kind == fcntl.F_UNLCK else max(0, int(pid))


def _disk(folder: Path, least: int) -> Findings:
    found = os.statvfs(folder)
    free, kind = found.f_bavail * found.f_frsize, _file_system(folder)
    words = f"{size_text(free)} of {size_text(found.f_blocks * found.f_frsize)} are free at {folder}, on {kind}"
    if free < least:
        todo = f"make room: while less than {size_text(least)} are free new tasks are refused (store.minFreeBytes)"
        yield failure(DISK, words, todo)
    elif found.f_files and not found.f_favail:
        yield failure(DISK, f"{words}, but no file can be made: its inodes are used up", "remove files there")
    elif free < LOW * least:
        yield warning(DISK, words, f"make room: below {size_text(least)} new tasks are refused (store.minFreeBytes)")
    else:
        yield ok(DISK, words)
    if kind.startswith(NETWORK):
        todo = (
            "keep the file on a disk of this machine, or use PostgreSQL: locks and syncs of such a system may not hold"
        )
        yield warning(DISK, f"{folder} is on a network file system, {kind}", todo)


def _file_system(folder: Path) -> str:
    """The kind of file system that a folder lies on."""
    try:
        mounts = {each.mountpoint: each.fstype for each in psutil.disk_partitions(all=True)}
    except OSError:
        # There is no /proc.
        mounts = {}
    return next(
        (mounts[name] for each in (folder, *folder.parents) if (name := str(each)) in mounts),
        "a file system that cannot be seen",
    )
