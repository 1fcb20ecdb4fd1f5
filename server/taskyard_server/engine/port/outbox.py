"""The port of an outbox: deliveries that are kept from the commit that made them due until they are done.

A delivery is numbered within its namespace. What it holds only the two know that make and read it: the engine is given
a `DeliveryEncoder`, and hands out what that made.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from taskyard_server.core.events import Event


class DueDelivery(NamedTuple):
    """A delivery that is committed and not done."""

    namespace: str
    number: int
    record: bytes


DeliveryEncoder: TypeAlias = Callable[[Event], bytes | None]
"""What must be kept to deliver an event, without its task; None if it is told to nobody. Called in the event's turn."""

DeliveryListener: TypeAlias = Callable[[Sequence[DueDelivery]], None]
"""Called with deliveries that have just been committed, in the order of their numbers. It must not block or raise."""


class OutboxPort(Protocol):
    """The deliveries of all namespaces that are due."""

    def subscribe(self, listener: DeliveryListener) -> Callable[[], None]:
        """Call a listener with all that is committed from now on. Returns a function that removes the listener."""

    def is_here(self, namespace: str) -> bool:
        """True if this server serves a namespace, so that its deliveries are its to make."""

    async def namespaces(self) -> list[str]:
        """The namespaces of which anything is due. Raises `StoreError` or `CommitDelayed`, as `read` does."""

    async def read(self, namespace: str, after: int, limit: int) -> Sequence[DueDelivery]:
        """Up to `limit` deliveries with numbers above `after`, in order: fewer if they are large, none at the end."""

    def done(self, namespace: str, number: int) -> None:
        """Forget a delivery. It is removed with a later commit, so after a fault it may be due once more."""

    async def settled(self) -> None:
        """Wait until all that has happened is committed, or the store has failed."""
