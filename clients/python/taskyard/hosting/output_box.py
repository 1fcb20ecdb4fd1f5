"""The chunks that tasks of a host say: which are to be sent, which are sent and not kept yet, which are sent again.

It numbers the chunks of each lease and packs them into messages (docs/rules.md, Output). There is no clock here; like
`outbox`, it does not know which leases are held.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from taskyard.v1.output_pb2 import LeaseOutput, NewChunk, Output, OutputAck

from .outbox import LOST_CODES, LeaseKey, key_of

log = logging.getLogger("taskyard")

MESSAGE_BYTES: Final = 128 * 1024
"""About the largest message of output: what comes after it waits no longer than that takes."""


class OutputBox:
    """Chunks by lease, from when they are said until the server keeps them.

    Attributes:
        on_freed: Called with a lease, and the bytes of chunks of it that are no longer here. Default nothing.

    Args:
        may_say: Says whether anything is to be sent under a lease.
    """

    def __init__(self, may_say: Callable[[LeaseKey], bool]) -> None:
        self._may_say = may_say
        self.on_freed: Callable[[LeaseKey, int], None] = lambda _key, _size: None
        self._window = 0
        """How many bytes may be sent and not kept yet, on this stream."""
        self._sent_bytes = 0
        self._said: dict[LeaseKey, _Said] = {}
        """All leases that have said anything: their numbers go on over streams."""
        self._unsent: dict[LeaseKey, None] = {}
        """The leases that have chunks to be sent, those first that have waited longest."""
        self._deferred: dict[LeaseKey, None] = {}
        """The leases whose chunks were refused for the time being."""

    @property
    def has_deferred(self) -> bool:
        """True if there are chunks that `resume` makes ready again."""
        return bool(self._deferred)

    def holds(self, key: LeaseKey) -> bool:
        """Say whether chunks of a lease are to be sent before the report of its end.

        Args:
            key: The lease.

        Returns:
            Whether any are. Once the server has refused some for the time being, until it keeps all of them.
        """
        said = self._said.get(key)
        return said is not None and bool(said.unsent or (said.was_refused and said.sent))

    def add(self, key: LeaseKey, chunk: NewChunk, size: int) -> None:
        """Add a chunk that a task says, unless its lease is over.

        Args:
            key: Its lease.
            chunk: The chunk.
            size: Its bytes.
        """
        said = self._said.get(key)
        if not self._window or not self._may_say(key) or (said is not None and said.is_closed):
            self.on_freed(key, size)
            return
        if said is None:
            said = self._said[key] = _Said()
        said.unsent.append((chunk, size))
        if key not in self._deferred:
            self._unsent[key] = None

    def drop(self, key: LeaseKey) -> None:
        """Drop the chunks of a lease that is over.

        Args:
            key: The lease.
        """
        said = self._said.pop(key, None)
        if said is None:
            return
        if said.was_refused:
            log.warning("task %s: %d chunks of its output were not kept", key[0], said.count)
        self._unsent.pop(key, None)
        self._deferred.pop(key, None)
        self._free(key, said, said.count)

    def welcome(self, window: int) -> None:
        """Begin a stream.

        Args:
            window: How many bytes may be sent and not kept yet; 0 where the server takes no output.
        """
        self._window = window
        if window:
            return
        for key, said in self._said.items():
            if said.count:
                log.warning("task %s: its output ends here, since this server takes none", key[0])
                # Which of them were kept is not known, so neither is the next number.
                said.is_closed = True
                self._free(key, said, said.count)
        self._unsent.clear()

    def disconnected(self) -> None:
        """End a stream. What was not kept is to be sent again."""
        self._deferred.clear()
        for key, said in self._said.items():
            self._take_back(said)
            said.unanswered = said.stale = 0
            said.was_refused = False
            if said.unsent:
                self._unsent[key] = None

    def next_message(self, first: Iterable[LeaseKey] = ()) -> Output | None:
        """Take the chunks of the next message.

        Args:
            first: The leases that come first, since reports wait for them. Default none.

        Returns:
            The message, None if there is nothing to send, or too much is not kept yet.
        """
        if not self._unsent or not self._window:
            return None
        message, room = Output(), MESSAGE_BYTES
        for key in dict.fromkeys([*(key for key in first if key in self._unsent), *self._unsent]):
            said = self._said[key]
            number, chunks = said.kept + len(said.sent) + 1, []
            while said.unsent and self._has_room(size := said.unsent[0][1]):
                if room < size and room < MESSAGE_BYTES:
                    break
                each = said.unsent.popleft()
                said.sent.append(each)
                chunks.append(each[0])
                self._sent_bytes += size
                room -= size
            if chunks:
                message.leases.append(LeaseOutput(task_id=key[0], fencing_token=key[1], number=number, chunks=chunks))
                said.unanswered += 1
                del self._unsent[key]
            if said.unsent:
                # What others have to say comes before the rest of it.
                self._unsent[key] = None
                break
        return message if message.leases else None

    def handle_acks(self, acks: Iterable[OutputAck]) -> list[LeaseKey]:
        """Take the answers to a message of output.

        Args:
            acks: The answers, in the order in which the messages were sent.

        Returns:
            The leases that are over.
        """
        lost = []
        for ack in acks:
            key = key_of(ack)
            said = self._said.get(key)
            if said is None or not said.unanswered:
                continue
            said.unanswered -= 1
            # It was sent behind chunks that are missing now, and is sent again with them.
            is_stale = said.stale > 0
            said.stale -= is_stale
            self._keep(key, said, ack.taken)
            code = ack.error.code
            if not ack.HasField("error") or (is_stale and code not in LOST_CODES):
                continue
            if code == "unavailable":
                self._defer(key, said)
                continue
            if code not in LOST_CODES:
                log.warning("task %s: output refused as %s: %s", key[0], code, ack.error.error)
            lost.append(key)
        return lost

    def resume(self) -> None:
        """Make ready again what was refused for the time being."""
        self._unsent.update(self._deferred)
        self._deferred.clear()

    def _has_room(self, size: int) -> bool:
        # A chunk that is larger than the window goes alone.
        return not self._sent_bytes or self._sent_bytes + size <= self._window

    def _defer(self, key: LeaseKey, said: "_Said") -> None:
        self._take_back(said)
        said.stale, said.was_refused = said.unanswered, True
        self._unsent.pop(key, None)
        self._deferred[key] = None

    def _take_back(self, said: "_Said") -> None:
        """Make unsent again what is not kept."""
        self._sent_bytes -= sum(size for _, size in said.sent)
        said.unsent.extendleft(reversed(said.sent))
        said.sent.clear()

    def _keep(self, key: LeaseKey, said: "_Said", taken: int) -> None:
        """The server keeps the chunks up to this number."""
        count = min(taken - said.kept, len(said.sent))
        if count > 0:
            said.kept += count
            self._free(key, said, count)
        if not said.count:
            said.was_refused = False

    def _free(self, key: LeaseKey, said: "_Said", count: int) -> None:
        """Take out the first chunks of a lease."""
        freed = 0
        for _ in range(count):
            if said.sent:
                size = said.sent.popleft()[1]
                self._sent_bytes -= size
            else:
                size = said.unsent.popleft()[1]
            freed += size
        if freed:
            self.on_freed(key, freed)


class _Said:
    """The chunks of one lease that are not kept yet, and how many were kept before them.

    Of `unanswered` messages the first `stale` came behind chunks that were refused.
    """

    __slots__ = ("is_closed", "kept", "sent", "stale", "unanswered", "unsent", "was_refused")

    def __init__(self) -> None:
        self.sent: deque[tuple[NewChunk, int]] = deque()
        self.unsent: deque[tuple[NewChunk, int]] = deque()
        self.kept = 0
        self.unanswered = 0
        self.stale = 0
        self.was_refused = False
        """True once some were refused for the time being, until all are kept."""
        self.is_closed = False
        """True if it can say no more."""

    @property
    def count(self) -> int:
        return len(self.sent) + len(self.unsent)
