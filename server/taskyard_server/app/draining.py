"""How a server comes to its end: what it waits for, until when, and what it says of that.

(docs/rules.md, Drain and shutdown)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from taskyard_server.core.hosts import Host

from .cancel_on_event import cancel_on_event

if TYPE_CHECKING:
    from taskyard_server.engine.engine import Engine
    from taskyard_server.replicas.serving import ReplicaServing

log = structlog.get_logger(__name__)

NOTICED_SECS: Final = 3.0
"""How long a replica goes on carrying calls after it has said that it ends."""
SAY_SECS: Final = 10.0
"""How often it says what it still waits for."""
AGAIN: Final = "Ctrl-C again stops it at once."


class InFlight(NamedTuple):
    """Tasks in flight at runtime hosts, how many hosts these are, and those at hosts in the server's process."""

    tasks: int = 0
    hosts: int = 0
    built_in: int = 0

    def plus(self, other: InFlight) -> InFlight:
        """The counts of two namespaces together."""
        return InFlight(self.tasks + other.tasks, self.hosts + other.hosts, self.built_in + other.built_in)


class Draining:
    """The end of a server. `begun` is set once it has begun, `hurry` once it may wait for nothing any more.

    `usual_secs` is the grace period of the settings, and `is_usual_set` says that somebody has set it. `tell` is called
    with lines for who looks at the terminal.
    """

    def __init__(self, engine: Engine, sharing: ReplicaServing | None, usual_secs: float, is_usual_set: bool) -> None:
        self.begun = asyncio.Event()
        self.hurry = asyncio.Event()
        self.tell: Callable[[str], None] = lambda _: None
        self._engine = engine
        self._sharing = sharing
        self._usual_secs = usual_secs
        self._is_usual_set = is_usual_set
        self._until = 0.0
        self._waits_for_hosts = False
        self._changed = asyncio.Event()
        self._signalled = False

    @property
    def built_in_only(self) -> bool:
        """True if only tasks at hosts in this process have to end, since those of others go on after it."""
        return not self._waits_for_hosts

    def begin(self, grace_secs: float | None = None) -> float:
        """Begin, or move the end of the grace period; when it stops waiting, in the engine's time."""
        grace = self._usual_secs if grace_secs is None else grace_secs
        is_set = grace_secs is not None or self._is_usual_set
        # What hosts run goes on under the leases that are kept; what the server runs itself does not.
        self._waits_for_hosts = self._waits_for_hosts or is_set or not self._engine.is_kept
        self._until = self._engine.now() + grace
        if self._sharing is None:
            self._engine.admin.drain(self._until)
        self.begun.set()
        self._changed.set()
        return self._until

    def on_signal(self) -> bool:
        """A signal to end has come, of which the second one makes it hurry. Returns whether it begins by this one."""
        begins = not self._signalled and not self.begun.is_set()
        if self._signalled:
            if not self.hurry.is_set():
                self.tell("Stops at once.")
            self.hurry.set()
        elif begins:
            self.begin()
        self._signalled = True
        return begins

    async def wait(self) -> None:
        """Wait for what is to end before the server does, and for nothing once it hurries."""
        self.tell(self._words())
        if self._sharing is not None:
            # What others take over is not drained. Health checks must see that nothing more is to come here.
            noticed = asyncio.create_task(asyncio.sleep(NOTICED_SECS))
            await cancel_on_event(self._sharing.replica.stop(), self.hurry)
            await cancel_on_event(asyncio.shield(noticed), self.hurry)
            self._engine.admin.drain(self._until)
        log.info("draining", inflight=self._engine.admin.totals().inflight, grace_secs=round(self._left_secs, 1))
        saying = asyncio.create_task(self._say())
        try:
            # A repeated drain call moves the end of the grace period.
            while not self.hurry.is_set() and (left := self._left_secs) > 0:
                self._changed.clear()
                drained = self._engine.admin.drained(left, built_in_only=self.built_in_only)
                if await cancel_on_event(drained, self.hurry, self._changed):
                    break
        finally:
            saying.cancel()

    @property
    def _left_secs(self) -> float:
        return self._until - self._engine.now()

    async def _say(self) -> None:
        while True:
            await asyncio.sleep(SAY_SECS)
            self.tell(
                f"Still waits for {_awaited(self._in_flight(), self.built_in_only)}, {self._left_secs:.0f} s left."
            )

    def _words(self) -> str:
        flight = self._in_flight()
        sentences = ["Stopping: no task has to end first."]
        if flight.built_in or (flight.tasks and not self.built_in_only):
            awaited = _awaited(flight, self.built_in_only)
            sentences = [f"Stopping: waits for {awaited}, for {max(0.0, self._left_secs):.0f} s at most."]
        if flight.tasks and self.built_in_only:
            sentences.append(f"{_at_hosts(flight)} {'goes' if flight.tasks == 1 else 'go'} on.")
        if self._sharing is not None and len(self._sharing.replica.membership.living()) > 1:
            sentences.append("Other replicas take its namespaces over.")
        return " ".join([*sentences, AGAIN])

    def _in_flight(self) -> InFlight:
        admin, total = self._engine.admin, InFlight()
        for namespace in admin.namespaces():
            total = total.plus(admin.look_at_hosts(namespace, _in_flight_at))
        return total


def _in_flight_at(hosts: list[Host]) -> InFlight:
    busy = [(len(host.leases), host.built_in) for host in hosts if host.leases]
    others = [count for count, built_in in busy if not built_in]
    return InFlight(sum(others), len(others), sum(count for count, built_in in busy if built_in))


def _awaited(flight: InFlight, built_in_only: bool) -> str:
    parts = [] if built_in_only or not flight.tasks else [_at_hosts(flight)]
    if flight.built_in or not parts:
        parts.append(f"{_counted(flight.built_in, 'task')} of the tab executor")
    return " and ".join(parts)


def _at_hosts(flight: InFlight) -> str:
    return f"{_counted(flight.tasks, 'task')} at {_counted(flight.hosts, 'host')}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
