"""The port of a store that replicas share: who they are, and which of them owns a namespace.

A replica is an instance of a server: it joins, renews itself, and dies once, at the latest when others see that it has
not renewed itself for long. An instance that has died never lives again. A namespace is owned by one instance at a
time, under a term that grows with each owner; `Store.commit` writes nothing of a namespace that the fence does not fit.

All times here are seconds by the store's own clock, so that those of the replicas may differ.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeGuard, runtime_checkable

from .port import Store, StoreMeta


class Replica(NamedTuple):
    """The announcement of a replica. `instance` is random, `name` is for people.

    Others reach it at `address`, HOST:PORT, if it has one. It reads and writes records up to the format `level`, and
    takes no namespace while it drains.
    """

    instance: str
    name: str
    address: str | None
    level: int
    version: str
    is_draining: bool = False


class ReplicaRow(NamedTuple):
    """A replica as the store knows it. `died_at` is when it left or was found dead."""

    replica: Replica
    started_at: float
    renewed_at: float
    died_at: float | None


class OwnerRow(NamedTuple):
    """A namespace, and the instance that owns it, dead or alive; None if it was released.

    A `name` of None says that the namespace was deleted.
    """

    number: int
    name: str | None
    instance: str | None
    term: int


class Taken(NamedTuple):
    """A namespace that its new owner has taken. `meta` is its last commit, `meta.at` until when it was served."""

    number: int
    name: str
    term: int
    meta: StoreMeta


class Renewal(NamedTuple):
    """The store's time, the format level in force, and all replicas: the living, and those that died lately."""

    at: float
    level: int
    replicas: Sequence[ReplicaRow]


@runtime_checkable
class SharedStore(Store, Protocol):
    """A store that replicas share. What `Store` says of one owner holds for each namespace here.

    Each method raises `CommitDelayed` if the store does not answer; whether it took effect is not known then, and it
    may be repeated.
    """

    async def join(self, replica: Replica) -> float:
        """Begin to live; the store's time. Raises `StoreError` for one whose level is below the store's."""

    async def renew(self, instance: str, dead_after_secs: float) -> Renewal | None:
        """Live on, and mark others dead that were not renewed for this long. None if the instance itself is dead."""

    async def replicas(self, died_within_secs: float) -> Sequence[ReplicaRow]:
        """The living replicas, and those that died within this many seconds."""

    async def drain(self, name: str, is_draining: bool) -> bool:
        """Let the living replicas of a name, or an instance, take no namespaces, or take some again; if any lives."""

    async def raise_level(self, level: int) -> bool:
        """Put a format level in force, unless a living replica has a lower one. Whether it is in force."""

    async def leave(self, instance: str) -> None:
        """Die, in order."""

    async def owners(self, since: float | None = None) -> tuple[float, Sequence[OwnerRow]]:
        """All namespaces, or those whose name or owner changed at `since` or later; and the next `since`."""

    async def needing_owner(self, limit: int) -> Sequence[OwnerRow]:
        """Up to `limit` namespaces with `Fence.needs_owner` that no living replica owns."""

    async def create(self, name: str, instance: str) -> Taken | None:
        """Make a namespace, and take it. None if there is one of that name."""

    async def take(self, number: int, instance: str) -> Taken | None:
        """Take a namespace that no other living replica owns. None if one does, or the instance itself is dead."""

    async def release(self, fences: dict[int, int], instance: str, served_until: float, to: str | None = None) -> None:
        """Let go of namespaces, each with the term under which it is owned, for `to` or for anyone who takes them.

        Those that the instance does not own under that term are left alone.
        """

    async def rename(self, number: int, name: str | None) -> None:
        """Give a namespace no name any more: then it is deleted, and its name free for another one."""

    def changes(self) -> AsyncIterator[None]:
        """Something each time after owners or replicas have changed, at once or late; never ends, and may miss some."""

    def token_changes(self) -> AsyncIterator[None]:
        """The same after tokens were made, revoked or removed."""

    async def adopt(self, names: Mapping[int, str | None]) -> None:
        """Know the namespaces whose rows were copied here, by their numbers: nobody owns them yet.

        A name of None is that of a deleted one. Each goes on from the last commit of the whole store. Raises
        `StoreError` while a replica lives.
        """


def is_shared(store: Store | None) -> TypeGuard[SharedStore]:
    """True if replicas share a store."""
    return isinstance(store, SharedStore)
