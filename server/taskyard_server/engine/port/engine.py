"""The engine as a whole: its facets, its clock, its listeners, and what operators do with it."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from taskyard_server.core.events import Event
from taskyard_server.core.limits import Limits
from taskyard_server.core.stats import Stats, Totals

from .hosts import HostPort, LeasePort
from .schedules import SchedulePort
from .tasks import TaskPort

Listener: TypeAlias = Callable[[str, Sequence[Event]], None]
"""Called with a namespace and its events, in order, soon after they happened. It must not block or raise."""


class Engine(Protocol):
    """The port."""

    @property
    def tasks(self) -> TaskPort:
        """Tasks, batches and targets, for agents and their operators."""

    @property
    def hosts(self) -> HostPort:
        """Runtime hosts and their streams."""

    @property
    def leases(self) -> LeasePort:
        """Claims, and reports under leases."""

    @property
    def schedules(self) -> SchedulePort:
        """Schedules and their triggers."""

    @property
    def admin(self) -> "AdminPort":
        """Figures, limits, and the end."""

    @property
    def limits(self) -> Limits:
        """The limits in force."""

    def now(self) -> float:
        """The engine's time, in seconds since the epoch."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with every event from now on; returns the function that ends that."""


class AdminPort(Protocol):
    """What operators and the server itself do with an engine."""

    async def stats(self, namespace: str) -> Stats:
        """The figures of this moment."""

    def namespaces(self) -> list[str]:
        """The namespaces that hold or held anything."""

    def totals(self, namespace: str | None = None) -> Totals:
        """The figures of all namespaces together, or of one, without a look at any task."""

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
        """From now on dispatch nothing, and accept only what survives the end of the process.

        Hosts are told to leave, by `until` in the engine's time.
        """

    async def drained(self, secs: float) -> bool:
        """Whether nothing is in flight any more, within `secs`."""

    async def close(self) -> None:
        """Interrupt what is in flight, end what would be lost, and release everything that waits."""
