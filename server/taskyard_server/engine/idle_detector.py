"""Activity while the time of an engine stands still, and what keeps hosts alive while it jumps.

A test moves a `VirtualClock` from one due time to the next, and waits at each until nothing happens any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from taskyard_server.core.task import RUNNING

if TYPE_CHECKING:
    from taskyard_server.core.offers import Offer

    from .namespace import NamespaceState
    from .namespaces import Namespaces


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A host that has not come to rest: it holds this task, or has yet to say that it takes more (no task)."""

    namespace: str
    host_id: str
    task_id: str | None = None
    action: str | None = None
    is_running: bool = False


class IdleDetector:
    """Looks at the namespaces of one engine."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    @property
    def is_settled(self) -> bool:
        """True if all that followed from commands so far has happened, and is kept where there is a store."""
        persistence, driver = self._namespaces.persistence, self._namespaces.driver
        return not driver.has_turn and not driver.slices.is_busy and (persistence is None or persistence.is_idle)

    def connected(self, namespace: str) -> set[str]:
        """The hosts of a namespace whose streams are open."""
        state = self._namespaces.here(namespace)
        return set() if state is None else {offer.host.id for offer in state.sessions}

    def unfinished(self) -> Iterator[Unfinished]:
        """The work of hosts with open streams before anything else can happen at this time."""
        for state in self._namespaces:
            for offer in state.sessions:
                yield from _unfinished(state, offer)

    def hear_all(self) -> None:
        """Take each open stream as alive now, as if its host had just sent a heartbeat."""
        now = self._namespaces.now()
        for state in self._namespaces:
            for offer in state.sessions:
                host = offer.host
                held = [(lease.task.id, lease.token) for lease in host.leases.values()]
                state.scheduler.beat(now, offer, held, host.reported_status)
            self._namespaces.driver.mark_dirty(state)


def _unfinished(state: NamespaceState, offer: Offer) -> Iterator[Unfinished]:
    host = offer.host
    for lease in host.leases.values():
        task = lease.task
        yield Unfinished(state.namespace, host.id, task.id, task.action, task.state is RUNNING)
    if not host.leases and not host.draining and offer.room == 0:
        yield Unfinished(state.namespace, host.id)
