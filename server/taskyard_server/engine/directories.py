"""Which replica serves what: asked by the engine and by services, and answered where replicas share a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from .views import Ownership, ReplicaView


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


class ReplicaDirectory(Protocol):
    """The replicas that share a store."""

    @property
    def level(self) -> int:
        """The format of records that is in force."""

    async def replicas(self) -> Sequence[ReplicaView]:
        """Those that live, and those that died within the last day, by name and start. Raises `Unavailable`."""

    async def drain(self, name: str, is_draining: bool) -> Sequence[ReplicaView]:
        """Let the living replicas of a name, or an instance, take no namespaces, or do so again. Returns them.

        Raises `NotFound` where there is none, and `Unavailable` while the store does not answer.
        """
