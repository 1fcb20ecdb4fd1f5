"""References in the place of values that are too large, and are artifacts of the task (docs/rules.md, Artifacts)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

KEY: Final = "$artifact"
RESULT: Final = "result.json"
PARAMS: Final = "params.json"
"""The names of the artifacts that results and params become."""
JSON: Final = "application/json"


class HasHash(Protocol):
    """An artifact, as the API sends it or as a record."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def sha256(self) -> str:
        """The SHA-256 of its bytes, in hex."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A value that is an artifact.

    Attributes:
        name: The name of the artifact.
        size_bytes: Its size.
        sha256: The SHA-256 of its bytes, in hex.
        encoding: The name of the codec that made them. None: they are JSON in UTF-8.
    """

    name: str
    size_bytes: int
    sha256: str
    encoding: str | None = None

    def plain(self, href: str | None = None) -> dict[str, Any]:
        """Build what stands in the place of the value.

        Args:
            href: The path under which REST has it. Default it is left out.

        Returns:
            A JSON object.
        """
        told: dict[str, Any] = {"name": self.name, "sizeBytes": self.size_bytes, "sha256": self.sha256}
        if self.encoding is not None:
            told["encoding"] = self.encoding
        if href is not None:
            told["href"] = href
        return {KEY: told}

    def is_of(self, name: str, artifacts: Iterable[HasHash]) -> bool:
        """Say whether it is the reference to a value of a task.

        Args:
            name: The name under which the value is kept.
            artifacts: The artifacts of the task.

        Returns:
            Whether the task has it.
        """
        return self.name == name and any(each.name == name and each.sha256 == self.sha256 for each in artifacts)


def reference_in(value: Any) -> Reference | None:
    """Find out whether a value is a reference.

    Args:
        value: A JSON value.

    Returns:
        The reference, None if the value is something else.
    """
    told = value.get(KEY) if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(told, dict):
        return None
    name, size, sha256 = told.get("name"), told.get("sizeBytes"), told.get("sha256")
    if not isinstance(name, str) or not isinstance(size, (int, float)) or not isinstance(sha256, str):
        return None
    encoding = told.get("encoding")
    return Reference(name, int(size), sha256, encoding if isinstance(encoding, str) else None)
