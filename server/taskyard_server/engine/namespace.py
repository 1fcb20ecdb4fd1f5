"""The state of one namespace: its scheduler, the calls that wait for it, and the streams of its hosts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import structlog

from taskyard_server.core.changes import Changes
from taskyard_server.core.errors import NotFound, NotOwner, Refusal, Unavailable
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.leases import Lease, Loss, Stop, StopReason
from taskyard_server.core.names import Names
from taskyard_server.core.offers import Offer
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.schedule import TriggerEvent
from taskyard_server.core.task import TERMINAL, Task
from taskyard_server.store.port import Fence, Group
from taskyard_server.store.rows import NOTHING_KNOWN, AboutNamespace, add_deletion, add_rows

from .claim_calls import NamedClaims, WaitingClaim
from .outbox_rows import OutboxRows
from .output_log import OutputLogs
from .recent_events import NO_COMMIT, CommitMark
from .sessions import DrainNotice, Session
from .step_log import StepLog

log = structlog.get_logger(__name__)

EVICTED: Final = EventKind.EVICTED
TASK_LIMIT_KEYS: Final = {"scheduler.maxInflight", "scheduler.maxPerAgentInflight"}
"""The limits that hold tasks back. Each is logged once."""
LIMIT_CHECK_SECS: Final = 1.0
MAX_NOTICES_LOGGED: Final = 20
"""Of those that are new at once."""
ELSEWHERE: Final = DrainNotice(None, "another replica serves this namespace", reconnect=True)
CLOSED: Final = "the namespace is closed, since its records are at fault; see the server's log"
DELETED: Final = "the namespace was deleted"
BEING_DELETED: Final = "the namespace is being deleted"
MAX_FOLLOWERS_PER_TURN: Final = 100
"""The others are looked at when time advances."""
GRANT_DELAY_SECS: Final = 0.1
"""After a commit that took longer, the leases that it granted begin to count when it is over."""


class Turn(NamedTuple):
    """The news of one turn of the event loop about a namespace: for its streams, its waiting calls, its listeners."""

    granted: dict[Offer, list[Lease]]
    stops: list[Stop]
    events: list[Event]
    trigger_events: list[TriggerEvent]
    losses: list[Loss]


class EndableCall(Protocol):
    """A call that waits until a host has stopped; see `stop_calls.py`."""

    def end(self) -> None:
        """Wait no longer."""


@dataclass(slots=True, eq=False)
class NamespaceState:
    """One namespace, of this `number` in the store.

    `changes` gathers what the next commit keeps, and `committing` is what the last one took; `outbox` gathers what it
    does to deliveries. A namespace with a `fault` is served no longer. `due` is the next time at which its scheduler
    must be advanced.

    Where replicas share the store, this one owns it under a `term`, and `commits` is the number of its last commit. It
    takes no more commands once `is_leaving`, and nothing at all once it `has_left`. `told` is the last commit that was
    published, and of `untold` events, which turns have taken, listeners are still to hear. One that `is_deleted` leaves
    likewise, once that is kept.

    What is known `about` it beside its scheduler is kept with the next commit if `about_changed`.

    Of the tasks `artifacts_gone`, by their order of submission, the artifacts are to be removed.

    `claims` are the calls that wait for a task to run, `named_claims` those that have an id, `sessions` the streams of
    hosts, `end_waits` the calls that wait for a task to end, by task id, and `stop_calls` those that wait for its host.
    """

    namespace: str
    scheduler: Scheduler
    number: int = 0
    changes: Changes | None = None
    committing: Changes | None = None
    outbox: OutboxRows = field(default_factory=OutboxRows)
    outputs: OutputLogs = field(default_factory=OutputLogs)
    steps: StepLog = field(default_factory=StepLog)
    artifacts_gone: list[int] = field(default_factory=list)
    keeps_history: bool = True
    fault: str | None = None
    about: AboutNamespace = NOTHING_KNOWN
    about_changed: bool = False
    is_deleted: bool = False
    term: int = 0
    commits: int = 0
    told: CommitMark = NO_COMMIT
    untold: int = 0
    is_leaving: bool = False
    has_left: bool = False
    claims: dict[Offer, WaitingClaim] = field(default_factory=dict)
    named_claims: NamedClaims = field(default_factory=NamedClaims)
    sessions: dict[Offer, Session] = field(default_factory=dict)
    end_waits: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    stop_calls: set[EndableCall] = field(default_factory=set)
    due: float | None = None
    limits_logged: set[str] = field(default_factory=set)
    limits_checked_at: float = 0.0

    def keep_history(self, keeps: bool) -> None:
        """Set whether what leaves memory stays in the store, so that what blocks a target may leave it too."""
        self.keeps_history = keeps
        if keeps and self.fault is None:
            self.scheduler.let_blockers_leave()

    def add_rows(self, group: Group) -> None:
        """Add what changed since the last commit to the next one."""
        assert self.changes is not None
        self.committing = self.changes.take()
        if self.is_deleted:
            self._add_deletion(group)
            return
        if self.fault is not None:
            # What is left of it in memory must not take the place of its rows.
            return
        outbox = self.outbox
        if self.term and (self.committing or outbox.due or outbox.done or self.about_changed or self.outputs):
            self.commits += 1
            group.fences[self.number] = Fence(self.term, self.commits, self.needs_owner)
        if self.committing or outbox.due or self.about_changed:
            self.about_changed = False
            add_rows(
                group,
                self.number,
                self.namespace,
                self.scheduler,
                self.committing,
                self.keeps_history,
                outbox.last,
                self.about,
            )
        # Those that are done may be all that has changed.
        outbox.add_to(group, self.number)
        self.outputs.add_to(group, self.number)
        self.steps.collect(self.scheduler.steps, has_store=True)
        self.steps.add_to(group, self.number)

    def _add_deletion(self, group: Group) -> None:
        if not self.has_left:
            if self.term:
                self.commits += 1
                group.fences[self.number] = Fence(self.term, self.commits, needs_owner=False)
            add_deletion(group, self.number, self.namespace)

    @property
    def needs_owner(self) -> bool:
        """True if anything will come due in it although nobody calls."""
        view = self.scheduler.view
        is_live = view.queued > 0 or view.inflight > 0 or view.paused > 0 or view.parked > 0
        is_live = is_live or self.scheduler.operations.live > 0
        return is_live or self.outbox.waiting > 0 or self.scheduler.schedules.next_due() is not None

    def is_among(self, namespaces: frozenset[int]) -> bool:
        """See `Source`."""
        return self.number in namespaces

    def committed(self, at: float) -> None:
        """See `Source`."""
        self.told = CommitMark(self.commits, int(at * 1000))
        if not self.has_left:
            self.outputs.committed()

    @property
    def absence(self) -> Refusal:
        """Why it is served here no longer."""
        if not self.is_deleted:
            return NotOwner()
        return NotFound(DELETED) if self.has_left else Unavailable(BEING_DELETED)

    def require_here(self) -> None:
        """Raise `NotOwner` once another replica owns it, `Unavailable` while it is being deleted."""
        if self.is_leaving or self.has_left:
            raise self.absence

    def leave(self) -> None:
        """End all that waits for it here, since it is another replica's, or was deleted."""
        self.is_leaving = self.has_left = True
        for claim in self.claims.values():
            if not claim.answer.done():
                claim.refuse(self.absence)
        for waits in self.end_waits.values():
            _resolve(waits)
        self.outputs.end()
        for call in self.stop_calls:
            call.end()
        for session in self.sessions.values():
            if self.is_deleted:
                for lease in session.host.leases.values():
                    session.stop(Stop(lease, StopReason.CANCELLED, DELETED))
                session.end(self.absence)
            else:
                session.drain(ELSEWHERE)
                session.end(Unavailable(ELSEWHERE.reason))

    def close_for(self, error: Exception) -> None:
        """Serve nothing more: what changed cannot be kept."""
        self.fault = CLOSED
        log.error("namespace_closed", namespace=self.namespace, error=str(error), check="taskyard store check")

    def find(self, task_id: str, agents: Names | None = None) -> Task | None:
        """The task in memory; None also for one of another agent than these, after as long a time."""
        task = self.scheduler.find(task_id)
        if agents is None:
            return task
        agent_id = task_id if task is None else task.agent_id
        return task if agent_id in agents and task is not None else None

    def is_unkept(self, task_id: str) -> bool:
        """True if the present state of a task is not committed yet."""
        task = self.scheduler.find(task_id)
        if self.changes is None or task is None:
            return False
        return (
            task in self.changes.tasks
            or (self.committing is not None and task in self.committing.tasks)
            or self.scheduler.view.has_event_of(task)
        )

    def take_turn(self, now: float) -> Turn:
        """Dispatch claimable tasks to waiting hosts, and take all that the turn has to tell."""
        scheduler = self.scheduler
        if not self.is_leaving:
            # What comes after a task that has ended in this turn goes on in it, unless it is much.
            scheduler.follow(now, MAX_FOLLOWERS_PER_TURN)
        granted: dict[Offer, list[Lease]] = {}
        # A task that is handed out while the namespace leaves could hardly be started in time.
        if (self.claims or self.sessions) and not self.is_leaving:
            for offer, leases in scheduler.dispatch(now).items():
                if offer.streamed:
                    granted[offer] = leases
                else:
                    self.claims.pop(offer).grant(leases)
                    scheduler.withdraw(offer)
            self._log_limits(now)
        events = scheduler.take_events()
        if scheduler.steps.has_any or self.steps.kept:
            self.steps.collect(scheduler.steps, has_store=self.changes is not None)
            self._let_steps_go(events)
        if scheduler.outputs.has_any or scheduler.artifacts.has_any:
            for event in events:
                if event.kind is EVICTED:
                    self._forget_output(event.task)
                    if not self.keeps_history and scheduler.artifacts.forget(event.task):
                        self.artifacts_gone.append(event.task.seq)
        return Turn(
            granted,
            scheduler.take_stops(),
            events,
            scheduler.schedules.take_events(),
            scheduler.take_losses(),
        )

    def _let_steps_go(self, events: list[Event]) -> None:
        """Of a task without a lease nobody needs the names of its steps, and of one that is gone nothing."""
        for event in events:
            if event.task.lease is None:
                self.scheduler.steps.let_go(event.task)
                if event.kind is EVICTED:
                    self.steps.kept.pop(event.task.seq, None)

    def _forget_output(self, task: Task) -> None:
        """A task has left memory: forget its output there, and everywhere unless the history keeps it."""
        outputs = self.scheduler.outputs
        if outputs.find(task) is not None or not outputs.is_known(task):
            self.outputs.forget(task.seq, for_ever=not self.keeps_history)
        outputs.forget(task, for_ever=not self.keeps_history)

    def hand_over(self, turn: Turn, now: float, secs: float) -> bool:
        """Pass grants and stops to their streams, after a commit that took this many seconds.

        Returns whether that made tasks claimable, so that a turn must follow.
        """
        scheduler = self.scheduler
        for offer, leases in turn.granted.items():
            if secs > GRANT_DELAY_SECS:
                scheduler.count_from(now, leases)
            # The stream may have broken since; its leases wait for the host to come back.
            if (session := self.sessions.get(offer)) is not None:
                session.assign(leases)
        must_repeat = False
        for stop in turn.stops:
            session = self.sessions.get(stop.lease.stream)  # type: ignore[arg-type]
            if session is not None and not session.stop(stop):
                # The host never got the lease and will not report its stop, which a target may wait for.
                scheduler.reports.stopped(now, stop.lease.host.id, stop.lease.task.id, stop.lease.token)
                if session.ended is None:
                    scheduler.return_credit(session.offer, 1)
                must_repeat = True
        return must_repeat

    def notify_ends(self, events: Sequence[Event]) -> None:
        """Release the calls that wait for tasks which have ended."""
        if self.end_waits:
            for event in events:
                if event.state in TERMINAL:
                    _resolve(self.end_waits.pop(event.task.id, ()))

    def log_trigger_limit(self) -> None:
        """Log once each limit that triggers wait for."""
        if (key := self.scheduler.schedules.limited_by) is not None:
            self._log_limit(f"daemon.{key}")

    def look_for_hosts(self, now: float) -> None:
        """See which kinds of tasks no live host may run, and log each once."""
        new = self.scheduler.dispatcher.notices.look(now, self.scheduler.limits.no_host_notice_secs)
        for notice in new[:MAX_NOTICES_LOGGED]:
            log.warning("tasks_without_host", namespace=self.namespace, notice=notice)
        if len(new) > MAX_NOTICES_LOGGED:
            log.warning("tasks_without_host", namespace=self.namespace, more=len(new) - MAX_NOTICES_LOGGED)

    def release_all(self) -> None:
        """Release every waiting call."""
        for claim in self.claims.values():
            if not claim.answer.done():
                claim.grant([])
        for waits in self.end_waits.values():
            _resolve(waits)
        for call in self.stop_calls:
            call.end()

    def _log_limits(self, now: float) -> None:
        """Log once each limit that holds tasks back from free hosts."""
        if now - self.limits_checked_at >= LIMIT_CHECK_SECS and not self.limits_logged >= TASK_LIMIT_KEYS:
            self.limits_checked_at = now
            if (key := self.scheduler.limited_by) is not None:
                self._log_limit(f"scheduler.{key}")

    def _log_limit(self, key: str) -> None:
        if key not in self.limits_logged:
            self.limits_logged.add(key)
            log.warning("limit_reached", namespace=self.namespace, raise_key=key)


def _resolve(waits: set[asyncio.Future[None]] | tuple[()]) -> None:
    for ended in waits:
        if not ended.done():
            ended.set_result(None)
