"""The file of a SQLite store: opened for one process alone, made, migrated, and its errors in words.

Imports little, since the writer must start fast (sqlite_writer.py).
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time

TYPE_CHECKING = False  # typing would be a quarter of what the process takes to start.
if TYPE_CHECKING:
    from typing import Final

APPLICATION_ID: Final = 0x54594152
"""Marks a file as a yard ("TYAR"), for us and for `file`."""
VERSION: Final = 6
"""The version of the schema. A step "to N" in schema.sql leads from N - 1 to N, in one transaction."""
TABLES: Final = (
    "namespaces",
    "tasks",
    "states",
    "ended",
    "stopping",
    "hosts",
    "agents",
    "schedules",
    "triggers",
    "outbox",
    "tokens",
    "secrets",
    "token_uses",
    "operations",
    "rules",
    "events",
)
"""The names of the tables in the order of `port.Table`, which is not imported here."""
_HEADER: Final = b"SQLite format 3\0"
_MAY_PASS: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN}


class Unusable(Exception):
    """The file cannot be used, or no longer. The text is one line: which file, what is wrong, what to do."""


class Delayed(Exception):
    """It did not work for a reason that may pass; nothing was changed. The text says which."""


def statements(text: str | None = None) -> dict[str, str]:
    """The statements of schema.sql by name."""
    if text is None:
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "schema.sql"), encoding="utf-8") as file:
            text = file.read()
    found = {}
    for part in text.split("\n-- name: ")[1:]:
        name, _, statement = part.partition("\n")
        lines = [line for line in statement.split("\n") if not line.startswith("--")]
        found[name] = "\n".join(lines).strip()
    return found


def open_yard(path: str, *, synchronous: str, wait_secs: float, sql: dict[str, str]) -> sqlite3.Connection:
    """Open a yard for this process alone, and make or migrate it. Raises `Unusable`.

    A file in use is waited for up to `wait_secs`: a server that was just stopped may still be writing.
    """
    if synchronous not in ("full", "normal"):
        raise Unusable(f"{path}: synchronous is full or normal, not {synchronous}")
    _touch(path)
    # Bytes are taken as they are; without this, each value is first looked up in vain among what has an adapter.
    sqlite3.register_adapter(bytes, bytes.__bytes__)
    db = sqlite3.connect(path, timeout=0, isolation_level=None, cached_statements=128)
    try:
        lock(db, path, time.monotonic() + wait_secs)
        recognize(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")  # upkeep.py does it, and sees its errors
        db.execute("PRAGMA cache_size = -32768")
        db.execute("PRAGMA synchronous = " + ("FULL" if synchronous == "full" else "NORMAL"))
        _migrate(db, sql)
        sync_folder(os.path.dirname(path))
    except sqlite3.Error as error:
        db.close()
        raise Unusable(explain(path, error)) from error
    except BaseException:
        db.close()
        raise
    return db


def _touch(path: str) -> None:
    """See what is wrong with a path while the system still says it: SQLite's errors are poorer."""
    folder = os.path.dirname(path)
    try:
        made = _make_folders(folder)
        # A pipe must neither hold up the start nor be taken for an empty file.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise Unusable(no_yard(path))
            head = os.read(fd, len(_HEADER))
        finally:
            os.close(fd)
        for parent in made:
            sync_folder(parent)
        probe = path + ".probe"
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.unlink(probe)
    except OSError as error:
        raise Unusable(f"{path} cannot be written: {error.strerror}; make it and its folder writable, or name another "
                       "file with --store") from error  # fmt: skip
    if head and head != _HEADER:
        raise Unusable(no_yard(path))


def _make_folders(folder: str) -> list[str]:
    """Make a folder with those above it; the folders that got a new entry by that."""
    missing = []
    while not os.path.exists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        os.mkdir(one, 0o700)
    return [os.path.dirname(one) for one in missing]


def free_bytes(folder: str) -> int:
    """The bytes that are free for us on the disk of a folder; 0 where it cannot be seen."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def sync_folder(folder: str) -> None:
    """Make the entries of a folder last through a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def lock(db: sqlite3.Connection, path: str, until: float) -> None:
    """Lock all other processes out until this one ends. Set before WAL is, so that no memory is shared."""
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    while True:
        try:
            db.execute("BEGIN IMMEDIATE")
            db.execute("COMMIT")
            return
        except sqlite3.OperationalError as error:
            if primary(error) != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() >= until:
                raise Unusable(f"{path} is in use by another server; stop that one, or name another file with "
                               "--store") from error  # fmt: skip
        time.sleep(0.02)


def recognize(db: sqlite3.Connection, path: str) -> None:
    """Refuse a database that is not ours, before anything in it is changed. Raises `Unusable`."""
    mark = pragma(db, "application_id")
    version = pragma(db, "user_version")
    (things,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if mark != APPLICATION_ID and (mark or version or things):
        raise Unusable(no_yard(path))
    if version > VERSION:
        raise Unusable(newer(path, version))


def _migrate(db: sqlite3.Connection, sql: dict[str, str]) -> None:
    """Take the schema to the present version, a version a transaction."""
    while (version := pragma(db, "user_version")) < VERSION:
        script = sql["schema"] if version == 0 else sql[f"to {version + 1}"]
        reached = VERSION if version == 0 else version + 1
        script += f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {reached};"
        try:
            db.executescript(f"BEGIN IMMEDIATE; {script} COMMIT;")
        except sqlite3.Error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def pragma(db: sqlite3.Connection, name: str) -> int:
    """The value of a pragma that is a number."""
    value: int = db.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def primary(error: sqlite3.Error) -> int:
    """SQLite's code of an error without its extension; 0 if it is none of SQLite's."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def in_words(path: str, error: sqlite3.Error) -> Delayed | Unusable:
    """An error as one that may pass, such as a full disk, or as a final one: a failed fsync, damage."""
    return (Delayed if primary(error) in _MAY_PASS else Unusable)(explain(path, error))


def explain(path: str, error: sqlite3.Error) -> str:
    """One line: which file, what is wrong, what to do."""
    code = primary(error)
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if code == sqlite3.SQLITE_FULL:
        return f"{path}: the disk is full; make room"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"{path} is in use by another process; stop that one"
    if code == sqlite3.SQLITE_NOTADB:
        return no_yard(path)
    if code == sqlite3.SQLITE_CORRUPT:
        return f"{path} is damaged ({error}); restore a backup with `taskyard store restore`"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return f"{path} cannot be written ({name}); make it and its folder writable"
    if code == sqlite3.SQLITE_IOERR:
        return f"{path}: the disk failed ({name}); see the system's log, then start the server again"
    return f"{path}: {error} ({name}); this is a defect of Taskyard, please report it"


def no_yard(path: str) -> str:
    """A file is something else."""
    return f"{path} is not a file of Taskyard; name another one with --store"


def newer(path: str, version: int) -> str:
    """A file is of a version to come."""
    text = f"{path} was written by a newer Taskyard (schema {version}, this one knows {VERSION})"
    return f"{text}; start that version again, or restore a backup of before"
