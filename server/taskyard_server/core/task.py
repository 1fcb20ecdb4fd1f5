"""The task record, its states, and the one table of legal transitions.

This file knows nothing of queues, leases or hosts beyond holding a reference to them. `Lifecycle.transition` alone
changes `state`, and checks `LEGAL`.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from .history import History
from .runs.packed_history import packed, unpacked
from .task_options import TaskOptions

if TYPE_CHECKING:
    from .agents import Agent
    from .leases import Lease
    from .queue.lane import Rows
    from .search.task_pages import TaskPage


class TaskState(StrEnum):
    """The state of a task; the values are the documented ones (docs/rules.md, Task states)."""

    PENDING = "pending"
    QUEUED = "queued"
    ASSIGNED = "assigned"
    RUNNING = "running"
    PAUSED = "paused"
    PARKED = "parked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"

    # The hash of `Enum` is a Python function, and each transition looks states up in sets.
    __hash__ = str.__hash__


# Module attributes are faster to look up than members of an enum.
PENDING: Final = TaskState.PENDING
QUEUED: Final = TaskState.QUEUED
ASSIGNED: Final = TaskState.ASSIGNED
RUNNING: Final = TaskState.RUNNING
PAUSED: Final = TaskState.PAUSED
PARKED: Final = TaskState.PARKED
DONE: Final = TaskState.DONE
FAILED: Final = TaskState.FAILED
CANCELLED: Final = TaskState.CANCELLED
REJECTED: Final = TaskState.REJECTED

TERMINAL: Final = frozenset({DONE, FAILED, CANCELLED, REJECTED})
IN_FLIGHT: Final = frozenset({ASSIGNED, RUNNING})
WAITING: Final = frozenset({PENDING, QUEUED})
TIMED: Final = WAITING | IN_FLIGHT | {PARKED}
"""The states in which a deadline counts, if there is one."""
STOPPED: Final = frozenset({PAUSED, FAILED})
"""The states from which a task can be resumed or resolved."""

# The legal next states of each state. A new task is pending, queued or rejected. Of the terminal states only `failed`
# can be left again, while the task is retained: by resume, resolve or cancel.
LEGAL: Final[dict[TaskState, frozenset[TaskState]]] = {
    PENDING: frozenset({QUEUED, FAILED, CANCELLED}),
    QUEUED: frozenset({ASSIGNED, FAILED, CANCELLED}),
    ASSIGNED: frozenset({RUNNING, QUEUED, PENDING, PAUSED, DONE, FAILED, CANCELLED}),
    RUNNING: frozenset({QUEUED, PENDING, PAUSED, PARKED, DONE, FAILED, CANCELLED}),
    PARKED: frozenset({QUEUED, FAILED, CANCELLED}),
    PAUSED: frozenset({QUEUED, DONE, CANCELLED}),
    FAILED: frozenset({QUEUED, DONE, CANCELLED}),
    DONE: frozenset(),
    CANCELLED: frozenset(),
    REJECTED: frozenset(),
}


NO_OPTIONS: Final = TaskOptions()
"""Code that runs for every task asks first whether its options are these: cheaper than to read one of them."""
NO_EXTRAS: Final = NO_OPTIONS.extras
NO_HISTORY: Final = History()


class Submission(NamedTuple):
    """A request for a task (docs/rules.md, Submitting). `deadline` is a time; None means the default."""

    agent_id: str
    action: str
    tab_id: str | None = None
    ref: str | None = None
    params: bytes | None = None
    priority: int = 0
    deadline: float | None = None
    options: TaskOptions = NO_OPTIONS


TASK_FIELDS: Final = (
    "action",
    "agent",
    "begun_at",
    "commit",
    "created_at",
    "deadline_secs",
    "deliveries",
    "due_at",
    "error",
    "expired",
    "history",
    "host_id",
    "id",
    "lane",
    "lease",
    "options",
    "over_at",
    "params",
    "position_number",
    "priority",
    "progress",
    "queued_at",
    "ref",
    "result",
    "retained",
    "seq",
    "state",
    "tab_id",
    "token",
)


class Task:
    """One accepted (or rejected) task.

    Callers outside the core get the live object: they read it before the next command, and never write it. Times are
    seconds on the core's clock. `seq` is the order of submission. `due_at`, `begun_at` and `over_at` are `deadline`,
    `started_at` and `completed_at`, but `inf` for None, and `position_number` is `position`, 0 for None: numbers that
    are never None take no memory beside the record. `deadline_secs` is the length of a deadline that the submitter set.
    `expired` is whether the deadline passed while the task was queued. `commit` is the number of the last commit that
    wrote it to a store. `page` is where it stands in the table of tasks; a copy has none.

    A record takes several of the processor's cache lines: what a claim reads, long after the submission, comes first.
    """

    __slots__ = (*[name for name in TASK_FIELDS if name != "history"], "_history", "page")

    def __init__(
        self,
        task_id: str,
        seq: int,
        agent: Agent,
        submission: Submission,
        now: float,
        deadline: float | None,
        state: TaskState,
    ) -> None:
        self.state = state
        self.options = submission.options
        self.agent = agent
        self.lane: Rows | None = None
        self.due_at = inf if deadline is None else deadline
        self.lease: Lease | None = None
        self.token = 0
        self.deliveries = 0
        self._history: History | bytes = NO_HISTORY
        self.error: str | None = None
        self.host_id: str | None = None
        self.begun_at = inf
        self.queued_at = now
        self.progress: bytes | None = None
        self.id = task_id
        self.expired = False
        self.retained = False
        self.over_at = inf
        self.result: bytes | None = None
        self.seq = seq
        _, self.action, self.tab_id, self.ref, self.params, self.priority, _, _ = submission
        self.created_at = now
        self.deadline_secs = None if deadline is None else deadline - now
        self.position_number = 0
        self.commit = 0
        self.page: TaskPage

    def __copy__(self) -> Task:
        """A shallow copy. `copy.copy` cannot copy a compiled object without this method."""
        submission = Submission(self.agent.id, self.action)
        copy = Task(self.id, self.seq, self.agent, submission, self.created_at, self.deadline, self.state)
        for name in TASK_FIELDS:
            setattr(copy, name, getattr(self, name))
        return copy

    @property
    def history(self) -> History:
        """Its course, which is never changed but replaced. While it is packed it is unpacked at each look."""
        kept = self._history
        return unpacked(kept) if isinstance(kept, bytes) else kept

    @history.setter
    def history(self, history: History) -> None:
        self._history = packed(history) if isinstance(self._history, bytes) else history

    def pack(self) -> None:
        """Keep its history in few bytes from now on: the task rests."""
        self._history = packed(self.history)

    def unpack(self) -> None:
        """Have its history at hand again: the task goes on, and all look at it."""
        self._history = self.history

    @property
    def agent_id(self) -> str:
        """The agent that submitted the task."""
        return self.agent.id

    def is_overdue(self, now: float) -> bool:
        """True if the deadline has passed."""
        return self.due_at <= now

    @property
    def deadline(self) -> float | None:
        """When the task fails unless it has ended; None while a default deadline has not started to count."""
        return None if self.due_at == inf else self.due_at

    @deadline.setter
    def deadline(self, at: float | None) -> None:
        self.due_at = inf if at is None else at

    @property
    def started_at(self) -> float | None:
        """When a host began it first, None if none did."""
        return None if self.begun_at == inf else self.begun_at

    @started_at.setter
    def started_at(self, at: float | None) -> None:
        self.begun_at = inf if at is None else at

    @property
    def completed_at(self) -> float | None:
        """When it ended, None while it has not."""
        return None if self.over_at == inf else self.over_at

    @completed_at.setter
    def completed_at(self, at: float | None) -> None:
        self.over_at = inf if at is None else at

    @property
    def position(self) -> int | None:
        """How many were queued once it was, itself included; None if that is not told."""
        return self.position_number or None

    @position.setter
    def position(self, position: int | None) -> None:
        self.position_number = position or 0

    @property
    def token_limit(self) -> int | None:
        """The maximum tokens that the task may use: the limit of the last resume that set one, else the submitter's."""
        raised = self.history.token_limit
        return self.options.token_limit if raised is None else raised

    @property
    def is_held(self) -> bool:
        """True if the task is held until a resume releases it."""
        return self.history.held

    @property
    def keeps_target(self) -> bool:
        """True if its target stays taken while it is parked, and until it is handed out again."""
        park = self.history.park
        return park is not None and park.keeps_target

    @property
    def attempt_started_at(self) -> float | None:
        """When the host reported the start of the running attempt; None while the task is not running."""
        return self.lease.started_at if self.lease is not None and self.state is RUNNING else None

    @property
    def latency_ms(self) -> int | None:
        """Milliseconds from the first start to the end; None if either is missing."""
        if self.begun_at == inf or self.over_at == inf:
            return None
        return round((self.over_at - self.begun_at) * 1000)


class Existing(NamedTuple):
    """The find of a submission in place of a new task: the one that has its unique key (docs/rules.md, Unique keys)."""

    task: Task
