"""The room that a stream has for output: handlers of any thread and any event loop wait for it, in their order."""

import asyncio
import contextlib
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from taskyard.v1.output_pb2 import NewChunk

from .outbox import LeaseKey
from .task_output import NOT_TAKEN

MAX_OVER_BYTES: Final = 1 << 20
"""This much more than there is room for is taken of those that cannot wait."""
FLUSH_SECS: Final = 60.0
"""How long a step waits at most for what was said before it. Its lease is over by then, or the server takes nothing."""

Put = Callable[[LeaseKey, NewChunk, int], None]


class OutputWindow:
    """The room of one stream. Everything may be called from any thread.

    Args:
        put: Takes the chunks for which there is room, with their leases and bytes, to the stream.
    """

    def __init__(self, put: Put) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._limit = 0
        self._used = 0
        self._owed: dict[LeaseKey, int] = {}
        """The bytes of each lease that are on the stream and not kept yet."""
        self._is_closed = False
        self._waiting: deque[Waiting] = deque()

    @property
    def is_open(self) -> bool:
        """True if the server takes output."""
        return self._limit > 0

    def begin(self, limit: int) -> None:
        """Begin a stream.

        Args:
            limit: How many bytes there is room for; 0 where the server takes no output.
        """
        with self._lock:
            self._limit = limit
            if limit:
                self._grant()
                return
            refused = list(self._waiting)
            self._waiting.clear()
        for each in refused:
            each.is_refused = True
            each.wake()

    def release(self, key: LeaseKey, size: int) -> None:
        """Note that chunks need their room no more.

        Args:
            key: Their lease.
            size: Their bytes.
        """
        with self._lock:
            self._used -= size
            self._owed[key] -= size
            if not self._owed[key]:
                del self._owed[key]
                self._freed.notify_all()
            self._grant()

    def flush(self, key: LeaseKey) -> None:
        """Block until the server keeps what was put on the stream under a lease, or the lease is over.

        Args:
            key: The lease.
        """
        with self._lock:
            self._freed.wait_for(lambda: self._is_closed or key not in self._owed, FLUSH_SECS)

    def close(self) -> None:
        """Let nobody wait for what was put on the stream, since there will be none any more."""
        with self._lock:
            self._is_closed = True
            self._freed.notify_all()

    def take(self, key: LeaseKey, chunk: NewChunk, size: int, over: float = 0) -> bool:
        """Put a chunk on the stream if there is room.

        Args:
            key: Its lease.
            chunk: The chunk.
            size: Its bytes.
            over: How many bytes more than there is room for are taken. Default none, nor before those that wait.

        Returns:
            Whether there was room.
        """
        with self._lock:
            if (self._waiting and not over) or not self._has_room(size, over):
                return False
            self._send(key, chunk, size)
            return True

    def queue(self, key: LeaseKey, chunk: NewChunk, size: int, wake: Callable[[], None]) -> "Waiting":
        """Put a chunk on the stream as soon as there is room.

        Args:
            key: Its lease.
            chunk: The chunk.
            size: Its bytes.
            wake: Called once that is done, from any thread.

        Returns:
            What waits, for `withdraw`.
        """
        waiting = Waiting(key, chunk, size, wake)
        with self._lock:
            if self.is_open:
                self._waiting.append(waiting)
                self._grant()
                return waiting
        waiting.is_refused = True
        wake()
        return waiting

    def withdraw(self, waiting: "Waiting") -> None:
        """Let a chunk wait no more, unless it was put on the stream.

        Args:
            waiting: What waits.
        """
        with self._lock, contextlib.suppress(ValueError):
            self._waiting.remove(waiting)
            self._grant()

    def hurry(self, key: LeaseKey) -> None:
        """Let nothing of a lease wait any more.

        Args:
            key: The lease.
        """
        with self._lock:
            for each in [each for each in self._waiting if each.key == key]:
                self._waiting.remove(each)
                self._take_waiting(each)
            self._grant()

    def _has_room(self, size: int, over: float = 0) -> bool:
        # A chunk that is larger than all there is goes alone.
        return self._used + size <= self._limit + over or not self._used

    def _grant(self) -> None:
        while self._waiting and self._has_room(self._waiting[0].size):
            self._take_waiting(self._waiting.popleft())

    def _take_waiting(self, waiting: "Waiting") -> None:
        self._send(waiting.key, waiting.chunk, waiting.size)
        waiting.wake()

    def _send(self, key: LeaseKey, chunk: NewChunk, size: int) -> None:
        self._used += size
        self._owed[key] = self._owed.get(key, 0) + size
        self._put(key, chunk, size)


class Waiting:
    """A chunk that waits for room.

    Attributes:
        is_refused: Whether the server takes no output any more.

    Args:
        key: Its lease.
        chunk: The chunk.
        size: Its bytes.
        wake: Called once it waits no more.
    """

    __slots__ = ("chunk", "is_refused", "key", "size", "wake")

    def __init__(self, key: LeaseKey, chunk: NewChunk, size: int, wake: Callable[[], None]) -> None:
        self.key = key
        self.chunk = chunk
        self.size = size
        self.wake = wake
        self.is_refused = False


class WindowOutput:
    """The output of one task, of which chunks are put on a stream. It is a `TaskOutput`.

    Args:
        key: The lease.
        window: The room of the stream.
    """

    __slots__ = ("_has_ended", "_has_waited", "_key", "_over", "_window")

    def __init__(self, key: LeaseKey, window: OutputWindow) -> None:
        self._key = key
        self._window = window
        self._over: float = 0
        self._has_waited = False
        self._has_ended = False

    @property
    def refusal(self) -> str:
        """Why nothing is taken, empty if it is."""
        return "" if self._window.is_open else NOT_TAKEN

    def take(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk if there is room.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            Whether there was. After the end of the task nothing is sent, and True returned.
        """
        return self._has_ended or self._window.take(self._key, chunk, size, self._over)

    def take_over(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk for which nobody can wait, also if there is no room, unless too much is over.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            Whether it is sent.
        """
        return self._has_ended or self._window.take(self._key, chunk, size, self._over or MAX_OVER_BYTES)

    def wait(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk once there is room, and block meanwhile.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            Whether it is sent; False if the server takes no output any more.
        """
        done = threading.Event()
        waiting = self._queue(chunk, size, done.set)
        done.wait()
        return not waiting.is_refused

    async def wait_here(self, chunk: NewChunk, size: int) -> bool:
        """Send a chunk once there is room.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            Whether it is sent; False if the server takes no output any more.
        """
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            # The loop may have ended without it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(done.set)

        waiting = self._queue(chunk, size, wake)
        try:
            await done.wait()
        except asyncio.CancelledError:
            self._window.withdraw(waiting)
            raise
        return not waiting.is_refused

    def flush(self) -> None:
        """Block until the server keeps what was said before, or the lease is over."""
        self._window.flush(self._key)

    def stop(self) -> None:
        """Let nothing wait any more, since the task is to end."""
        self._over = math.inf
        if self._has_waited:
            self._window.hurry(self._key)

    def end(self) -> None:
        """The task has ended, and says no more."""
        self._has_ended = True
        self.stop()

    def _queue(self, chunk: NewChunk, size: int, wake: Callable[[], None]) -> Waiting:
        self._has_waited = True
        waiting = self._window.queue(self._key, chunk, size, wake)
        if self._over:
            # It was stopped just before.
            self._window.hurry(self._key)
        return waiting
