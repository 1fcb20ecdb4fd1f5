"""Notices that a file has changed: it was written, or another one is in its place."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

FileMark = tuple[int, int, int]


def mark_of(found: os.stat_result) -> FileMark:
    """A mark that differs once a file was written, or is another one."""
    return found.st_mtime_ns, found.st_ino, found.st_size


def marks_of(paths: Iterable[Path | None]) -> list[FileMark | None]:
    """The marks of files, where a path is given; None for one that cannot be looked at."""
    return [_mark_at(path) for path in paths if path is not None]


def _mark_at(path: Path) -> FileMark | None:
    try:
        return mark_of(path.stat())
    except OSError:
        return None
