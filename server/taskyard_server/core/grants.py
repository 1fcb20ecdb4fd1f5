"""The life of leases: granted, started, renewed, released, lost, ended, stopped.

Every lease ends in `Grants.end`, which frees the slot of the agent, the slot of the host and, unless the host may still
work, the target. This file decides the next state of a task only where no report of a result does: after a release, an
expired lease, a lost or a deregistered host. It does not know which host gets which task; `dispatcher.py` does.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Final

from .attempts import TAB_HANDED_OFF
from .leases import Lease, Loss, Stop, StopReason
from .limits import RESTART_GRACE_SECS
from .stopping_leases import StoppingLeases
from .task import ASSIGNED, FAILED, NO_EXTRAS, NO_HISTORY, NO_OPTIONS, PARKED, QUEUED, RUNNING
from .timers import TimerOrder, tick_of

if TYPE_CHECKING:
    from .history import Park
    from .hosts import Host
    from .lifecycle import Lifecycle
    from .offers import Offer
    from .task import Task

LEASE_ENDED: Final = StopReason.LEASE_ENDED

NOT_STARTED: Final = "not started by its host"
DEREGISTERED: Final = "the host was deregistered"


class Grants:
    """The live leases of one namespace by the time at which they end, and the `stopping` ones.

    `last_token` is the fencing token of the last grant, 0 before the first; what restores a namespace sets it.
    """

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self.last_token = 0
        # For the streams, until the next `take_stops`.
        self._stops: list[Stop] = []
        self._losses: list[Loss] = []
        self._ends = life.timers.queue(self._expire, TimerOrder.LEASE_END)
        self.holders = life.timers.looks(self._first, self._ends, self._look_again)
        self.stopping = StoppingLeases(life.timers.queue(self._presume_stopped, TimerOrder.STOPPING), life.changes)

    def grant(
        self,
        now: float,
        task: Task,
        host: Host,
        secs: float,
        stream: Offer | None = None,
        claim_id: str | None = None,
    ) -> Lease:
        """Lease a task that was just taken from the ready queue. Over a stream, its host must start it in time."""
        life = self._life
        task.agent.queued -= 1
        life.counts.queued -= 1
        life.counts.inflight += 1
        task.deliveries += 1
        token = self.last_token + 1
        task.token = self.last_token = token
        task.host_id = None if host.built_in else host.id
        history = task.history
        if history is not NO_HISTORY:
            # It says why the task waited, which is over.
            code = None if history.code == TAB_HANDED_OFF else history.code
            park = history.park
            if park is not None and park.keeps_target:
                park = park._replace(keeps_target=False)
            task.history = history._replace(tokens_before=history.tokens_used or 0, code=code, park=park)
        life.emit(now, task, life.transition(task, ASSIGNED, None))
        if task.options is not NO_OPTIONS and task.options.target is not None:
            life.targets.take(now, task)
        counters = life.counters
        counters.dispatched += 1
        counters.dispatch_latency_secs += now - task.queued_at
        lease = Lease(task, host, token, now, secs, claim_id)
        if task.options is not NO_OPTIONS and task.options.extras.inputs:
            lease.inputs = life.predecessors.inputs[task]
        if stream is not None:
            lease.stream = stream
            lease.start_by = now + life.limits.start_timeout_secs
        task.lease = host.leases[task.id] = lease
        if claim_id is not None:
            host.claimed.setdefault(claim_id, {})[lease] = None
        due = lease.due
        if due < host.look_at:
            self.holders.no_later(due, host)
        if host.silence_at is None:
            life.liveness.arm_silence_timer(host)
        return lease

    def restore(self, now: float, lease: Lease) -> None:
        """Let a stored lease of a task live on for one full length from now; its task has the token already.

        One of a `stream` waits for that to come back. One that its host has not started waits for that, too.
        """
        life, task = self._life, lease.task
        lease.expires_at = now + lease.secs
        if lease.stream is not None:
            lease.adopt_by = now + max(life.limits.reconnect_grace_secs, RESTART_GRACE_SECS)
            if lease.started_at is None:
                lease.start_by = now + max(life.limits.start_timeout_secs, RESTART_GRACE_SECS)
        task.lease = lease.host.leases[task.id] = lease
        if lease.claim_id is not None:
            lease.host.claimed.setdefault(lease.claim_id, {})[lease] = None
        self.holders.no_later(lease.due, lease.host)
        if task.options.run_timeout_secs is not None:
            life.attempts.timeouts.restore(now, lease)

    def begin(self, now: float, task: Task, is_over: bool = False) -> None:
        """Record that the host started the task, or has already ended it (`is_over`)."""
        life = self._life
        before = life.transition(task, RUNNING, None)
        if task.begun_at == inf:
            task.begun_at = now
        lease = task.lease
        assert lease is not None
        lease.begun_at = now
        life.emit(now, task, before)
        if lease.stream is not None and not is_over:
            lease.start_by = inf
        if not is_over and task.options is not NO_OPTIONS and task.options.run_timeout_secs is not None:
            life.attempts.timeouts.begin(lease)

    def retime(self, lease: Lease) -> None:
        """One of the times that end a lease is earlier than before; nobody has to tell of a later one."""
        self.holders.no_later(lease.due, lease.host)

    def count_from(self, now: float, lease: Lease) -> None:
        """Let a live lease count from now on: its host learns of it only now."""
        if lease.task.lease is lease:
            lease.expires_at = max(lease.expires_at, now + lease.secs)
            if lease.start_by != inf:
                lease.start_by = now + self._life.limits.start_timeout_secs

    def park(self, now: float, task: Task, park: Park) -> None:
        """Let a running task wait without its lease; neither the delivery nor an attempt counts."""
        life = self._life
        before = life.transition(task, PARKED, None)
        task.history = task.history._replace(park=park)
        task.deliveries -= 1
        if task.deadline_secs is None:
            task.deadline = None
        life.counts.parked += 1
        task.page.entered(PARKED)
        life.emit(now, task, before)
        self.end(now, task, None, "")

    def release(self, now: float, task: Task, after_secs: float | None = None, code: str | None = None) -> None:
        """Requeue a task that its host returns unexecuted, at once or after a time. The delivery does not count."""
        task.deliveries -= 1
        if after_secs is None:
            self._requeue(now, task, None, None)
        else:
            self._life.attempts.set_back(now, task, now + after_secs, code)

    def take_back(self, now: float, task: Task) -> None:
        """Requeue a task whose host was deregistered."""
        if task.state is RUNNING:
            self._life.attempts.record(now, task, DEREGISTERED, None)
        self._requeue(now, task, None, LEASE_ENDED)

    def lose(self, now: float, lease: Lease, reason: str) -> None:
        """End a lease whose host is lost; the task is requeued, up to `max_deliveries` (docs/rules.md, Lost leases).

        A task that was granted over a stream and never started is requeued, and its delivery does not count. A retry
        policy, if there is one, decides alone. Otherwise a task with a target fails, since its host may still work on
        it (docs/rules.md, Lost leases).
        """
        task, attempt = lease.task, lease.task.history.last_number + 1
        if lease.stream is not None and lease.stream is lease.host.stream:
            self._life.liveness.rests.lost(now, lease)
        if lease.stream is not None and task.state is ASSIGNED:
            reason = NOT_STARTED
            task.deliveries -= 1
            self._requeue(now, task, reason, LEASE_ENDED)
        else:
            self._fail_attempt(now, task, reason)
        loss = Loss(
            task.id,
            task.agent_id,
            lease.host.id,
            attempt,
            lease.token,
            reason,
            task.state,
            task.options.traceparent,
        )
        self._losses.append(loss)

    def _fail_attempt(self, now: float, task: Task, reason: str) -> None:
        """The host of a task was lost, which it may have begun."""
        life = self._life
        life.counters.leases_expired += 1
        options = task.options
        if options.retry is not None:
            life.attempts.fail(now, task, reason, True, None, LEASE_ENDED)
        elif options.target is None and task.deliveries < life.limits.max_deliveries:
            life.attempts.record(now, task, reason, None)
            life.attempts.note_failure(task, None, None)
            self._requeue(now, task, reason, LEASE_ENDED)
        else:
            life.finish(now, task, FAILED, None, reason, LEASE_ENDED)

    def end(self, now: float, task: Task, stop: StopReason | None, message: str) -> None:
        """End the lease of a task that is no longer in flight.

        `stop` is why the host shall stop working, None if the host reported the end. Until it has stopped the target
        stays taken, unless its start was never acknowledged: over a stream a host begins a task that has a target only
        after the acknowledgement (docs/rules.md, Acknowledged starts).
        """
        lease, life = task.lease, self._life
        assert lease is not None
        task.lease = None
        host = lease.host
        del host.leases[task.id]
        if lease.claim_id is not None:
            _forget_claim(host, lease, lease.claim_id)
        life.counts.inflight -= 1
        task.agent.figures.add_time(lease.claimed_at, now)
        life.ready.release_slot(task.agent)
        if task.options is not NO_OPTIONS:
            if task.options.run_timeout_secs is not None:
                life.attempts.timeouts.end(lease)
            if task.options.extras is not NO_EXTRAS:
                life.ready.keys.release(now, task.options.extras.concurrency_keys)
        for offer in host.offers:
            life.offers.capacity_changed(offer)
        if stop is not None and lease.stream is not None:
            lease.has_stop = True
            self._stops.append(Stop(lease, stop, message))
        if task.options is not NO_OPTIONS and task.options.target is not None:
            may_run = lease.stream is None or lease.begun_at != inf
            if stop is not None and may_run and lease.expires_at > now:
                self.stopping.add(lease)
                life.targets.stop(lease)
            # A parked one has it until it is known whether it is queued again at once.
            if task.state is not PARKED:
                life.targets.vacate(now, task)

    def has_stopped(self, now: float, lease: Lease) -> None:
        """Free the target of a stopping lease: nothing runs under it any more."""
        self._end_stopping(now, lease, is_presumed=False)

    def _presume_stopped(self, now: float, lease: Lease) -> None:
        self._end_stopping(now, lease, is_presumed=True)

    def _end_stopping(self, now: float, lease: Lease, is_presumed: bool) -> None:
        self.stopping.remove(lease, is_presumed)
        if lease.task.options.target is not None:
            self._life.targets.stopped(now, lease)

    def take_stops(self) -> list[Stop]:
        """The leases of streams that have ended since the last call, other than by a report of their host."""
        taken, self._stops = self._stops, []
        return taken

    def take_losses(self) -> list[Loss]:
        """The leases that were lost since the last call, in order."""
        if not self._losses:
            return []
        taken, self._losses = self._losses, []
        return taken

    def _first(self, host: Host, tick: int) -> float:
        """When the first lease of a host ends; those that are over by this tick get a timer."""
        first = inf
        for lease in host.leases.values():
            due = lease.due
            if due < first:
                if tick and tick_of(due) <= tick:
                    self._ends.add(due, lease)
                else:
                    first = due
        return first

    def _expire(self, now: float, lease: Lease) -> bool:
        if lease.task.lease is lease and lease.due <= now:
            self.lose(now, lease, "lease expired")
            return True
        # It was renewed after the look that found it, or has ended.
        self._look_again(lease)
        return False

    def _look_again(self, lease: Lease) -> None:
        if lease.task.lease is lease:
            self.retime(lease)

    def _requeue(self, now: float, task: Task, reason: str | None, stop: StopReason | None) -> None:
        """Queue a task in its old position and end its lease; `reason` is for the host, the task has not failed."""
        life = self._life
        life.emit(now, task, life.transition(task, QUEUED, None))
        life.count_queued(task)
        if task.options.target is None:
            self.end(now, task, stop, reason or DEREGISTERED)
            life.enqueue(now, task)
        else:
            # Enqueued first, so that no younger task of the target becomes its head in between.
            life.enqueue(now, task)
            self.end(now, task, stop, reason or DEREGISTERED)


def _forget_claim(host: Host, lease: Lease, claim_id: str) -> None:
    """Take an ended lease from those of its claim, whose id is free once all of them have ended."""
    leases = host.claimed[claim_id]
    del leases[lease]
    if not leases:
        del host.claimed[claim_id]
