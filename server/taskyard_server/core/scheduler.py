"""The one front door of the core: commands in, tasks and events out.

A `Scheduler` serves one namespace. A command either does all of its work or raises a `Refusal` and changes nothing.
Each takes `now`, in seconds, and `now` never goes back. Whoever drives it calls `advance` when `next_due` comes, and
collects what happened with `take_events`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from .batches import Batch, BatchSubmission
from .dispatcher import Dispatcher
from .errors import AlreadyExists, BadRequest, Conflict, NotFound, Refusal, Unavailable
from .events import Event
from .hosts import Host, HostProfile, Hosts, HostStatus
from .leases import Lease, Stop, StopReason
from .lifecycle import Lifecycle
from .limits import Limits
from .offers import Offer
from .reports import Reports
from .schedules.registry import ScheduleRegistry
from .stats import AgentStats, Stats, Totals
from .streams import HeldLease, Hello, Streams, TokenUse, Welcome
from .targets import Targets
from .task import CANCELLED, DONE, IN_FLIGHT, PAUSED, STOPPED, TERMINAL, Submission, Task

MAX_SCHEDULES_PER_ADVANCE: Final = 50
"""Finding the next time of a cron expression is slow, so a step deals with few of them."""


class Scheduler:
    """All tasks of one namespace. `entropy` returns 40 random bits for each new id."""

    def __init__(self, limits: Limits, entropy: Callable[[], int]) -> None:
        self.hosts = Hosts()
        self._life = Lifecycle(limits, entropy, self.hosts)
        self._entropy = entropy
        self._draining = False
        self._life.liveness.on_vanished = self._forget_host
        self._dispatcher = Dispatcher(self._life, self.hosts)
        self._streams = Streams(self._life, self.hosts, self._dispatcher)
        self.reports = Reports(self._life, self.hosts)
        self.schedules = ScheduleRegistry(self._life, self._admit, entropy)

    # Commands of agents

    def submit(self, now: float, submission: Submission) -> Task:
        """Accept a task into the queue, or answer with the retained one that the agent submitted under the same key.

        Raises `BadRequest` for a deadline that is not in the future, `AlreadyExists` for a key of another task,
        `Unavailable` while it drains, and `QueueFull` where a limit refuses it; the refused task is then kept as
        `rejected` and consumes no key (docs/rules.md, Admission, Idempotency).
        """
        task = self._admit(now, submission)
        if task is None:
            raise self._life.reject(now, submission)
        return task

    def submit_each(self, now: float, submissions: Sequence[Submission]) -> list[Task | Refusal]:
        """Admit tasks one by one: the task or why it was refused, in order."""
        outcomes: list[Task | Refusal] = []
        for submission in submissions:
            try:
                outcomes.append(self.submit(now, submission))
            except Refusal as refusal:
                # Its traceback would hold this frame, and so the list that holds the refusal: a cycle.
                outcomes.append(refusal.with_traceback(None))
        return outcomes

    def submit_batch(self, now: float, submissions: Sequence[Submission]) -> BatchSubmission:
        """Admit the tasks of one agent one by one, as one batch (docs/rules.md, Batches).

        Raises `BadRequest` or `Unavailable` before any task is admitted; other refusals are outcomes.
        """
        for submission in submissions:
            if not self._is_repeat(submission):
                self._check(now, submission)
        batch_id = f"bat_{int(now * 1000) << 80 | self._entropy() << 40 | self._entropy():032x}"
        batch = self._life.batches.open(batch_id, submissions[0].agent_id, now)
        outcomes = self.submit_each(
            now,
            [submission._replace(options=submission.options._replace(batch_id=batch_id)) for submission in submissions],
        )
        self._life.batches.close(batch)
        return BatchSubmission(batch, outcomes)

    def cancel(self, now: float, task_id: str) -> Task:
        """End a task that has not ended, at once; a host that runs it learns of it by its lost lease.

        Raises `NotFound`, or `Conflict` for a terminal task, unless it blocks its target (docs/rules.md, Cancel).
        """
        task = self.get(task_id)
        if task.state in TERMINAL and not self._life.targets.blocks(task):
            raise Conflict(f"task is already {task.state.value}")
        self._life.finish(now, task, CANCELLED, None, None, StopReason.CANCELLED)
        return task

    def pause(self, now: float, task_id: str) -> Task:
        """Interrupt a task that is assigned or running, so that it can be resumed; one over its budget fails.

        Raises `NotFound`, or `Conflict` (docs/rules.md, Pause).
        """
        task = self.get(task_id)
        if task.state not in IN_FLIGHT:
            raise Conflict(f"task is {task.state.value}, only an assigned or running one can be paused")
        self._life.pause(now, task)
        return task

    def resume(self, now: float, task_id: str, target: str | None = None, token_limit: int | None = None) -> Task:
        """Queue a paused or failed task again, or release a held one. Admission limits do not apply.

        `token_limit` replaces the limit that the task has. Raises `NotFound`, also if it is not of the given target,
        `Conflict`, also for a task over its budget without a new limit, `BadRequest` for a limit that the task has
        reached already, or `Unavailable` while it drains (docs/rules.md, Resume).
        """
        task = self.get(task_id)
        if target is not None and task.options.target != target:
            raise NotFound("task not found")
        if not task.is_held and task.state not in STOPPED:
            raise Conflict(f"task is {task.state.value}, only a paused, failed or held one can be resumed")
        if self._draining:
            raise Unavailable("the scheduler is draining")
        used = task.history.tokens_used or 0
        if token_limit is not None:
            if used and token_limit <= used:
                raise BadRequest(f"tokenLimit: must be above the {used} tokens that the task has used")
            task.history = task.history._replace(token_limit=token_limit)
        elif self._life.attempts.is_over_budget(task):
            raise Conflict(f"task has used {used} of {task.token_limit} tokens, resume it with a higher tokenLimit")
        if task.is_held:
            self._life.release_hold(now, task)
        else:
            self._life.resume(now, task)
        return task

    def resolve(self, now: float, task_id: str, result: bytes | None) -> Task:
        """End a paused or failed task as done. Raises `NotFound` or `Conflict`."""
        task = self.get(task_id)
        if task.state not in STOPPED:
            raise Conflict(f"task is {task.state.value}, only a paused or failed one can be resolved")
        self._life.finish(now, task, DONE, result, None)
        return task

    def cancel_batch(self, now: float, batch_id: str) -> int:
        """Cancel every task of a batch that has not ended; how many that were. Raises `NotFound`."""
        live = [task for task in self.batch(batch_id).tasks.values() if task.state not in TERMINAL]
        for task in live:
            self._life.finish(now, task, CANCELLED, None, None, StopReason.CANCELLED)
        return len(live)

    def get(self, task_id: str) -> Task:
        """The task; raises `NotFound` for one that never was or is no longer retained."""
        return self._life.task(task_id)

    def batch(self, batch_id: str) -> Batch:
        """The batch; raises `NotFound` where none of its tasks is retained."""
        return self._life.batches.get(batch_id)

    def tasks_after(self, seq: int) -> Iterator[Task]:
        """All tasks submitted after `seq`, in order; 0 is before the first. Not to be held across a command."""
        return self._life.tasks.after(seq)

    # Commands of hosts

    def register(
        self,
        now: float,
        host_id: str,
        display_name: str | None,
        profile: HostProfile,
        *,
        slots: int | None = None,
        labels: tuple[tuple[str, str], ...] = (),
        built_in: bool = False,
    ) -> Host:
        """Make or replace a host, which ends its drain (docs/rules.md, Registration)."""
        host = self.hosts.register(now, host_id, display_name, profile, slots=slots, labels=labels, built_in=built_in)
        self._life.liveness.registered(now, host)
        self._dispatcher.refit(now, host)
        return host

    def heartbeat(
        self, now: float, host_id: str, reported_status: HostStatus | None = None, machine: bytes | None = None
    ) -> Host:
        """A sign of life, perhaps with the host's own word and figures of its machine; renews no lease.

        Raises `NotFound` (docs/rules.md, Liveness).
        """
        host = self.hosts.get(host_id)
        self._life.liveness.heard(now, host)
        host.note(reported_status, machine)
        return host

    def drain_host(self, host_id: str, until: float | None = None) -> Host:
        """Give a host nothing new; what it holds it may finish, by `until` if given, when it is paused.

        Raises `NotFound`. The last call counts.
        """
        host = self.hosts.get(host_id)
        self._life.liveness.set_drain(host, until)
        host.draining = True
        for offer in host.offers:
            self._life.offers.capacity_changed(offer)
        return host

    def deregister(self, now: float, host_id: str) -> None:
        """Forget a host; its tasks go back to the queue at once (docs/rules.md, Registration)."""
        self._forget_host(now, self.hosts.get(host_id))

    def claim(
        self, now: float, host_id: str, count: int = 1, lease_secs: float | None = None, project: str | None = None
    ) -> list[Lease]:
        """Lease up to `count` tasks to a host, in claim order, none if none may be claimed.

        Raises `NotFound` for an unknown host, and `BadRequest` for a lease outside of 1 to 3600 s or a `project` that
        is not the host's own, where it has one.
        """
        return self._dispatcher.claim(now, self.hosts.get(host_id), count, lease_secs, project)

    def offer(
        self, now: float, host_id: str, room: int, lease_secs: float | None = None, project: str | None = None
    ) -> Offer:
        """Let a host that claims wait for up to `room` tasks; `dispatch` gives them. Raises as `claim` does."""
        return self._dispatcher.offer(now, self.hosts.get(host_id), room, lease_secs, project)

    def offers_of(self, host_id: str) -> list[Offer]:
        """What a host offers now; nothing for one that is not registered."""
        host = self.hosts.find(host_id)
        return [] if host is None else list(host.offers)

    def withdraw(self, offer: Offer) -> None:
        """The host waits no longer."""
        self._life.offers.close(offer)

    # Commands of hosts with a stream

    def connect(self, now: float, hello: Hello) -> Welcome:
        """Register a host and open its stream, which supersedes the one that it had (docs/rules.md, Connect).

        Raises `AlreadyExists` while another instance of the host lives, `BadRequest` for the length of a lease.
        """
        return self._streams.connect(now, hello)

    def give_credit(self, now: float, stream: Offer, count: int) -> None:
        """The host may be handed so many tasks more."""
        self._life.liveness.heard(now, stream.host)
        self.return_credit(stream, count)

    def return_credit(self, stream: Offer, count: int) -> None:
        """So many tasks ended before the host learned of them: no sign of life, but room."""
        stream.room += count
        self._life.offers.capacity_changed(stream)

    def beat(
        self,
        now: float,
        stream: Offer,
        held: Sequence[HeldLease],
        reported_status: HostStatus | None = None,
        machine: bytes | None = None,
        tokens: Sequence[TokenUse] = (),
    ) -> list[HeldLease]:
        """The host lives; the leases that it lists are renewed, and those of them that have ended are returned."""
        return self._streams.beat(now, stream, held, reported_status, machine, tokens)

    def heartbeat_secs(self, stream: Offer) -> float:
        """How often the host of a stream shall send a heartbeat."""
        return self._streams.heartbeat_secs(stream.secs)

    def disconnect(self, now: float, stream: Offer) -> None:
        """The stream is gone; its leases live on for `reconnect_grace_secs`, never past their own end."""
        self._streams.disconnect(now, stream)

    # Dispatcher out

    def dispatch(self, now: float) -> dict[Offer, list[Lease]]:
        """Lease what can be leased to the hosts that wait: the least loaded by share of its slots chooses first."""
        return self._dispatcher.dispatch(now)

    def take_stops(self) -> list[Stop]:
        """Which work on streams is to stop, since this was last called."""
        grants = self._life.grants
        taken, grants.stops = grants.stops, []
        return taken

    # Leases

    def leases_after(self, number: int, host_id: str | None = None) -> list[Lease]:
        """The live leases granted after the one of this number, in order; those of one host, or of all."""
        hosts = self.hosts if host_id is None else [self.hosts.get(host_id)]
        leases = [lease for host in hosts for lease in host.leases.values() if lease.number > number]
        return sorted(leases, key=lambda lease: lease.number)

    # Time, limits, the end

    def next_due(self) -> float | None:
        """When `advance` has something to do, in seconds on the caller's clock; None while nothing can come due."""
        # The tab executor may take more when the last runtime host has fallen silent.
        silent_from = self._life.liveness.silent_from()
        dues = (self._life.next_due(), silent_from, self.schedules.next_due())
        return min((due for due in dues if due is not None), default=None)

    def advance(self, now: float, most: int = 1000) -> bool:
        """Do what has come due, in order of time, a deadline before a lease that ends with it.

        Stops after `most` items and returns True if more may be due, so that the caller can let others run between.
        """
        self._life.liveness.note_silence(now)
        more = self._life.advance(now, most)
        return self.schedules.advance(now, min(most, MAX_SCHEDULES_PER_ADVANCE)) or more

    def reconcile(self, now: float) -> None:
        """End what dead hosts hold: the safety net beside the look that each silence gets by itself.

        Called every `orphan_check_secs` (docs/rules.md, Orphan sweep).
        """
        for host in self.hosts:
            if self._life.liveness.is_dead(now, host) and not host.built_in:
                self._life.liveness.orphan(now, host)

    def recover(self, now: float) -> None:
        """Go on after a restart with what was restored (docs/rules.md, Recovery)."""
        self.reconcile(now)
        self.schedules.recover(now)

    def reconfigure(self, limits: Limits) -> None:
        """Put new limits in force. What was admitted or is in flight stays, also above a lowered limit."""
        self._life.limits = limits
        self._life.ready.hold_triggered(self._life.triggered_inflight >= limits.max_concurrent)
        self._life.offers.wake_all()
        self.schedules.limits_changed()
        self._streams.timeouts_changed()
        self._life.liveness.timeouts_changed()

    def drain(self) -> None:
        """Hand out and accept nothing from now on; what is in flight may finish (docs/rules.md, Drain and shutdown)."""
        self._draining = True
        self._dispatcher.stop()
        self.schedules.hold()

    def shut_down(self, now: float) -> None:
        """Interrupt what is in flight, and end what waits: this core does not outlive its process."""
        for task in [task for task in self.tasks_after(0) if task.state not in TERMINAL]:
            if task.state in IN_FLIGHT:
                self._life.pause(now, task, StopReason.SHUTDOWN)
            elif task.state is not PAUSED:
                self._life.finish(now, task, CANCELLED, None, "scheduler shutdown")

    # Figures

    def take_events(self) -> list[Event]:
        """What has happened since this was last called, in order."""
        taken, self._life.events = self._life.events, []
        return taken

    @property
    def inflight(self) -> int:
        """Tasks that are assigned or running."""
        return self._life.inflight

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._life.limits

    @property
    def limited_by(self) -> str | None:
        """The configuration key that keeps a host, which submission for more than it got, from tasks that wait."""
        return self._dispatcher.limited_by

    @property
    def targets(self) -> Targets:
        """The targets that have tasks which wait, run or block. To be read at once."""
        return self._life.targets

    def stats(self) -> Stats:
        """The figures of this moment (docs/rules.md, Figures)."""
        life = self._life
        return Stats(
            queued=life.queued,
            inflight=life.inflight,
            paused=life.paused,
            limited_by=self.limited_by,
            counters=replace(life.counters),
            limits=life.limits,
            agents={name: AgentStats.of(figures, life.agents.get(name)) for name, figures in life.figures},
        )

    def add_to(self, totals: Totals) -> None:
        """Add this namespace's figures to those of others."""
        life = self._life
        totals.queued += life.queued
        totals.inflight += life.inflight
        totals.paused += life.paused
        totals.retained += len(life.retention)
        totals.namespaces += 1
        totals.counters.add(life.counters)
        self.schedules.add_to(totals)

    # What the commands share

    def _forget_host(self, now: float, host: Host) -> None:
        for lease in list(host.leases.values()):
            self._life.grants.take_back(now, lease.task)
        self._dispatcher.forget(host)
        host.stream = None
        self.hosts.remove(host)
        self._life.liveness.removed(host)

    def _admit(self, now: float, submission: Submission) -> Task | None:
        """The task that was accepted, or the first one under its key; None where a limit refuses it."""
        first = self._first_under(submission)
        if first is not None:
            return first
        self._check(now, submission)
        return self._life.accept(now, submission)

    def _is_repeat(self, submission: Submission) -> bool:
        key = submission.options.key
        return key is not None and (submission.agent_id, key.key) in self._life.keys

    def _first_under(self, submission: Submission) -> Task | None:
        key = submission.options.key
        first = None if key is None else self._life.keys.get((submission.agent_id, key.key))
        if first is not None and first.options.key != key:
            raise AlreadyExists("idempotencyKey: is that of another task")
        return first

    def _check(self, now: float, submission: Submission) -> None:
        """Raise for what no admission could accept."""
        if self._draining:
            raise Unavailable("the scheduler is draining")
        if submission.deadline is not None and submission.deadline <= now:
            raise BadRequest("deadline: must be in the future")
