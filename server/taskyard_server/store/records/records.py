"""The rows of a store: core objects as msgpack arrays, and back.

Fields are never moved, changed or taken out; new ones are appended, with a default, so that a later version reads what
an earlier one wrote. That holds for the tuples of the core that stand in records as they are, too
(`core/task_options.py`, `core/history.py`). A test holds records of each release.

Those of tasks, states and agents are written by `tasks.py`; here is how they are read.

Default deadlines are stored without the time for which they stood still (`Deadlines.stood_still_secs`): while nobody
serves, no row of a task has to change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct
from msgspec.msgpack import Decoder

from taskyard_server.core.history import History, Step
from taskyard_server.core.hosts import HostProfile, Tabs
from taskyard_server.core.task import PENDING, QUEUED, TaskState
from taskyard_server.core.task_options import TaskOptions

from .tasks import encode

if TYPE_CHECKING:
    from taskyard_server.core.hosts import Host
    from taskyard_server.core.leases import Lease


class Record(Struct, array_like=True, gc=False):
    """One row."""


class NamespaceRecord(Record):
    """The last numbers of everything that is numbered, and the counters, in the order of their dataclasses.

    `own_limits` are fields of `Limits`. One that `is_deleted` is served no longer, and its rows are being removed.
    """

    name: str
    last_order: int
    last_token: int
    last_host: int
    last_schedule: int
    last_trigger: int
    last_agent: int
    last_outbox: int
    stood_still_secs: float
    counters: tuple[int | float, ...]
    trigger_counters: tuple[int, ...]
    epoch: int = 0
    created_at: float | None = None
    own_limits: dict[str, int | float] = {}
    is_deleted: bool = False
    last_event: int = 0


class TaskRecord(Record):
    """The part of a task that never changes. `deadline` is that of a task that is as submitted, and so is `commit`."""

    id: str
    agent_id: str
    action: str
    created_at: float
    position: int | None
    deadline: float | None
    deadline_secs: float | None
    tab_id: str | None = None
    ref: str | None = None
    params: bytes | None = None
    priority: int = 0
    options: TaskOptions | None = None
    commit: int = 0


class HeldRecord(Record):
    """The lease of a task, under the task's token. `claim_id` is the name under which its host claimed it."""

    host_id: str
    secs: float
    claimed_at: float
    started_at: float | None
    is_streamed: bool
    claim_id: str | None = None


class StateRecord(Record):
    """The part of a task that changes. It `has_no_key` if its idempotency key was another task's when it came back.

    `commit` is the number of the commit that wrote it.
    """

    state: TaskState
    queued_at: float
    deadline: float | None
    deliveries: int
    token: int
    host_id: str | None = None
    held: HeldRecord | None = None
    started_at: float | None = None
    history: History | None = None
    progress: bytes | None = None
    error: str | None = None
    expired: bool = False
    completed_at: float | None = None
    result: bytes | None = None
    has_no_key: bool = False
    commit: int = 0


class StoppingRecord(Record):
    """A lease that has ended while its host may still work. `task_number` is the order of submission."""

    task_id: str
    task_number: int
    agent_id: str
    target: str
    host_id: str
    is_streamed: bool
    secs: float


class ProfileTuple(NamedTuple):
    """`HostProfile`, whose types its compiled form does not tell."""

    capabilities: frozenset[str]
    project: str | None
    actions: frozenset[str] | None
    tabs: Tabs


class HostRecord(Record):
    """A host that registered; none that is built in."""

    id: str
    display_name: str
    profile: ProfileTuple
    slots: int | None
    labels: tuple[tuple[str, str], ...]
    draining: bool
    drain_until: float | None
    registered_at: float
    instance: str | None


class AgentRecord(Record):
    """The figures of an agent, and the tie-break of its rank in `ReadyQueue`."""

    name: str
    tie_break: int
    submitted: int
    completed: int
    failed: int
    cancelled: int
    rejected: int
    tokens_used: int


class OutputRecord(Record):
    """`count` chunks as they are told, of `size` bytes, of which the last is the one numbered `taken` of a lease."""

    token: int
    taken: int
    count: int
    size: int
    chunks: bytes


decode_namespace: Final = Decoder(NamespaceRecord).decode
decode_task: Final = Decoder(TaskRecord).decode
decode_state: Final = Decoder(StateRecord).decode
decode_stopping: Final = Decoder(StoppingRecord).decode
decode_host: Final = Decoder(HostRecord).decode
decode_agent: Final = Decoder(AgentRecord).decode
decode_output: Final = Decoder(OutputRecord).decode
decode_step: Final = Decoder(Step).decode


def state_as_submitted(record: TaskRecord) -> StateRecord:
    """The state for which `AS_SUBMITTED` stands."""
    options = record.options
    if options is not None:
        due = options.not_before
        not_before = due if due is not None and due > record.created_at else None
        if options.hold or not_before is not None:
            history = History(held=options.hold, not_before=not_before)
            return StateRecord(PENDING, record.created_at, record.deadline, 0, 0, history=history, commit=record.commit)
    return StateRecord(QUEUED, record.created_at, record.deadline, 0, 0, commit=record.commit)


def encode_stopping(lease: Lease) -> bytes:
    """A `StoppingRecord`."""
    task, target = lease.task, lease.task.options.target
    assert target is not None
    return encode(
        StoppingRecord(task.id, task.seq, task.agent.id, target, lease.host.id, lease.stream is not None, lease.secs)
    )


def encode_host(host: Host) -> bytes:
    """A `HostRecord`."""
    return encode(
        HostRecord(
            host.id,
            host.display_name,
            ProfileTuple(*host.profile[:4]),  # the rest is of hosts that are not kept
            host.slots,
            host.labels,
            host.draining,
            host.drain_until,
            host.registered_at,
            host.instance,
        )
    )


def to_profile(its: ProfileTuple) -> HostProfile:
    """The profile of a host."""
    return HostProfile(*its)
