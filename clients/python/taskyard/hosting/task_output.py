"""Where what a handler says goes: to a stream, to the host of a worker process, or into the record of a unit test."""

from collections.abc import Generator
from typing import Final, Protocol

from taskyard.v1.output_pb2 import NewChunk

NOT_TAKEN: Final = "the server takes no output: it, or another replica of its yard, is of an older version"


class TaskOutput(Protocol):
    """The output of one task. Its methods may be called from any thread."""

    @property
    def refusal(self) -> str:
        """Why nothing is taken, empty if it is."""

    def take(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk of this many bytes if there is room for it. False if there is not."""

    def take_over(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk for which nobody can wait. False if far too many were sent like that."""

    def wait(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk once there is room for it, and block meanwhile. False if it is refused."""

    async def wait_here(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk once there is room for it. False if it is refused."""

    def flush(self) -> None:
        """Block until what was said before is kept, or the lease is over. Not in the loop of the handler."""

    def stop(self) -> None:
        """Let nothing wait any more, since the task is to end."""

    def end(self) -> None:
        """The task has ended, and says no more."""


class NextTurn:
    """Awaiting it gives way for one turn of the event loop. It need not be awaited."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        yield


def check_sent(was_sent: bool, refusal: str = NOT_TAKEN) -> None:
    """Check that what was said is taken.

    Args:
        was_sent: Whether it was.
        refusal: Why not. Default the server takes no output.

    Raises:
        Unimplemented: It is not taken.
    """
    if not was_sent:
        # Worker processes need no grpc until here.
        from taskyard.errors import Unimplemented

        raise Unimplemented(f"emit: {refusal}")
