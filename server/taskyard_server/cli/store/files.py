"""The file of a store that a command makes: complete and on the disk under its name, or not there at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskyard_server.cli.failure import Failure

LOG = "-wal"
"""Added to the name of a database: SQLite's write-ahead log, which is a part of it."""


@contextmanager
def new_store_file(target: Path) -> Iterator[Path]:
    """A name for a new store, which is moved to `target` in the end. Raises `Failure` if there is one already."""
    if target.exists():
        raise Failure(f"{target} exists")
    with _folder_beside(target) as folder:
        yield folder / target.name
        _move(folder / target.name, target)


@contextmanager
def _folder_beside(target: Path) -> Iterator[Path]:
    try:
        target.parent.mkdir(0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{target.name}.", dir=target.parent) as folder:
            yield Path(folder)
    except OSError as error:
        raise Failure(f"{target}: {(error.strerror or str(error)).lower()}") from None


def _move(new: Path, target: Path) -> None:
    """Give a closed store its name, so that a power cut leaves it or nothing there."""
    if (log := new.with_name(new.name + LOG)).exists() and log.stat().st_size:
        raise Failure(f"{target}: the copy was not closed; try again")
    _sync(new)
    new.rename(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
