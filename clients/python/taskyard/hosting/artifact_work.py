"""Artifacts as a handler has them: under the lease of its task, in whatever way the handler runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from taskyard.calls.artifacts import Content
    from taskyard.records.artifacts import Artifact
    from taskyard.v1.lease_pb2 import Assignment

T = TypeVar("T")


class TaskArtifacts(Protocol):
    """The artifacts of one task. Its methods block, and may be called from any thread."""

    def put(self, name: str, content: Content, media_type: str | None) -> Artifact:
        """Put an artifact.

        Args:
            name: Its name.
            content: Its bytes, or the file that has them.
            media_type: The media type, None for what the name says.

        Returns:
            The artifact.

        Raises:
            TaskyardError: It is refused.
            OSError: The file cannot be read.
        """

    def read(self, name: str, of: str = "") -> bytes:
        """Read an artifact.

        Args:
            name: Its name.
            of: The input whose artifact it is. Default it is one of the task itself.

        Returns:
            Its bytes.

        Raises:
            TaskyardError: It cannot be read.
        """


def place_of(name: str, of: str) -> str:
    """Name an artifact among those of a task and of its inputs.

    Args:
        name: Its name.
        of: The input whose artifact it is, empty if it is one of the task itself.

    Returns:
        Its name, for that of an input such as `page/shot.png`.
    """
    return f"{of}/{name}" if of else name


def hashes_of(assignment: Assignment) -> dict[str, str]:
    """Read the hashes of the artifacts of a task and of its inputs.

    Args:
        assignment: The task as it was assigned.

    Returns:
        The hashes in hex, by what `place_of` names them.
    """
    hashes = {artifact.name: artifact.sha256 for artifact in assignment.task.artifacts}
    for of, found in assignment.inputs.items():
        hashes |= {place_of(artifact.name, of): artifact.sha256 for artifact in found.artifacts}
    return hashes


class Work(Generic[T]):
    """The outcome of a call: awaited in an async handler, and there at once, as `value`, in a plain function.

    Args:
        call: The call, which blocks.
        must_wait: True if it is made when it is awaited, False if it is made now.
    """

    __slots__ = ("_call", "_is_done", "_value")

    def __init__(self, call: Callable[[], T], must_wait: bool) -> None:
        self._call = call
        self._is_done = not must_wait
        self._value: Any = None if must_wait else call()

    def __await__(self) -> Generator[Any, None, T]:
        if not self._is_done:
            self._value = yield from self._made().__await__()
            self._is_done = True
        value: T = self._value
        return value

    async def _made(self) -> T:
        return await asyncio.to_thread(self._call)

    @property
    def is_done(self) -> bool:
        """True if the outcome is there."""
        return self._is_done

    @property
    def value(self) -> T:
        """The outcome.

        Raises:
            RuntimeError: It must be awaited first.
        """
        if not self._is_done:
            raise RuntimeError("await it: the handler is an async one")
        value: T = self._value
        return value
