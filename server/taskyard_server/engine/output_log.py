"""The newest output of tasks: chunks that are kept, those that wait for a commit, and who follows.

With a store only a tail is here, so that who follows needs no rows; without one it is all there is. Nobody is told of
chunks before they are kept.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from taskyard_server.core.errors import Refusal
from taskyard_server.core.runs.outputs import Appended
from taskyard_server.store.port import OutputCut, OutputRow, key_of
from taskyard_server.store.records.records import OutputRecord, decode_output
from taskyard_server.store.records.tasks import encode

if TYPE_CHECKING:
    from taskyard_server.core.runs.outputs import Outputs, Saying, TaskOutput
    from taskyard_server.store.port import Group

    from .views import RunFigures

ROW_BYTES: Final = 256 * 1024
"""More chunks of one task that come before a commit stand in several rows."""
TAIL_BYTES = 64 * 1024
"""The most of one task that stays in memory beside a store. Tests lower it."""
ALL_TAILS_BYTES: Final = 64 * 1024 * 1024
"""The most of all tasks that does. Those that have been silent for longest go first."""
ALL_BYTES: Final = 256 * 1024 * 1024
"""The most of all tasks in memory where there is no store. What goes then is dropped."""


Encode: TypeAlias = Callable[[int, Appended, float], Sequence[bytes]]
"""Makes what is told of the chunks of a saying, given by its index, that were taken at a time."""


class ChunkRow:
    """Chunks that stand together: the numbers of the first and of the one after the last, and their encoded forms.

    `size` is their bytes, and `begin` those that the task had said before.
    """

    __slots__ = ("_chunks", "_more", "begin", "end", "first", "size")

    def __init__(self, first: int, begin: int) -> None:
        self.first = self.end = first
        self.begin = begin
        self.size = 0
        self._chunks = b""
        self._more: list[bytes] | None = None

    def add(self, chunk: bytes, size: int) -> None:
        """Add the next chunk, of this size."""
        # Most rows have a single one.
        if not self._chunks:
            self._chunks = chunk
        elif self._more is None:
            self._more = [self._chunks, chunk]
        else:
            self._more.append(chunk)
        self.end += 1
        self.size += size

    @property
    def chunks(self) -> bytes:
        """All of them, as they are told."""
        if self._more is not None:
            self._chunks, self._more = b"".join(self._more), None
        return self._chunks


def stored_row(row: OutputRow) -> ChunkRow:
    """A row that a store has kept."""
    record = decode_output(row.record)
    stored = ChunkRow(row.first, row.begin)
    stored.add(record.chunks, record.size)
    stored.end = row.first + record.count
    return stored


class OutputLog:
    """The newest output of one task. `end` is the number after the last kept chunk, 0 while that is not known."""

    __slots__ = ("bytes", "end", "followers", "output", "rows", "waiting")

    def __init__(self) -> None:
        self.end = 0
        self.rows: deque[ChunkRow] = deque()
        self.waiting: list[ChunkRow] = []
        self.bytes = 0
        self.output: TaskOutput | None = None
        self.followers: set[asyncio.Future[None]] = set()

    def covers(self, number: int) -> bool:
        """True if the chunks from this number on are here."""
        return number >= self.rows[0].first if self.rows else 0 < self.end <= number

    def from_(self, number: int, limit_bytes: int) -> list[ChunkRow]:
        """The rows from the one with this number on, at least one if there is any; `covers` says if they are here."""
        rows: list[ChunkRow] = []
        size = 0
        for row in reversed(self.rows):
            if row.end <= number:
                break
            rows.append(row)
        rows.reverse()
        for index, row in enumerate(rows):
            size += row.size
            if size > limit_bytes and index:
                return rows[:index]
        return rows

    def wake(self) -> None:
        """Let those who follow look again."""
        for follower in self.followers:
            if not follower.done():
                follower.set_result(None)
        self.followers.clear()


class Memory:
    """The rows of all logs of a server, within `max_bytes`: tails beside a store, or all there is if it `is_all`."""

    def __init__(self, max_bytes: int = ALL_TAILS_BYTES, is_all: bool = False) -> None:
        self.is_all = is_all
        self._max_bytes = max_bytes
        self._bytes = 0
        self._logs: OrderedDict[OutputLog, None] = OrderedDict()

    def grown(self, log: OutputLog, size: int) -> None:
        """A log has this much more, and is cut to its tail."""
        log.bytes += size
        self._bytes += size
        self._logs[log] = None
        self._logs.move_to_end(log)
        while log.bytes > TAIL_BYTES and not self.is_all:
            self._drop_oldest(log)
        while self._bytes > self._max_bytes:
            silent = next(iter(self._logs))
            while silent.rows:
                self._drop_oldest(silent)
            del self._logs[silent]
            if self.is_all and silent.output is not None:
                silent.output.drop_all()

    def forget(self, log: OutputLog) -> None:
        """A log is gone."""
        if log in self._logs:
            del self._logs[log]
            self._bytes -= log.bytes

    def _drop_oldest(self, log: OutputLog) -> None:
        size = log.rows.popleft().size
        log.bytes -= size
        self._bytes -= size


class OutputLogs:
    """The logs of the tasks of one namespace, by their order of submission."""

    def __init__(self) -> None:
        self.memory = Memory(ALL_BYTES, is_all=True)
        self._of: dict[int, OutputLog] = {}
        self._changed: dict[int, OutputLog] = {}
        self._cuts: dict[int, int] = {}
        self._committing: dict[int, tuple[OutputLog, list[ChunkRow], int]] = {}

    def __bool__(self) -> bool:
        """True if anything waits for a commit, or for the end of a turn."""
        return bool(self._changed or self._cuts)

    def of(self, number: int) -> OutputLog | None:
        """The log of a task, if it has one here."""
        return self._of.get(number)

    def follow(self, number: int) -> OutputLog:
        """The log of a task, for who follows or appends."""
        log = self._of.get(number)
        if log is None:
            log = self._of[number] = OutputLog()
        return log

    def left(self, number: int) -> None:
        """Who followed a task has left: its log goes if it has held nothing."""
        log = self._of.get(number)
        if log is not None and not (log.end or log.waiting or log.followers):
            del self._of[number]

    def take(
        self,
        outputs: Outputs,
        now: float,
        host_id: str,
        sayings: Sequence[Saying],
        encode: Encode,
        figures: RunFigures,
        own_only: bool,
    ) -> list[int | Refusal]:
        """Take what a host says. Answers for each saying how many chunks of its lease are taken, or its refusal."""
        outcomes: list[int | Refusal] = []
        chunks = size = dropped = 0
        for index, saying in enumerate(sayings):
            sizes = saying.sizes
            try:
                taken = outputs.append(
                    now, host_id, saying.task_id, saying.token, saying.number, sizes, own_only=own_only
                )
            except Refusal as refusal:
                # With its traceback, the refusal would hold this frame and so the list that holds it: a cycle.
                outcomes.append(refusal.with_traceback(None))
                continue
            if taken.repeated < len(sizes):
                if taken.repeated:
                    sizes = sizes[taken.repeated :]
                chunks += len(sizes)
                size += self._append(taken, encode(index, taken, now), sizes)
                dropped += taken.dropped
            outcomes.append(taken.output.taken)
        figures.chunks += chunks
        figures.chunk_bytes += size
        figures.dropped_bytes += dropped
        return outcomes

    def _append(self, taken: Appended, chunks: Sequence[bytes], sizes: Sequence[int]) -> int:
        """Add the encoded chunks that were taken, and drop what was. Returns the size of all of them."""
        number = taken.task.seq
        log = self.follow(number)
        first, begin = taken.first, taken.begin
        row = log.waiting[-1] if log.waiting else None
        # Rows are dropped as a whole, and parts of the output are.
        begins_part = taken.output.segments[-1][0] == first
        for chunk, size in zip(chunks, sizes, strict=True):
            if row is None or begins_part or row.size + size > ROW_BYTES:
                begins_part = False
                row = ChunkRow(first, begin)
                log.waiting.append(row)
            row.add(chunk, size)
            first += 1
            begin += size
        log.output, self._changed[number] = taken.output, log
        if taken.cut is not None:
            self._cuts[number] = taken.cut
        return begin - taken.begin

    def add_to(self, group: Group, namespace: int) -> None:
        """Add what came since the last commit to the next one."""
        for number, log in self._changed.items():
            output = log.output
            assert output is not None
            key = key_of(namespace, number)
            for row in log.waiting:
                # Chunks under an earlier lease can be in it, but none of them is said again.
                taken = max(0, output.taken - (output.next - row.end))
                record = OutputRecord(output.token, taken, row.end - row.first, row.size, row.chunks)
                group.outputs.append(OutputRow(key, row.first, row.begin, encode(record)))
            self._committing[number], log.waiting = (log, log.waiting, self._cuts.get(number, 0)), []
        for number, cut in self._cuts.items():
            group.output_cuts.append(OutputCut(key_of(namespace, number), cut))
        self._changed, self._cuts = {}, {}

    def committed(self) -> None:
        """All that the last `add_to` added is kept."""
        committing, self._committing = self._committing, {}
        for number, (log, rows, cut) in committing.items():
            if self._of.get(number) is log:
                self._tell(log, rows, cut)

    def publish(self) -> None:
        """Tell what has come, where nothing is kept outside."""
        for number, log in self._changed.items():
            rows, log.waiting = log.waiting, []
            self._tell(log, rows, self._cuts.get(number, 0))
        self._changed, self._cuts = {}, {}

    def _tell(self, log: OutputLog, rows: list[ChunkRow], cut: int) -> None:
        """Let these rows follow those of a log, and drop those whose first number is below a cut."""
        log.rows.extend(rows)
        log.end = rows[-1].end
        size = rows[0].size if len(rows) == 1 else sum([row.size for row in rows])
        while log.rows[0].first < cut:
            size -= log.rows.popleft().size
        self.memory.grown(log, size)
        log.wake()

    def forget(self, number: int, *, for_ever: bool) -> None:
        """A task has left memory, `for_ever` if no history keeps it: then its chunks are not committed, either."""
        log = self._of.pop(number, None)
        if log is not None:
            self.memory.forget(log)
            log.wake()
        if for_ever:
            self._changed.pop(number, None)
            self._cuts.pop(number, None)

    def end(self) -> None:
        """The namespace has left: let all who follow look again."""
        for log in self._of.values():
            log.wake()
            self.memory.forget(log)
