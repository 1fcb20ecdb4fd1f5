"""The file from which Envoy learns which replica owns which namespace (gateway/carrier.lua).

A change is a line at its end, so that it costs the same in a table of 100,000 namespaces. Once the changes are many the
table is written anew, under the same path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MOVED: Final = "!\n"
"""The last line of a file that another one has replaced."""
LEAST_CHANGES: Final = 10_000
"""This many changes are appended before the table is written anew, or as many as it has namespaces."""


class OwnerFile:
    """The file at this path. Namespaces and clusters hold no blanks."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._written: dict[str, str] = {}
        self._changes = 0
        self._is_whole = False

    def write(self, owners: Mapping[str, str]) -> None:
        """Make this the table: a cluster for each namespace. Raises `OSError`; the next one then writes all anew."""
        gone = [f"{namespace}\n" for namespace in self._written if namespace not in owners]
        new = [f"{name} {cluster}\n" for name, cluster in owners.items() if self._written.get(name) != cluster]
        changes = gone + new
        self._changes += len(changes)
        if self._file is None or not self._is_whole or self._changes > max(LEAST_CHANGES, len(owners)):
            self._replace(owners)
        elif changes:
            self._is_whole = False
            _append(self._file, "".join(changes))
        self._is_whole = True
        self._written = dict(owners)

    def close(self) -> None:
        """Write no more."""
        if self._file is not None:
            os.close(self._file)
        self._file = None
        self._written = {}

    def _replace(self, owners: Mapping[str, str]) -> None:
        new = self.path.with_suffix(".new")
        text = "".join(f"{namespace} {cluster}\n" for namespace, cluster in owners.items())
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            _append(file, text)
            new.rename(self.path)
        except OSError:
            os.close(file)
            raise
        before, self._file, self._changes = self._file, file, 0
        if before is not None:
            try:
                # What was cut off before must not be a part of this line.
                _append(before, f"\n{MOVED}")
            finally:
                os.close(before)


def _append(file: int, text: str) -> None:
    data = memoryview(text.encode())
    while data:
        data = data[os.write(file, data) :]
