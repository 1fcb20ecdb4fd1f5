"""Artifacts as a handler has them: under the lease of its task, in whatever way the handler runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from taskyard.calls.artifacts import Content
    from taskyard.records.artifacts import Artifact
    from taskyard.v1.task_pb2 import Task

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

    def read(self, name: str) -> bytes:
        """Read an artifact.

        Args:
            name: Its name.

        Returns:
            Its bytes.

        Raises:
            TaskyardError: It cannot be read.
        """


def hashes_of(task: Task) -> dict[str, str]:
    """Read the hashes of the artifacts of a task.

    Args:
        task: The task as it was assigned.

    Returns:
        The hashes in hex, by the names of the artifacts.
    """
    return {artifact.name: artifact.sha256 for artifact in task.artifacts}


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
            self._value = yield from asyncio.to_thread(self._call).__await__()
            self._is_done = True
        value: T = self._value
        return value

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
