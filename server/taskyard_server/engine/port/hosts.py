"""The part of an engine for runtime hosts: the registry, their streams, and the leases that they hold."""

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
        """Make or replace a host."""

    async def heartbeat(
        self, namespace: str, host_id: str, reported_status: HostStatus | None = None, machine: bytes | None = None
    ) -> Host:
        """A sign of life, or `NotFound`."""

    async def drain(self, namespace: str, host_id: str, secs: float | None = None) -> Host:
        """Give a host nothing new, and pause what it still runs after `secs`; or raise `NotFound`."""

    async def deregister(self, namespace: str, host_id: str) -> None:
        """Forget a host and requeue its tasks, or raise `NotFound`."""

    async def list_hosts(self, namespace: str, after: int) -> list[Host]:
        """The hosts registered after the one of this number, in order."""

    async def connect(self, namespace: str, hello: Hello, on_ready: Callable[[], None]) -> Session:
        """Open the stream of a host, which supersedes the one that it had; `on_ready` as `Session` says.

        Raises `AlreadyExists` while another instance of the host lives, `BadRequest`, and `Unavailable` once the engine
        is closed.
        """

    async def give_credit(self, session: Session, count: int) -> None:
        """The host of the stream may be given `count` more tasks."""

    async def beat(
        self,
        session: Session,
        held: Sequence[HeldLease],
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
        tokens: Sequence[TokenUse] = (),
    ) -> Sequence[HeldLease]:
        """A sign of life that renews the leases it lists; returns those of them that have ended."""

    async def disconnect(self, session: Session) -> None:
        """The stream is gone; its leases live on for a while."""


class LeasePort(Protocol):
    """Claims and reports. A fencing token is the one of the lease that a call is about."""

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
        """Prolong a lease, and note the tokens that its attempt used so far; raises `NotFound` or `LeaseLost`."""

    async def report(self, namespace: str, host_id: str, reports: Sequence[Report]) -> list[TaskState | Refusal]:
        """Take a host's reports, all in one step: the state just after each, or why it was refused, in order.

        Raises `NotFound` where nothing was ever put into the namespace.
        """

    async def list_leases(self, namespace: str, after: int, host_id: str | None = None) -> list[Lease]:
        """The live leases granted after the one of this number, in order; raises `NotFound` for an unknown host."""
