"""The way of output from handlers to the session of their stream, and what its answers change.

It lives in the event loop of the connection.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from taskyard.streams.mailbox import Mailbox
from taskyard.v1.output_pb2 import NewChunk, OutputAcks

from .outbox import LeaseKey
from .output_window import OutputWindow, WindowOutput
from .session import Session

RETRY_SECS: Final = 1.0
"""The delay before what was refused for the time being is said again."""


class OutputLink:
    """The output of one connection. Create it in any thread, and `open` it in the connection's loop.

    Args:
        session: The session of the connection.
        wake: Called when there may be something to write.
    """

    def __init__(self, session: Session, wake: Callable[[], None]) -> None:
        self._session = session
        self._wake = wake
        self._window = OutputWindow(self._put)
        session.output.on_freed = self._window.release
        self._box: Mailbox[tuple[LeaseKey, NewChunk, int]] | None = None
        self._retry: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Begin in the loop that runs."""
        self._box = Mailbox(asyncio.get_running_loop(), self._take)

    def begin(self, window: int) -> None:
        """Begin a stream.

        Args:
            window: How many bytes may be sent and not kept yet; 0 where the server takes no output.
        """
        self._window.begin(window)

    def close(self) -> None:
        """End with the connection: nothing is kept any more."""
        self._window.close()

    def of(self, key: LeaseKey) -> WindowOutput:
        """Make the output of a task.

        Args:
            key: Its lease.

        Returns:
            The output.
        """
        return WindowOutput(key, self._window)

    def take_all(self) -> None:
        """Take all that was said before now, as is needed before the end of its task is reported."""
        if self._box is not None:
            self._box.empty()

    def handle_acks(self, acks: OutputAcks) -> list[LeaseKey]:
        """Take the answers to a message of output.

        Args:
            acks: The answers.

        Returns:
            The leases whose handlers must stop.
        """
        stop = self._session.lose(self._session.output.handle_acks(acks.acks))
        if self._session.output.has_deferred and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECS, self._say_again)
        return stop

    def _put(self, key: LeaseKey, chunk: NewChunk, size: int) -> None:
        # Any thread calls this.
        assert self._box is not None
        self._box.put((key, chunk, size))

    def _take(self, said: list[tuple[LeaseKey, NewChunk, int]]) -> None:
        for key, chunk, size in said:
            self._session.output.add(key, chunk, size)
        self._wake()

    def _say_again(self) -> None:
        self._retry = None
        self._session.output.resume()
        self._wake()
