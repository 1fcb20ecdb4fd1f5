"""The port for namespaces: what each holds, its own limits, and its end.

Where replicas share the store an engine serves only the namespaces that its replica owns, and a `NamespaceDirectory`
knows the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from taskyard_server.core.limits import Limits

OwnLimits: TypeAlias = Mapping[str, int | float]
"""The limits that a namespace has of its own, by their names in `Limits`; they are among `OWN_LIMITS`."""

DeletionListener: TypeAlias = Callable[[str], None]
"""Called with the name of a namespace whose deletion is kept just now. It must not block or raise."""


class NamespaceTotals(NamedTuple):
    """How much of each kind there is in a namespace. `hosts` are registered ones, without those that are built in."""

    queued: int
    inflight: int
    paused: int
    retained: int
    hosts: int
    schedules: int


class Served(NamedTuple):
    """What the engine that serves a namespace knows of it. `created_at` is None where it was never noted."""

    created_at: float | None
    totals: NamespaceTotals
    own_limits: OwnLimits
    limits: Limits


class Ownership(NamedTuple):
    """Which replica owns a namespace, by its name, None if none does; and its term."""

    owner: str | None
    term: int


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace at one moment. `served` is None where another engine serves it, or its records are at fault."""

    name: str
    served: Served | None
    ownership: Ownership | None = None


class NamespaceDirectory(Protocol):
    """The namespaces of all replicas that share a store."""

    def owners(self) -> Mapping[str, Ownership]:
        """Every namespace by its name, as far as this replica knows."""

    async def own(self, name: str, create: bool) -> None:
        """Let this replica own a namespace, and its engine serve it, before a command about it.

        A name that is free is made if `create` is set; otherwise nothing is done about it. Raises `NotOwner` where
        another replica owns it.
        """

    async def deleted(self, name: str, number: int) -> None:
        """Free the name of a namespace whose deletion is committed; may be told again. Raises `CommitDelayed`."""


class NamespacePort(Protocol):
    """Namespaces as things of their own. Where another replica owns one that is named, `NotOwner` is raised."""

    async def list_namespaces(
        self, after: str, limit: int, *, is_visible: Callable[[str], bool]
    ) -> Sequence[NamespaceView]:
        """Up to `limit` namespaces with visible names above `after`, in order of their names."""

    async def create(self, name: str, own_limits: OwnLimits) -> NamespaceView:
        """Make a namespace; the one that is there if it has just these limits of its own, else raises `AlreadyExists`.

        Raises `Unavailable` while one of that name is being deleted.
        """

    async def get(self, name: str) -> NamespaceView:
        """One namespace. Raises `NotFound`."""

    async def update(self, name: str, change: Callable[[OwnLimits], OwnLimits]) -> NamespaceView:
        """Put other limits of its own in force, which `change` makes of the present ones. Raises `NotFound`."""

    async def delete(self, name: str, force: bool) -> None:
        """End a namespace with all that is in it.

        Raises `NotFound`, and without `force` `Conflict` for one with live tasks, hosts that are online, or schedules.
        """

    def subscribe(self, listener: DeletionListener) -> Callable[[], None]:
        """Call a listener with all deletions from now on. Returns a function that removes the listener."""
