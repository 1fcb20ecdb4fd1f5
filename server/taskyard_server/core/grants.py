"""How leases begin and end: granted, begun, renewed, given back, lost, stopped.

Every end of a lease goes through `Grants.end`, which frees the slot of the agent, the room of the host and, unless work
may still go on under the lease, the target. What a task becomes is decided here only where its lease ends by itself.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from .history import NO_HISTORY
from .leases import Lease, Stop, StopReason
from .stopping_leases import StoppingLeases
from .task import ASSIGNED, FAILED, QUEUED, RUNNING
from .timers import TimerOrder

if TYPE_CHECKING:
    from .hosts import Host
    from .lifecycle import Lifecycle
    from .offers import Offer
    from .task import Task

LEASE_ENDED: Final = StopReason.LEASE_ENDED

NOT_STARTED: Final = "not started by its host"
DEREGISTERED: Final = "the host was deregistered"


class Grants:
    """The live leases of one namespace by when they end, and those under which work may still go on.

    `stops` is what streams are to be told, until `Scheduler.take_stops` takes it.
    """

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.stops: list[Stop] = []
        self.ends = life.timers.queue(self._expire, TimerOrder.LEASE_END)
        self.stopping = StoppingLeases(life.timers.queue(self.has_stopped, TimerOrder.STOPPING))

    def grant(self, now: float, task: Task, host: Host, secs: float, stream: Offer | None = None) -> Lease:
        """Lease a task that was just taken from the ready queue; over a stream its host must start it in time."""
        life = self._life
        task.agent.queued -= 1
        life.queued -= 1
        life.inflight += 1
        task.deliveries += 1
        task.token += 1
        task.host_id = None if host.built_in else host.id
        if task.history is not NO_HISTORY:
            task.history = task.history._replace(tokens_before=task.history.tokens_used or 0)
        life.emit(now, task, life.transition(task, ASSIGNED, None))
        if task.options.target is not None:
            life.targets.take(now, task)
        counters = life.counters
        counters.dispatched += 1
        counters.dispatch_latency_secs += now - task.queued_at
        lease = Lease(task, host, task.token, now, secs, counters.dispatched)
        if stream is not None:
            lease.stream = stream
            lease.start_by = now + life.limits.start_timeout_secs
            lease.due = min(lease.start_by, lease.expires_at)
        task.lease = host.leases[task.id] = lease
        self.ends.add(lease.due, lease)
        if host.silence_at is None:
            life.liveness.listen_for(host)
        return lease

    def begin(self, now: float, task: Task, is_over: bool = False) -> None:
        """The host executes the task, or has done so if it `is_over`; the first execution counts as the start."""
        life = self._life
        before = life.transition(task, RUNNING, None)
        if task.started_at is None:
            task.started_at = now
        lease = task.lease
        assert lease is not None
        lease.started_at = now
        life.emit(now, task, before)
        if lease.stream is not None and not is_over:
            lease.start_by = inf
            self.retime(lease)

    def retime(self, lease: Lease) -> None:
        """One of the times at which the lease would end has changed."""
        due = lease.expires_at
        if lease.start_by < due:
            due = lease.start_by
        if lease.adopt_by < due:
            due = lease.adopt_by
        if due != lease.due:
            self.ends.remove(lease.due, lease)
            lease.due = due
            self.ends.add(due, lease)

    def release(self, now: float, task: Task) -> None:
        """The host gives the task back unexecuted, which does not count as a delivery."""
        task.deliveries -= 1
        self._requeue(now, task, None, None)

    def take_back(self, now: float, task: Task) -> None:
        """The host was deregistered: its task goes back to its old place in the queue."""
        if task.state is RUNNING:
            self._life.attempts.record(now, task, DEREGISTERED, None)
        self._requeue(now, task, None, LEASE_ENDED)

    def lose(self, now: float, lease: Lease, why: str) -> None:
        """The host is lost: another may try, up to `max_deliveries` (docs/rules.md, Lost leases).

        A task that was given to a stream and never started does not count as a delivery. A retry policy alone decides
        where there is one. A task with a target fails otherwise (docs/rules.md, Lost leases).
        """
        task, life = lease.task, self._life
        if lease.stream is not None and task.state is ASSIGNED:
            task.deliveries -= 1
            self._requeue(now, task, NOT_STARTED, LEASE_ENDED)
            return
        life.counters.leases_expired += 1
        options = task.options
        if options.retry is not None:
            life.attempts.fail(now, task, why, True, None, LEASE_ENDED)
        elif options.target is None and task.deliveries < life.limits.max_deliveries:
            life.attempts.record(now, task, why, None)
            self._requeue(now, task, why, LEASE_ENDED)
        else:
            life.finish(now, task, FAILED, None, why, LEASE_ENDED)

    def end(self, now: float, task: Task, stop: StopReason | None, message: str) -> None:
        """End the lease of a task that left flight.

        `stop` is why the host shall stop its work, None if the host itself reported the end. Until it has stopped the
        target stays taken, unless its start was never acknowledged: over a stream a host begins a task that has a
        target only then (docs/rules.md, Acknowledged starts).
        """
        lease, life = task.lease, self._life
        assert lease is not None
        task.lease = None
        host = lease.host
        del host.leases[task.id]
        self.ends.remove(lease.due, lease)
        life.inflight -= 1
        life.ready.release_slot(task.agent)
        for offer in host.offers:
            life.offers.capacity_changed(offer)
        if stop is not None and lease.stream is not None:
            self.stops.append(Stop(lease, stop, message))
        if task.options.target is not None:
            may_run = lease.stream is None or lease.started_at is not None
            if stop is not None and may_run and lease.expires_at > now:
                self.stopping.add(lease)
                life.targets.stop(lease)
            life.targets.vacate(now, task)

    def has_stopped(self, now: float, lease: Lease) -> None:
        """Nothing runs any more under a lease that ended while its host may have worked."""
        self.stopping.remove(lease)
        self._life.targets.stopped(now, lease)

    def _expire(self, now: float, lease: Lease) -> None:
        self.lose(now, lease, "lease expired")

    def _requeue(self, now: float, task: Task, why: str | None, stop: StopReason | None) -> None:
        """Back to its old place in the queue; `why` is for the host, the task itself has not failed."""
        life = self._life
        life.emit(now, task, life.transition(task, QUEUED, None))
        life.count_in(task)
        if task.options.target is None:
            self.end(now, task, stop, why or DEREGISTERED)
            life.enqueue(now, task)
        else:
            # First, so that no younger task of the target is elected between.
            life.enqueue(now, task)
            self.end(now, task, stop, why or DEREGISTERED)
