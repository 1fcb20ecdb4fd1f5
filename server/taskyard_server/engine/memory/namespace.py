"""One namespace as the embedded engine holds it: its scheduler, and all who wait for something of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from taskyard_server.core.events import Event
from taskyard_server.core.leases import Lease
from taskyard_server.core.offers import Offer
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.task import TERMINAL
from taskyard_server.engine.sessions import Session

log = structlog.get_logger(__name__)

LIMITS_OF_TASKS: Final = {"scheduler.maxInflight", "scheduler.maxPerAgentInflight"}
"""Each is told once."""
LIMIT_CHECK_SECS: Final = 1.0


@dataclass(slots=True, eq=False)
class NamespaceState:
    """A namespace. `due` is when its scheduler next has something to do by itself.

    `claims` are calls that wait for a task, `sessions` the streams of hosts, `ends` calls that wait for a task to end.
    """

    namespace: str
    scheduler: Scheduler
    claims: dict[Offer, asyncio.Future[list[Lease]]] = field(default_factory=dict)
    sessions: dict[Offer, Session] = field(default_factory=dict)
    ends: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    due: float | None = None
    limits_logged: set[str] = field(default_factory=set)
    limits_checked_at: float = 0.0

    def dispatch(self, now: float) -> bool:
        """Give the hosts that wait what has become claimable, and tell streams what to stop.

        Whether that made something claimable again, so that it should be done once more.
        """
        scheduler = self.scheduler
        if not self.claims and not self.sessions:
            scheduler.take_stops()
            return False
        for offer, leases in scheduler.dispatch(now).items():
            session = self.sessions.get(offer)
            if session is not None:
                session.assign(leases)
            else:
                self.claims.pop(offer).set_result(leases)
                scheduler.withdraw(offer)
        again = False
        for stop in scheduler.take_stops():
            session = self.sessions.get(stop.lease.stream)  # type: ignore[arg-type]
            if session is not None and not session.stop(stop):
                # The host cannot say that it has stopped, for which a target may wait.
                scheduler.reports.stopped(now, stop.lease.host.id, stop.lease.task.id, stop.lease.token)
                if session.ended is None:
                    scheduler.return_credit(session.offer, 1)
                again = True
        self._log_limits(now)
        return again

    def notify_ends(self, events: Sequence[Event]) -> None:
        """Let the calls go that wait for the tasks which have ended."""
        if self.ends:
            for event in events:
                if event.state in TERMINAL:
                    _release(self.ends.pop(event.task.id, ()))

    def log_trigger_limit(self) -> None:
        """Log once that triggers wait because as many execute as may."""
        if (key := self.scheduler.schedules.limited_by) is not None:
            self._log_limit(f"daemon.{key}")

    def release_all(self) -> None:
        """Nobody waits any longer."""
        for granted in self.claims.values():
            if not granted.done():
                granted.set_result([])
        for waits in self.ends.values():
            _release(waits)

    def _log_limits(self, now: float) -> None:
        """Log once which limit keeps tasks from hosts that are free."""
        if now - self.limits_checked_at >= LIMIT_CHECK_SECS and not self.limits_logged >= LIMITS_OF_TASKS:
            self.limits_checked_at = now
            if (key := self.scheduler.limited_by) is not None:
                self._log_limit(f"scheduler.{key}")

    def _log_limit(self, key: str) -> None:
        if key not in self.limits_logged:
            self.limits_logged.add(key)
            log.warning("limit_reached", namespace=self.namespace, raise_key=key)


def _release(waits: set[asyncio.Future[None]] | tuple[()]) -> None:
    for ended in waits:
        if not ended.done():
            ended.set_result(None)
