"""The entry point of the core: commands in, tasks and events out.

A `Scheduler` serves one namespace. A command either does all of its work or raises a `Refusal` and changes nothing.
Each takes `now`, in seconds, which never goes back. The engine calls `advance` when `next_due` comes, and collects what
has happened with `take_events` and `take_stops`.

This file checks what a command may do in the present state. `Lifecycle` and the other parts carry it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from .admission import Admission
from .batches import Batch, BatchSubmission
from .changes import Changes
from .dispatcher import Dispatcher
from .errors import BadRequest, Conflict, Refusal
from .events import Event
from .hosts import Host, HostProfile, Hosts, HostStatus
from .leases import Lease, Loss, Stop
from .lifecycle import Lifecycle
from .limits import Limits
from .names import Names
from .offers import Offer
from .operations.operations import Operations
from .predecessors import IN_MEMORY, Known
from .reports import Reports
from .rules import Rules
from .runs.artifacts import Artifacts
from .runs.child_tasks import ChildTasks
from .runs.outputs import Outputs
from .schedules.registry import ScheduleRegistry
from .state_checks import check_cancel, check_pause, check_resolve, check_resume
from .stopping_leases import StopWaits
from .streams import HeldLease, Hello, Streams, TokenUse, Welcome
from .task import TERMINAL, Existing, Submission, Task
from .view import View

RESTARTED: Final = "lease expired: the server was started anew"
MAX_SCHEDULES_PER_ADVANCE: Final = 50
"""Maximum schedules processed in one `advance`: finding the next time of a cron expression is slow."""


class Scheduler:
    """All tasks of one namespace. `entropy` returns 40 random bits for each new id; `changes` is for a store."""

    def __init__(self, limits: Limits, entropy: Callable[[], int], changes: Changes | None = None) -> None:
        self.hosts = Hosts()
        self._life = Lifecycle(limits, entropy, self.hosts, changes)
        self._entropy = entropy
        self._admission = Admission(self._life)
        self.rules = Rules(self._life.ready, self._life.agents, self._life.readers, changes)
        self.operations = Operations(self._life, self._admission, self.resume)
        self.dispatcher = Dispatcher(self._life, self.hosts)
        self.keys, self.targets, self.readers = self._life.ready.keys, self._life.targets, self._life.readers
        self.stop_waits = StopWaits(self._life.grants.stopping)
        self.view = View(self._life)
        self._life.liveness.on_vanished = self.dispatcher.forget
        self._streams = Streams(self._life, self.hosts, self.dispatcher)
        # Restored leases of hosts that ended with the process before.
        self.left_behind: list[Lease] = []
        self.reports = Reports(self._life, self.hosts, self.stop_waits)
        self.outputs = Outputs(self.reports, self.readers, limits)
        named = self._life.children.named
        self.artifacts = Artifacts(self._life.tasks, named, self.reports, self.readers, limits)
        self.children = ChildTasks(named, self.reports, self._admission, self._life.pending)
        self.parks, self.steps = self._life.parks, self._life.parks.steps
        self.schedules = ScheduleRegistry(self._life, self._admission.admit, entropy)

    # Commands of agents

    def submit(self, now: float, submission: Submission, known: Known = IN_MEMORY) -> Task | Existing:
        """Accept a task into the queue, or return the first one that the agent submitted under the same key.

        It may come after tasks that are `known`. One that has its unique key is returned as `Existing`. Raises
        `BadRequest` for a deadline that has passed, `AlreadyExists` for the key of another task, `NotFound` or
        `Conflict` for what it comes after, `Unavailable` during a drain, and `QueueFull` if a limit is reached; the
        refused task is then `rejected` and uses no key (docs/rules.md, Admission, Idempotency, Unique keys).
        """
        return self._admission.submit(now, submission, known)

    def submit_each(
        self, now: float, submissions: Sequence[Submission], known: Known = IN_MEMORY
    ) -> list[Task | Existing | Refusal]:
        """Submit tasks one by one; for each, in order, what `submit` returns, or why it was refused."""
        return self._admission.submit_each(now, submissions, known)

    def submit_batch(self, now: float, submissions: Sequence[Submission], known: Known = IN_MEMORY) -> BatchSubmission:
        """Submit the tasks of one agent as one batch (docs/rules.md, Batches). Other refusals are outcomes.

        Raises `BadRequest` or `Unavailable` before any task is accepted.
        """
        batch_id = f"bat_{int(now * 1000) << 80 | self._entropy() << 40 | self._entropy():032x}"
        return self._admission.submit_batch(now, submissions, batch_id, known)

    def cancel(self, now: float, task_id: str, reason: str | None = None) -> Task:
        """Cancel a task at once. A host without a stream learns of it by its lost lease.

        Raises `NotFound`, or `Conflict` for a terminal task that does not block its target; for a `reason` as
        `require_reason` does, here and below. See docs/rules.md, Cancel, Reasons.
        """
        self.readers.require_reason(reason)
        task = self.get(task_id)
        check_cancel(task, self._life.targets.blocks(task))
        self._life.cancel(now, task, reason)
        return task

    def cancel_with_children(
        self, now: float, task_id: str, agents: Names | None = None, reason: str | None = None
    ) -> tuple[Task, int]:
        """Cancel a task and all that descends from it, of these agents, and has not ended; with how many these were.

        One that has ended stays as it is, and is a `Conflict` if nothing can be cancelled. Raises `NotFound`.
        """
        self.readers.require_reason(reason)
        task = self.get(task_id)
        below = [each for each in self._life.children.live_below(task_id) if agents is None or each.agent_id in agents]
        if not below or task.state not in TERMINAL:
            self.cancel(now, task_id, reason)
        for each in below:
            self._life.cancel(now, each, reason)
        return task, len(below)

    def pause(self, now: float, task_id: str, reason: str | None = None) -> Task:
        """Interrupt an assigned or running task, so that it can be resumed; a task over its budget fails.

        Raises `NotFound`, or `Conflict` (docs/rules.md, Pause).
        """
        self.readers.require_reason(reason)
        task = self.get(task_id)
        check_pause(task)
        lease = task.lease
        self._life.pause(now, task, reason=reason)
        self.stop_waits.was_paused(now, lease)
        return task

    def resume(self, now: float, task_id: str, target: str | None = None, token_limit: int | None = None) -> Task:
        """Queue a paused or failed task again, or release a held one. Admission limits do not apply.

        `token_limit` replaces the task's limit. Raises `NotFound`, also if the task has another target than the given
        one; `Conflict`, also for a task over its budget without a new limit, or one whose inputs are not kept;
        `BadRequest` for a limit that the task has reached; `Unavailable` during a drain, and while what ends with the
        task is still to be cancelled (docs/rules.md, Resume).
        """
        task = self.get(task_id)
        check_resume(task, target)
        self._admission.require_open()
        self._life.children.ends.require_settled(task)
        if task.options.extras.inputs:
            self._life.predecessors.require_inputs(task)
        used = task.history.tokens_used or 0
        if token_limit is not None:
            if used and token_limit <= used:
                raise BadRequest(f"tokenLimit: must be above the {used} tokens that the task has used")
            task.history = task.history._replace(token_limit=token_limit)
        elif self._life.attempts.is_over_budget(task):
            raise Conflict(f"task has used {used} of {task.token_limit} tokens, resume it with a higher tokenLimit")
        if task.is_held:
            self._life.pending.release_hold(now, task)
        else:
            self._life.resume(now, task)
        return task

    def resolve(self, now: float, task_id: str, result: bytes | None, reason: str | None = None) -> Task:
        """End a paused or failed task as done. Raises `NotFound` or `Conflict`."""
        self.readers.require_reason(reason)
        task = self.get(task_id)
        check_resolve(task)
        self._life.resolve(now, task, result, reason)
        return task

    def cancel_batch(self, now: float, batch_id: str, reason: str | None = None) -> int:
        """Cancel the tasks of a batch that have not ended, and return their number. Raises `NotFound`."""
        self.readers.require_reason(reason)
        live = [task for task in self.batch(batch_id).tasks.values() if task.state not in TERMINAL]
        for task in live:
            self._life.cancel(now, task, reason)
        return len(live)

    def get(self, task_id: str) -> Task:
        """The task; raises `NotFound` if it never existed or is no longer retained."""
        return self._life.task(task_id)

    def find(self, task_id: str) -> Task | None:
        """The task, or None."""
        return self._life.tasks.get(task_id)

    def batch(self, batch_id: str) -> Batch:
        """The batch; raises `NotFound` if none of its tasks is retained."""
        return self._life.tasks.batches.get(batch_id)

    def tasks_after(self, seq: int) -> Iterator[Task]:
        """All tasks submitted after `seq`, in order; 0 is before the first. Do not hold it across a command."""
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
        """Add or update a host; registration ends its drain (docs/rules.md, Registration)."""
        known = self.hosts.find(host_id)
        before = None if known is None else known.kept()
        host = self.hosts.register(now, host_id, display_name, profile, slots=slots, labels=labels, built_in=built_in)
        self._life.liveness.registered(now, host)
        if self._life.changes is not None and host.kept() != before:
            self._life.changes.hosts[host] = None
        self.dispatcher.refresh(now, host)
        return host

    def heartbeat(
        self, now: float, host_id: str, reported_status: HostStatus | None = None, machine: bytes | None = None
    ) -> Host:
        """Record a sign of life, with the status and the machine's figures that the host reports; renews no lease.

        Raises `NotFound` (docs/rules.md, Liveness).
        """
        host = self.hosts.get(host_id)
        self._life.liveness.heard(now, host)
        host.set_reported(reported_status, machine)
        return host

    def drain_host(self, host_id: str, until: float | None = None) -> Host:
        """Grant a host no more leases. It may finish its tasks; those that still run at `until` are paused.

        A further call replaces `until`. Raises `NotFound`.
        """
        host = self.hosts.get(host_id)
        self._life.liveness.set_drain(host, until)
        host.draining = True
        if self._life.changes is not None:
            self._life.changes.hosts[host] = None
        for offer in host.offers:
            self._life.offers.capacity_changed(offer)
        return host

    def deregister(self, now: float, host_id: str) -> None:
        """Remove a host; its tasks are requeued at once. Raises `NotFound` (docs/rules.md, Registration)."""
        self.dispatcher.forget(now, self.hosts.get(host_id))

    def claim(
        self,
        now: float,
        host_id: str,
        count: int = 1,
        lease_secs: float | None = None,
        project: str | None = None,
        claim_id: str | None = None,
    ) -> list[Lease]:
        """Lease up to `count` tasks to a host, in claim order, perhaps none.

        While leases live that it claimed under the same `claim_id`, these are the answer, as they are, however many
        (docs/rules.md, Claim ids).

        Raises `NotFound` for an unknown host, and `BadRequest` for a lease outside of 1 to 3600 s or for a `project`
        other than the host's own, if it has one.
        """
        return self.dispatcher.claim(now, self.hosts.get(host_id), count, lease_secs, project, claim_id)

    def offer(
        self,
        now: float,
        host_id: str,
        room: int,
        lease_secs: float | None = None,
        project: str | None = None,
        claim_id: str | None = None,
    ) -> Offer:
        """Let a claim wait for up to `room` tasks, which `dispatch` grants, in the place of one of the same `claim_id`.

        Raises as `claim` does.
        """
        return self.dispatcher.offer(now, self.hosts.get(host_id), room, lease_secs, project, claim_id)

    def offers_of(self, host_id: str) -> list[Offer]:
        """The open offers of a host; none if it is not registered."""
        host = self.hosts.find(host_id)
        return [] if host is None else list(host.offers)

    def withdraw(self, offer: Offer) -> None:
        """Close the offer of a claim that waits no longer."""
        self._life.offers.close(offer)

    # Commands of hosts with a stream

    def connect(self, now: float, hello: Hello) -> Welcome:
        """Register a host and open its stream, which supersedes an earlier one (docs/rules.md, Connect).

        Raises `AlreadyExists` while another instance of the host lives, `BadRequest` for the length of a lease.
        """
        return self._streams.connect(now, hello)

    def give_credit(self, now: float, stream: Offer, count: int) -> None:
        """Let a stream get `count` more tasks, as its host reports."""
        self._life.liveness.heard(now, stream.host)
        self.return_credit(stream, count)

    def return_credit(self, stream: Offer, count: int) -> None:
        """Return credit for `count` tasks that ended before the host got them; this is no sign of life."""
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
        """Take a heartbeat of a stream: renew the leases that it lists, and return those of them that have ended."""
        return self._streams.beat(now, stream, held, reported_status, machine, tokens)

    def heartbeat_secs(self, stream: Offer) -> float:
        """The interval in which the host of a stream shall send heartbeats."""
        return self._streams.heartbeat_secs(stream.secs)

    def disconnect(self, now: float, stream: Offer) -> None:
        """Close a stream; its leases live on for `reconnect_grace_secs`, never past their own end."""
        self._streams.disconnect(now, stream)

    # Dispatch

    def dispatch(self, now: float) -> dict[Offer, list[Lease]]:
        """Lease waiting tasks to waiting hosts; the host with the smallest share of its slots in use comes first."""
        return self.dispatcher.dispatch(now)

    def take_stops(self) -> list[Stop]:
        """The leases of streams that have ended since the last call, other than by a report of their host."""
        return self._life.grants.take_stops()

    def take_losses(self) -> list[Loss]:
        """The leases that were lost since the last call, in order."""
        return self._life.grants.take_losses()

    # Leases

    def count_from(self, now: float, leases: Sequence[Lease]) -> None:
        """Let leases count from now on that were granted earlier, because their hosts learn of them only now."""
        for lease in leases:
            self._life.grants.count_from(now, lease)

    def leases_after(self, token: int, host_id: str | None = None) -> list[Lease]:
        """The live leases with a fencing token above this one, in the order of their grants; of one host, or of all."""
        hosts = self.hosts if host_id is None else [self.hosts.get(host_id)]
        leases = [lease for host in hosts for lease in host.leases.values() if lease.token > token]
        return sorted(leases, key=lambda lease: lease.token)

    # Time, limits, drain and shutdown

    def next_due(self, is_rough: bool = False) -> float | None:
        """When `advance` has something to do, in seconds on the caller's clock; None while nothing can come due.

        A rough answer is cheap, and may be too early: what was due then may have ended meanwhile.
        """
        # The tab executor may run more tasks once the last runtime host is offline.
        silent_from = self._life.liveness.silent_from()
        dues = (self._life.agenda.next_due(is_rough), silent_from, self.schedules.next_due())
        return min((due for due in dues if due is not None), default=None)

    def advance(self, now: float, max_items: int = 1000) -> bool:
        """Act on what has come due, in order of time; a deadline before a lease that ends at the same time.

        Stops after `max_items` and returns True if more may be due, so that the caller can let others run in between.
        """
        self._life.liveness.note_silence(now)
        more = self._life.agenda.advance(now, max_items)
        return self.schedules.advance(now, min(max_items, MAX_SCHEDULES_PER_ADVANCE)) or more

    def follow(self, now: float, max_tasks: int) -> None:
        """Look at up to this many of the tasks that end with others which have ended, wait for or come after them."""
        self._life.agenda.follow(now, max_tasks)

    def reconcile(self, now: float) -> None:
        """End the leases of dead hosts, every `orphan_check_secs` (docs/rules.md, Orphan sweep)."""
        self._life.liveness.reconcile(now)

    def recover(self, now: float) -> None:
        """Resume after a restart with what was restored (docs/rules.md, Recovery)."""
        for lease in self.left_behind:
            self._life.grants.lose(now, lease, RESTARTED)
        self.left_behind = []
        self.reconcile(now)
        self.schedules.recover(now)

    def reconfigure(self, limits: Limits) -> None:
        """Put new limits in force. Tasks that were accepted or are in flight stay, even above a lowered limit."""
        self._life.reconfigure(limits)
        self.outputs.limits = self.artifacts.limits = limits
        self.schedules.limits_changed()
        self._streams.timeouts_changed()
        self._life.liveness.timeouts_changed()

    def set_weights(self, weights: Mapping[str, int]) -> None:
        """Put weights of agents by pattern in force, 1 to 1,000; no other holds any more (docs/rules.md, Weights)."""
        self._life.ready.set_weights(weights, self._life.agents.by_id.values())

    def drain(self) -> None:
        """Accept and dispatch nothing from now on; what is in flight may finish (docs/rules.md, Drain and shutdown)."""
        self._admission.close()
        self.dispatcher.stop()
        self.schedules.hold()

    # For a store

    @property
    def changes(self) -> Changes | None:
        """The changes since a store took them; None where there is none."""
        return self._life.changes

    @property
    def life(self) -> Lifecycle:
        """The tasks and all that is derived from them, for other parts of the core."""
        return self._life

    def let_blockers_leave(self) -> None:
        """From now on what blocks a target may leave memory, since it is found in a store."""
        self._life.retention.take_blockers()

    # Figures

    def inflight_of(self, built_in_only: bool) -> int:
        """How many tasks are in flight, at all hosts or at built-in ones."""
        return sum(len(host.leases) for host in self.hosts.built_in()) if built_in_only else self._life.counts.inflight

    def take_events(self) -> list[Event]:
        """The events since the last call, in order."""
        return self._life.take_events()

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._life.limits

    @property
    def limited_by(self) -> str | None:
        """The configuration key whose limit keeps waiting tasks from a host with room; None if no limit does."""
        return self.dispatcher.limited_by
