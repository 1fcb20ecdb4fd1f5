"""What every engine can do: the scheduler's own commands, awaited.

Each command names the namespace it acts in. Refusals are raised as `core.errors.Refusal`; `Task` and `Lease` objects
are read before the next await, since the engine goes on changing them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from taskyard_server.core.batches import Batch, BatchSubmission
from taskyard_server.core.errors import Refusal
from taskyard_server.core.events import Event
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import Report
from taskyard_server.core.stats import Stats, Totals
from taskyard_server.core.streams import HeldLease, Hello
from taskyard_server.core.targets import Target
from taskyard_server.core.task import Submission, Task, TaskState

from .schedule_port import SchedulePort
from .sessions import Session

Listener: TypeAlias = Callable[[str, Sequence[Event]], None]
"""Called with a namespace and what happened in it, in order, soon after it happened. It must not block or raise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks a listing wants; None wants all (scheduler-reference, List Tasks)."""

    agent_id: str | None = None
    states: frozenset[TaskState] | None = None
    batch_id: str | None = None
    target: str | None = None

    def matches(self, task: Task) -> bool:
        """Whether the task matches every criterion."""
        return (
            (self.agent_id is None or task.agent_id == self.agent_id)
            and (self.states is None or task.state in self.states)
            and (self.batch_id is None or task.options.batch_id == self.batch_id)
            and (self.target is None or task.options.target == self.target)
        )


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Part of a listing, in order of submission. `next_after` is where the next page starts, None at the end."""

    tasks: list[Task]
    next_after: int | None


class Engine(Protocol):
    """The port. Times are seconds; a fencing token is the one of the lease that a call is about."""

    @property
    def schedules(self) -> SchedulePort:
        """The schedules and their triggers."""

    async def submit(self, namespace: str, submission: Submission) -> Task:
        """Accept one task, or raise `BadRequest`, `QueueFull` or `Unavailable`."""

    async def submit_each(self, namespace: str, submissions: Sequence[Submission | Refusal]) -> list[Task | Refusal]:
        """Admit tasks one by one, all of them at once: each task, or why that one was refused.

        What is given as a refusal stays one.
        """

    async def submit_batch(self, namespace: str, submissions: Sequence[Submission]) -> BatchSubmission:
        """Admit tasks one by one as one batch. Raises `BadRequest` for a bad one before any is admitted."""

    async def get_batch(self, namespace: str, batch_id: str) -> Batch:
        """The batch, or `NotFound`."""

    async def cancel_batch(self, namespace: str, batch_id: str) -> int:
        """Cancel what has not ended of a batch; how many tasks that were. Raises `NotFound`."""

    async def get(self, namespace: str, task_id: str) -> Task:
        """The task, or `NotFound`."""

    async def wait(self, namespace: str, task_id: str, secs: float) -> Task:
        """The task once it is terminal, or as it is after `secs`. Raises `NotFound`."""

    async def list_tasks(self, namespace: str, task_filter: TaskFilter, after: int, limit: int) -> TaskPage:
        """Up to `limit` matching tasks submitted after the one numbered `after`, as they were when they were read."""

    async def cancel(self, namespace: str, task_id: str) -> Task:
        """End a task, or raise `NotFound` or `Conflict`."""

    async def pause(self, namespace: str, task_id: str) -> Task:
        """Interrupt a task in flight, or raise `NotFound` or `Conflict`."""

    async def resume(self, namespace: str, task_id: str, target: str | None = None) -> Task:
        """Queue a paused or failed task again or let a held one go, or raise `NotFound`, `Conflict`, `Unavailable`."""

    async def resolve(self, namespace: str, task_id: str, result: bytes | None) -> Task:
        """End a paused or failed task as done, or raise `NotFound` or `Conflict`."""

    async def list_targets(self, namespace: str, after: str) -> list[Target]:
        """The targets after this name, in order of their names."""

    async def register(
        self,
        namespace: str,
        host_id: str,
        display_name: str | None,
        profile: HostProfile,
        *,
        slots: int | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        built_in: bool = False,
    ) -> Host:
        """Make or replace a host."""

    async def heartbeat(
        self, namespace: str, host_id: str, reported_status: HostStatus | None = None, machine: bytes | None = None
    ) -> Host:
        """A sign of life, or `NotFound`."""

    async def drain_host(self, namespace: str, host_id: str, secs: float | None = None) -> Host:
        """Give a host nothing new, and pause what it still runs after `secs`; or raise `NotFound`."""

    async def deregister(self, namespace: str, host_id: str) -> None:
        """Forget a host and requeue its tasks, or raise `NotFound`."""

    async def list_hosts(self, namespace: str, after: int) -> list[Host]:
        """The hosts registered after the one of this number, in order."""

    async def list_leases(self, namespace: str, after: int, host_id: str | None = None) -> list[Lease]:
        """The live leases granted after the one of this number, in order; raises `NotFound` for an unknown host."""

    async def claim(
        self,
        namespace: str,
        host_id: str,
        count: int = 1,
        lease_secs: float | None = None,
        wait_secs: float = 0,
        project: str | None = None,
    ) -> list[Lease]:
        """Lease up to `count` tasks to a host; with `wait_secs`, wait that long for the first of them.

        Raises `Unavailable` once the engine is closed.
        """

    async def connect(self, namespace: str, hello: Hello, on_ready: Callable[[], None]) -> Session:
        """Open the stream of a host, which supersedes the one that it had; `on_ready` as `Session` says.

        Raises `AlreadyExists` while another instance of the host lives, `BadRequest`, and `Unavailable` once the engine
        is closed.
        """

    async def give_credit(self, session: Session, count: int) -> None:
        """The host of the stream may be handed so many tasks more."""

    async def beat(
        self,
        session: Session,
        held: Sequence[HeldLease],
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
    ) -> list[HeldLease]:
        """A sign of life that renews the leases it lists; those of them that have ended."""

    async def disconnect(self, session: Session) -> None:
        """The stream is gone; its leases live on for a while."""

    async def renew(
        self, namespace: str, host_id: str, task_id: str, token: int, lease_secs: float | None = None
    ) -> Lease:
        """Prolong a lease, or raise `NotFound` or `LeaseLost`."""

    async def report(
        self, namespace: str, host_id: str, reports: Sequence[Report | Refusal]
    ) -> list[TaskState | Refusal]:
        """Take what a host says, all of it at once: the state just after each report, or why that one was refused.

        What is given as a refusal stays one. Raises `NotFound` where nothing was ever put into the namespace.
        """

    async def stats(self, namespace: str) -> Stats:
        """The figures of this moment."""

    def namespaces(self) -> list[str]:
        """Those into which anything was ever put."""

    def totals(self, namespace: str | None = None) -> Totals:
        """The figures of all namespaces together, or of one, without a look at any task."""

    @property
    def limits(self) -> Limits:
        """The limits in force."""

    def now(self) -> float:
        """The engine's time, in seconds since the epoch."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of every event from now on; returns the way to end that."""

    def reconfigure(self, limits: Limits) -> None:
        """Put new limits in force for every namespace."""

    def reconcile(self) -> None:
        """End what dead hosts hold, in every namespace."""

    def recover(self) -> None:
        """Go on with what was kept over a restart, before anything is served.

        Leases of dead hosts end, executing triggers are tied to their tasks, and what was missed is caught up by the
        policy of each schedule (scheduler-daemon, Reboot Recovery).
        """

    def drain(self, until: float | None = None) -> None:
        """From now on hand out nothing, and accept only what survives the end of the process.

        Hosts are told to leave, by `until` in the engine's time.
        """

    async def drained(self, secs: float) -> bool:
        """Whether nothing is in flight any more, within `secs`."""

    async def close(self) -> None:
        """Interrupt what is in flight, end what would be lost, and let all that wait go empty-handed."""
