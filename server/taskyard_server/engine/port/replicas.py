"""The port for replicas, as operators see them: who shares the store, and who is to take nothing."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ReplicaView(NamedTuple):
    """A replica at one moment. Times are seconds by the store's clock; `died_at` is None while it lives.

    `address` is where the gateways of others reach it, `level` the newest format of records that it writes,
    `namespaces` how many it owns. `is_this` says that it is the one that was asked.
    """

    name: str
    instance: str
    address: str | None
    version: str
    level: int
    started_at: float
    renewed_at: float
    died_at: float | None
    is_draining: bool
    namespaces: int
    is_this: bool


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
