"""The port of a store: what an engine needs to keep what happened, and to find it again.

A store loads, commits and fences. It knows no scheduling, and never looks into a record. Keys are integers: the number
of a namespace above, a number within it below. Times are seconds on the engine's clock, those of `ended` rows
milliseconds.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol

NAMESPACE_SHIFT: Final = 40
"""A namespace has room for 2^40 tasks, some thirty years at a thousand a second."""
LAST_KEY: Final = (1 << 63) - 1
FORMAT_LEVEL: Final = 5
"""The newest format of records that this version reads and writes; 3 is that of the last release, 0.3.0. Where
replicas share a store a newer one is written only once all of them know it. Level 2 has the run timeout, parent and
input of a task, and the code, traceback and output of its history; level 3 has extras and bound keys; level 4 has
output of tasks; level 5 has artifacts in the history, inputs, and `on_parent_end`."""
ADDED_FIELDS_LEVEL: Final = 2
EXTRAS_LEVEL: Final = 3
OUTPUT_LEVEL: Final = 4
ARTIFACTS_LEVEL: Final = 5
"""The levels from which on these are kept."""
UNKNOWN_BYTES: Final = 1 << 62
"""As what is free on a disk that cannot be asked: so nothing is refused for that."""
SEGMENT_BYTES: Final = 1 << 19
"""The output of a task is dropped in such parts, to make room for more (docs/rules.md, Output)."""
EPOCH_JUMP: Final = 1 << 20
"""The jump of a restored store in all that must never go back (docs/operate/durability.md, Restore)."""


class Table(IntEnum):
    """The tables of a store; the values stand in groups on their way to a writer."""

    NAMESPACES = 0
    TASKS = 1
    STATES = 2
    ENDED = 3
    STOPPING = 4
    HOSTS = 5
    AGENTS = 6
    SCHEDULES = 7
    TRIGGERS = 8
    OUTBOX = 9
    TOKENS = 10
    """Its rows belong to no namespace."""
    SECRETS = 11
    """Nor do these, of which one that is there is never replaced: who puts one reads it again."""
    TOKEN_USES = 12
    """When tokens were last used, by their keys. They are apart so that none who notes a use undoes a revocation."""
    OPERATIONS = 13
    RULES = 14
    EVENTS = 15


def key_of(namespace: int, number: int) -> int:
    """The key of a row of a namespace."""
    return namespace << NAMESPACE_SHIFT | number


def number_of(key: int) -> int:
    """The number within its namespace that a key holds."""
    return key & (1 << NAMESPACE_SHIFT) - 1


def namespace_of(key: int) -> int:
    """The namespace that a key holds."""
    return key >> NAMESPACE_SHIFT


def keys_of(namespace: int) -> tuple[int, int]:
    """The first and the last key that a namespace can have."""
    return namespace << NAMESPACE_SHIFT, (namespace + 1 << NAMESPACE_SHIFT) - 1


Row = tuple[int, bytes]
"""A key and its record."""
EndedRow = tuple[int, int, bytes]
"""A key, when the task ended, in milliseconds, and its record."""


class OutputRow(NamedTuple):
    """Chunks of one task's output that were committed together: `key` is the task's, `first` their first number.

    `begin` is how many bytes of chunks the task had said before these, those that were dropped included.

    Steps are never cut, and stand below 0: -1 is the `first` of the first one, and their `begin` is always 0.
    """

    key: int
    first: int
    begin: int
    record: bytes


class OutputCut(NamedTuple):
    """Rows of a task's output to remove: all from 1 to below `before`, none that the same group puts; no steps."""

    key: int
    before: int


class OutputState(NamedTuple):
    """The output of one task as it is kept: its newest row, and of each segment the `first` and `begin` of its oldest.

    A segment has the rows whose `begin` divided by `SEGMENT_BYTES` is the same.
    """

    newest: OutputRow
    segments: list[tuple[int, int]]


class Fence(NamedTuple):
    """The right by which rows of a namespace are written where replicas share a store: its owner's term.

    `number` counts the commits of the namespace from 1 without gaps, over all terms. `needs_owner` says whether
    anything will come due in it, so that a replica must own it also while nobody calls.
    """

    term: int
    number: int
    needs_owner: bool


@dataclass(slots=True)
class Group:
    """The content of one commit: all of it or nothing. Commits are numbered from 1 without gaps; `at` is its time.

    Rows that are removed, and those of `output_cuts`, are removed before others are put; the output of a task goes with
    its row in `TASKS`, also what is put with it. `epoch` is that of the store (`StoreMeta`). Where replicas share the
    store, `fences` has each namespace of which rows are written: those that are owned no longer are left out
    (`Committed.lost`), and `number` means nothing.
    """

    number: int
    at: float
    epoch: int = 0
    fences: dict[int, Fence] = field(default_factory=dict)
    puts: dict[Table, list[Row]] = field(default_factory=dict)
    ended: list[EndedRow] = field(default_factory=list)
    removes: dict[Table, list[int]] = field(default_factory=dict)
    outputs: list[OutputRow] = field(default_factory=list)
    output_cuts: list[OutputCut] = field(default_factory=list)

    def put(self, table: Table, key: int, record: bytes) -> None:
        """Write a row, also where there is one; not for `ENDED`."""
        rows = self.puts.get(table)
        if rows is None:
            rows = self.puts[table] = []
        rows.append((key, record))

    def remove(self, table: Table, key: int) -> None:
        """Remove a row, if it is there."""
        keys = self.removes.get(table)
        if keys is None:
            keys = self.removes[table] = []
        keys.append(key)

    def number_of(self, namespace: int) -> int:
        """The number of this commit, as the rows of a namespace bear it."""
        fence = self.fences.get(namespace)
        return self.number if fence is None else fence.number

    def mark(self) -> dict[int, int]:
        """How far each of its lists has come, for `back_to`."""
        return {id(rows): len(rows) for rows in self._lists()}

    def back_to(self, mark: dict[int, int]) -> None:
        """Drop what was added since a mark."""
        for rows in self._lists():
            del rows[mark.get(id(rows), 0) :]

    def _lists(self) -> Iterable[list[Any]]:
        return (*self.puts.values(), self.ended, *self.removes.values(), self.outputs, self.output_cuts)

    def __len__(self) -> int:
        """How many rows are written or removed."""
        return sum(map(len, self._lists()))


class StoreMeta(NamedTuple):
    """The state of an opened store: the number and the time of the last commit, 0 if there was none.

    `epoch` counts the restores of the store from backups. The record of a namespace says in which epoch it was written;
    one of an earlier epoch comes from a backup. Then all of that namespace that must never go back, its last order and
    its last fencing token, jumps by `EPOCH_JUMP` for each epoch in between, and its leases end; its next commit writes
    its record with the present epoch. (The numbers of commits have jumped already.)
    """

    number: int
    at: float
    epoch: int


class Committed(NamedTuple):
    """A commit that succeeded: the seconds that it took at the store, the file's bytes and the free ones beside it.

    Of the namespaces that were `lost`, owned by others or by nobody under that term, nothing was written.
    """

    secs: float
    used_bytes: int
    free_bytes: int
    lost: frozenset[int] = frozenset()


class TaskRows(NamedTuple):
    """One task as it is kept: `state` while it is live, `ended` and `ended_at` (milliseconds) afterwards."""

    key: int
    task: bytes
    state: bytes | None
    ended: bytes | None
    ended_at: int | None


class Sought(NamedTuple):
    """Bytes that must stand in the rows of a task, one of each group: of `task` in this row, of `state` in the other.

    `may_be_as_submitted` is whether an empty record of a state will do. `ended` is from and until when it must have
    ended, both included.
    """

    task: tuple[tuple[bytes, ...], ...] = ()
    state: tuple[tuple[bytes, ...], ...] = ()
    may_be_as_submitted: bool = True
    ended: tuple[int, int] | None = None


class Page(NamedTuple):
    """Some rows of a scan, and where it goes on, None at its end. `looked_at` counts those that it passed by, too."""

    rows: list[TaskRows]
    next_key: int | None
    looked_at: int


class StoreStats(NamedTuple):
    """Figures of a store: rows by table name, bytes."""

    rows: dict[str, int]
    used_bytes: int
    free_bytes: int
    number: int
    at: float
    epoch: int
    version: int


class StoreError(Exception):
    """The store cannot be used, or no longer. The text is one line that says what is wrong and what to do."""


class BackupFailed(Exception):
    """A backup, or the copy that a check needs, could not be made; the store is well. The text says what to do."""


class CommitDelayed(Exception):
    """A commit failed for a reason that may pass, such as a full disk; nothing was written. The text says which."""


class Store(Protocol):
    """A store. Calls are served in their order: what reads after a commit was begun sees that commit."""

    @property
    def url(self) -> str:
        """The location that `store.url` names, without secrets, for people."""

    async def open(self) -> StoreMeta:
        """Open the store, make or migrate it where it must be, and lock everybody else out. Raises `StoreError`."""

    async def commit(self, group: Group) -> Committed:
        """Write a group durably. One at a time. A group that was written already counts as written.

        Raises `CommitDelayed`, after which the same group is to be committed again, or `StoreError`, which is final.
        """

    def rows(
        self, table: Table, *, after_key: int = -1, last_key: int = LAST_KEY, limit: int | None = None
    ) -> AsyncIterator[Sequence[Row]]:
        """The rows of a table in order of their keys, in slices; not for `TASKS`, `STATES` and `ENDED`.

        All of them, or up to `limit` of those above `after_key` and up to `last_key`.
        """

    def live_tasks(self, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """The tasks that have a row in `STATES`, of all namespaces or one, in order of their keys, in slices."""

    def ended_tasks(self, since_ms: int, namespace: int | None = None) -> AsyncIterator[Sequence[TaskRows]]:
        """The tasks that ended at `since_ms` or later, of all namespaces or one, in order of their ends, in slices."""

    async def task(self, key: int) -> TaskRows | None:
        """One task, live or ended; None if it is not kept."""

    async def output(self, key: int, after: int, limit_bytes: int) -> list[OutputRow]:
        """The rows of a task's output that hold numbers above `after`, from the first on, in order.

        At least one if there is any, and no more once their records exceed `limit_bytes`. The first may also hold
        numbers up to `after`.
        """

    async def steps(self, key: int) -> list[OutputRow]:
        """The steps of a task, in order of their numbers."""

    async def output_state(self, key: int) -> OutputState | None:
        """The figures of a task's output as it is kept; None if there is none."""

    async def output_sizes(self, first_key: int, last_key: int) -> tuple[int, int | None]:
        """About how many bytes of output some tasks between two keys have, and the key to go on from; None at the end.

        What was committed last may be missing.
        """

    def outputs(self) -> AsyncIterator[Sequence[OutputRow]]:
        """The output and the steps of all tasks in order of their keys and first numbers, in slices."""

    async def scan(
        self, first_key: int, last_key: int, *, descending: bool, limit: int, sought: Sought | None = None
    ) -> Page:
        """Up to `limit` tasks with keys between the two, both included, live or ended, in order of their keys.

        With `sought` only those that hold it. A page may be short, even empty, although more follows.
        """

    async def forget(self, before_ms: int, limit: int, kept: Collection[int] = ()) -> int:
        """Remove up to `limit` tasks that ended before `before_ms`, with their output; how many were removed.

        Those with the keys `kept` stay. Raises `CommitDelayed`.
        """

    async def remove_namespace(self, number: int, limit: int) -> int:
        """Remove up to `limit` rows of a namespace, its own row last; how many, 0 once none is left.

        Output goes with its task. Nothing of it may be committed any more. Raises `CommitDelayed`.
        """

    async def check(self) -> list[str]:
        """The faults of the store, a line each; empty if there are none. Raises `BackupFailed`."""

    async def backup(self, path: str, *, replace: bool = False) -> None:
        """Write a copy of the store as of one commit to a new file, while others go on. Raises `BackupFailed`.

        A file that is there is refused, or replaced at the end at once.
        """

    async def stats(self) -> StoreStats:
        """Its figures."""

    async def free_bytes(self) -> int:
        """The bytes that are free where it lies; `UNKNOWN_BYTES` where that cannot be seen."""

    async def go_on_from(self, meta: StoreMeta) -> None:
        """Take over the numbers, the time and the epoch of another store, whose rows are to be copied here.

        Raises `StoreError` if anything was ever committed here.
        """

    async def close(self) -> None:
        """Finish what was begun, and let go of the store."""
