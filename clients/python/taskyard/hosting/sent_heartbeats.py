"""The heartbeats of a host that the server has not answered yet."""

from collections import deque
from typing import NamedTuple

from .outbox import LeaseKey


class SentHeartbeat(NamedTuple):
    """A heartbeat: its number, when it was sent (in seconds), and which leases its answer renews."""

    sequence: int
    sent_at: float
    listed: list[LeaseKey]


class SentHeartbeats:
    """The unanswered heartbeats of a stream. Their numbers go on over all streams of a host."""

    def __init__(self) -> None:
        self._last = 0
        self._unanswered: deque[SentHeartbeat] = deque()

    def add(self, now: float, listed: list[LeaseKey]) -> int:
        """Note a heartbeat.

        Args:
            now: When it is sent, in seconds.
            listed: The leases that it lists.

        Returns:
            Its number.
        """
        self._last += 1
        self._unanswered.append(SentHeartbeat(self._last, now, listed))
        return self._last

    def take(self, sequence: int) -> SentHeartbeat | None:
        """Take out the heartbeat that is answered, and those before it.

        Args:
            sequence: The number in the answer.

        Returns:
            The heartbeat, None if none with this number waits for an answer.
        """
        while self._unanswered and self._unanswered[0].sequence <= sequence:
            heartbeat = self._unanswered.popleft()
            if heartbeat.sequence == sequence:
                return heartbeat
        return None

    def clear(self) -> None:
        """Forget the unanswered ones, since their stream is gone."""
        self._unanswered.clear()
