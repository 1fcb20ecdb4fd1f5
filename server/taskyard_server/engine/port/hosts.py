"""The ports for runtime hosts: the registry, streams, claims and reports."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias, TypeVar

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.core.leases import Lease, Loss
from taskyard_server.core.reports import Report
from taskyard_server.core.streams import HeldLease, Hello, TokenUse, Welcome
from taskyard_server.core.task import TaskState
from taskyard_server.engine.sessions import Session

from .answers import Answer

T = TypeVar("T")


class HostPort(Protocol):
    """The registry of hosts, and their streams."""

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
        show: Callable[[Host], T],
    ) -> T:
        """Add a host, or replace the registration of an existing one."""

    async def heartbeat(
        self,
        namespace: str,
        host_id: str,
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
        *,
        show: Callable[[Host], T],
    ) -> T:
        """Record a heartbeat. Raises `NotFound`."""

    async def drain(self, namespace: str, host_id: str, secs: float | None = None, *, show: Callable[[Host], T]) -> T:
        """Dispatch nothing more to a host, and pause the tasks it still runs after `secs`. Raises `NotFound`."""

    async def deregister(self, namespace: str, host_id: str) -> None:
        """Remove a host and requeue its tasks. Raises `NotFound`."""

    async def list_hosts(self, namespace: str, after: int, *, show: Callable[[list[Host]], T]) -> T:
        """The hosts with a registration number above `after`, in order."""

    async def connect(
        self, namespace: str, hello: Hello, on_ready: Callable[[], None], *, show: Callable[[Welcome], T]
    ) -> tuple[Session, T]:
        """Open the stream of a host. It supersedes an earlier stream. `Session` documents `on_ready`.

        `on_ready` may be called before this returns.

        Raises `AlreadyExists` while another instance of the host is alive, `BadRequest`, and `Unavailable` once the
        engine is closed.
        """

    async def give_credit(self, session: Session, count: int) -> None:
        """Allow the engine to dispatch `count` more tasks over the stream."""

    async def beat(
        self,
        session: Session,
        held: Sequence[HeldLease],
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
        tokens: Sequence[TokenUse] = (),
    ) -> Sequence[HeldLease] | None:
        """Record a heartbeat, renew the leases it lists, and record the tokens that their attempts used so far.

        Returns the listed leases that have ended. None if the stream has: then nothing is known of its leases here, and
        the heartbeat is not answered.
        """

    async def disconnect(self, session: Session) -> None:
        """Close the stream. Its leases continue for the reconnect grace."""


LossListener: TypeAlias = Callable[[str, Sequence[Loss]], None]
"""Called with a namespace and the leases that were lost in it, in order. It must not block or raise."""


class LeasePort(Protocol):
    """Claims, renewals and reports. A `token` is the fencing token of the lease that a call concerns."""

    async def claim(
        self,
        namespace: str,
        host_id: str,
        count: int = 1,
        lease_secs: float | None = None,
        wait_secs: float = 0,
        project: str | None = None,
        claim_id: str | None = None,
        *,
        check: Callable[[HostProfile], None] | None = None,
        show: Callable[[list[Lease]], T],
    ) -> T:
        """Lease up to `count` tasks to a host. Waits up to `wait_secs` if none is claimable.

        `check` raises why the caller may not claim what a host of this profile may run.

        While leases live that the host claimed under the same `claim_id`, however many, they are answered and nothing
        is leased. A claim of the host that waits under it is answered with none.

        `show` is called in the turn of the grant, or with no leases at the end of the wait. The leases of a call that
        is cancelled are given back, unless another call under its id answers them.

        Raises `NotFound`, `BadRequest`, and `Unavailable` once the engine is closed or where the store does not answer
        in time.
        """

    async def renew(
        self,
        namespace: str,
        host_id: str,
        task_id: str,
        token: int,
        lease_secs: float | None = None,
        tokens: int | None = None,
        patient: bool = False,
        *,
        own_only: bool = False,
        show: Callable[[Lease], T],
    ) -> T:
        """Renew a lease, and record the tokens that its attempt used so far. `own_only` is as in `report`.

        Raises `NotFound` or `LeaseLost`, and `Unavailable` where the store does not answer in time, unless the caller
        is `patient`.
        """

    def report(
        self, namespace: str, host_id: str, reports: Sequence[Report], patient: bool = False, *, own_only: bool = False
    ) -> Answer[list[TaskState | Refusal]]:
        """Apply the reports of a host in one step, now. Answers for each the state just after it, or its refusal.

        If `own_only` the answer about a task that was last handed to another host, or to none, is that about one that
        is not there.

        The answer is in the order of the reports. Raises `NotFound` if the namespace does not exist, and `Unavailable`
        where the store does not answer in time, unless the caller is `patient`.
        """

    async def list_leases(
        self, namespace: str, after: int, host_id: str | None = None, *, show: Callable[[list[Lease]], T]
    ) -> T:
        """The live leases with a fencing token above `after`, in order. Raises `NotFound` for an unknown host."""

    def subscribe(self, listener: LossListener) -> Callable[[], None]:
        """Call a listener with all leases that are lost from now on. Returns a function that removes the listener."""
