"""The ports for runtime hosts: the registry, streams, claims and reports."""

from collections.abc import Callable, Sequence
from typing import Protocol

from taskyard_server.core.errors import Refusal
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.core.leases import Lease
from taskyard_server.core.reports import Report
from taskyard_server.core.streams import HeldLease, Hello, TokenUse
from taskyard_server.core.task import TaskState
from taskyard_server.engine.sessions import Session


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
    ) -> Host:
        """Add a host, or replace the registration of an existing one."""

    async def heartbeat(
        self, namespace: str, host_id: str, reported_status: HostStatus | None = None, machine: bytes | None = None
    ) -> Host:
        """Record a heartbeat. Raises `NotFound`."""

    async def drain(self, namespace: str, host_id: str, secs: float | None = None) -> Host:
        """Dispatch nothing more to a host, and pause the tasks it still runs after `secs`. Raises `NotFound`."""

    async def deregister(self, namespace: str, host_id: str) -> None:
        """Remove a host and requeue its tasks. Raises `NotFound`."""

    async def list_hosts(self, namespace: str, after: int) -> list[Host]:
        """The hosts with a registration number above `after`, in order."""

    async def connect(self, namespace: str, hello: Hello, on_ready: Callable[[], None]) -> Session:
        """Open the stream of a host. It supersedes an earlier stream. `Session` documents `on_ready`.

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
    ) -> Sequence[HeldLease]:
        """Record a heartbeat, renew the leases it lists, and record the tokens that their attempts used so far.

        Returns the listed leases that have ended.
        """

    async def disconnect(self, session: Session) -> None:
        """Close the stream. Its leases continue for the reconnect grace."""


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
    ) -> list[Lease]:
        """Lease up to `count` tasks to a host. Waits up to `wait_secs` if none is claimable.

        Raises `NotFound`, `BadRequest`, and `Unavailable` once the engine is closed.
        """

    async def renew(
        self,
        namespace: str,
        host_id: str,
        task_id: str,
        token: int,
        lease_secs: float | None = None,
        tokens: int | None = None,
    ) -> Lease:
        """Renew a lease, and record the tokens that its attempt used so far. Raises `NotFound` or `LeaseLost`."""

    async def report(self, namespace: str, host_id: str, reports: Sequence[Report]) -> list[TaskState | Refusal]:
        """Apply the reports of a host in one step. Returns for each the state just after it, or its refusal, in order.

        Raises `NotFound` if the namespace does not exist.
        """

    async def list_leases(self, namespace: str, after: int, host_id: str | None = None) -> list[Lease]:
        """The live leases with a fencing token above `after`, in order. Raises `NotFound` for an unknown host."""
