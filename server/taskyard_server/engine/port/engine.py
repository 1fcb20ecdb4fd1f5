"""The port of an engine: its facets, clock and listeners, and the commands of operators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from taskyard_server.core.events import Event
from taskyard_server.core.figures.demand import Demand, Pool
from taskyard_server.core.figures.queue_health import QueueHealth
from taskyard_server.core.hosts import Host
from taskyard_server.core.limits import Limits
from taskyard_server.core.rules import NO_RULES, ConfiguredRules
from taskyard_server.core.stats import Stats, Totals
from taskyard_server.engine.fair_yield import FairYield

from .hosts import HostPort, LeasePort
from .namespaces import NamespacePort
from .operations import OperationPort
from .outbox import OutboxPort
from .rules import RulePort
from .schedules import SchedulePort
from .tasks import TaskPort

T = TypeVar("T")

Listener: TypeAlias = Callable[[str, Sequence[Event]], None]
"""Called with a namespace and its new events, in order. It must not block or raise."""


class Engine(Protocol):
    """An engine, as services, executors and webhooks know it."""

    @property
    def tasks(self) -> TaskPort:
        """Tasks, batches and targets."""

    @property
    def operations(self) -> OperationPort:
        """What is done to many tasks at once."""

    @property
    def hosts(self) -> HostPort:
        """Runtime hosts and their streams."""

    @property
    def leases(self) -> LeasePort:
        """Claims, renewals, and reports under leases."""

    @property
    def schedules(self) -> SchedulePort:
        """Schedules and their triggers."""

    @property
    def rules(self) -> RulePort:
        """Limits of concurrency keys, weights of agents, and how agents share what there is."""

    @property
    def namespaces(self) -> NamespacePort:
        """Namespaces as things of their own."""

    @property
    def admin(self) -> "AdminPort":
        """Figures, limits and shutdown."""

    @property
    def turns(self) -> FairYield:
        """The turns of large work, for whoever hands it in."""

    @property
    def outbox(self) -> OutboxPort | None:
        """The deliveries that are due; None if none are kept."""

    @property
    def limits(self) -> Limits:
        """The limits in force."""

    def now(self) -> float:
        """The engine's time, in seconds since the epoch."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with all events from now on. Returns a function that removes the listener."""


class AdminPort(Protocol):
    """Commands of operators and of the server itself."""

    async def stats(self, namespace: str) -> Stats:
        """The current figures of a namespace."""

    def namespaces(self) -> list[str]:
        """The names of all namespaces that hold or have held anything."""

    def totals(self, namespace: str | None = None) -> Totals:
        """The figures of one namespace, or of all together. The cost does not depend on the number of tasks."""

    def queued_since(self, namespace: str) -> float | None:
        """Since when the task of a namespace is queued that has waited longest for a host alone; None if none does.

        Kept or not: for figures.
        """

    async def demand(self, namespace: str, pools: Sequence[Pool]) -> list[Demand]:
        """What each of these pools of hosts has to do in a namespace."""

    def total_demand(self, pools: Sequence[Pool]) -> list[Demand]:
        """The same, summed over all namespaces, kept or not: for figures."""

    def standings(self) -> Mapping[str, QueueHealth]:
        """How each namespace stands, kept or not: for figures. The cost depends on agents that wait, not on tasks."""

    def look_at_hosts(self, namespace: str, show: Callable[[list[Host]], T]) -> T:
        """What `show` makes of the hosts of a namespace as they are now, kept or not: for figures."""

    def reconfigure(self, limits: Limits, rules: ConfiguredRules = NO_RULES) -> None:
        """Apply new limits to every namespace; and let these rules by pattern be those of the configuration."""

    def reconcile(self) -> None:
        """End the leases of dead hosts, in every namespace."""

    def look_for_hosts(self) -> None:
        """See which kinds of tasks no live host may run, in every namespace, and log it."""

    def drain(self, until: float | None = None) -> None:
        """Stop dispatching, and refuse new work that would be lost at the end of the process.

        Connected hosts get a drain notice with the deadline `until`, in the engine's time.
        """

    async def drained(self, secs: float, built_in_only: bool = False) -> bool:
        """Wait up to `secs` until no task is in flight, or none at a built-in host. Returns whether that is so."""

    async def close(self, built_in_only: bool = False) -> None:
        """Interrupt the tasks in flight, end those that would be lost, and release every waiting call and stream.

        With a store nothing would be lost, and with `built_in_only` just the tasks of built-in hosts are interrupted.
        """
