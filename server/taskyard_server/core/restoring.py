"""Puts what was stored back into a fresh scheduler, so that it goes on as if nothing had been in between.

`Restoring` takes figures and hosts, then tasks, then stopping leases, schedules, triggers, operations, rules, events;
`finish` ends it, and `Scheduler.recover` follows. What it puts back is not told to the store as a change, but what
follows from it is.

- A live lease counts one full length from `now`, and hosts count as heard of now. A lease of a host that is not stored
  belonged to the process before: `recover` loses it.
- A deadline that a caller set stays. A default one stood still since `kept_at`, the time of the last commit.
- An agent has its order among agents again. It is that of its figures, which change with every submission and every
  end, or that of the last grant of a task that lives, the later of both: one of them has its last fencing token.

Blockers of a target stand in the order in which they began to block it; since when it stands as it does is known while
a task runs in it or blocks it, and is `now` otherwise.
"""

from __future__ import annotations

from .agents import Agent, AgentFigures
from .changes import Rule
from .hosts import Host
from .leases import Lease
from .offers import Offer, OfferGroup
from .operations.operation import Operation
from .past_keys import PastKey
from .runs.events import SentEvent
from .scheduler import Scheduler
from .schedules.schedule import Schedule, Trigger
from .stats import Counters, TriggerCounters
from .task import (
    ASSIGNED,
    FAILED,
    IN_FLIGHT,
    NO_EXTRAS,
    PARKED,
    PAUSED,
    PENDING,
    QUEUED,
    RUNNING,
    TERMINAL,
    Submission,
    Task,
)
from .task_ids import is_id, order_of
from .task_options import OnParentEnd, TaskOptions


class Damaged(Exception):
    """A stored state that contradicts itself. The text says how."""


class Restoring:
    """Restores one namespace at `now`, of which `stood_still_secs` is stored and whose last commit was at `kept_at`.

    With `leases_ended` every lease is lost by `recover`: the store was restored from a backup, and its tokens are old.
    """

    def __init__(self, scheduler: Scheduler, now: float, kept_at: float, stood_still_secs: float) -> None:
        self._scheduler = scheduler
        self._life = scheduler.life
        self._now = now
        self._life.deadlines.stood_still_secs = stood_still_secs + max(0.0, now - kept_at)
        self.leases_ended = False
        self._tie_breaks: dict[str, int] = {}
        self._served: dict[Agent, int] = {}
        self._closed_streams: dict[Host, Offer] = {}
        self._absent_hosts: dict[str, Host] = {}
        self._is_in_order = True
        self._last_seq = 0
        self._ended: list[Task] = []
        self._failed_blockers: list[Task] = []
        self._followers: list[Task] = []
        self._parked: list[Task] = []
        self._with_inputs: list[Task] = []
        self._bound: list[Task] = []
        self._with_children: list[Task] = []
        self._children: set[int] = set()
        self._past_keys: dict[tuple[str, str], tuple[int, PastKey]] = {}
        self._triggers: list[Trigger] = []

    def numbers(
        self, *, order: int, token: int, host: int, schedule: int, trigger: int, agent: int, event: int
    ) -> None:
        """The last number of each kind that was given."""
        life = self._life
        life.tasks.continue_after(order)
        life.grants.last_token = token
        self._scheduler.hosts.continue_after(host)
        self._scheduler.schedules.continue_after(schedule, trigger)
        life.agents.figures.last_number = agent
        life.parks.events.last_number = event

    def counters(self, counters: Counters, trigger_counters: TriggerCounters) -> None:
        """The counts since the start."""
        self._life.counters.add(counters)
        self._scheduler.schedules.counters.add(trigger_counters)

    def figures(self, figures: AgentFigures, tie_break: int) -> None:
        """The figures of an agent. All of them come before the first task."""
        self._life.agents.figures.restore(figures)
        if tie_break:
            self._tie_breaks[figures.name] = tie_break

    def tie_breaks_known(self) -> None:
        """All figures are restored: those who come from now on are ordered after them."""
        self._life.ready.continue_after(self._tie_breaks.values(), self._life.grants.last_token)

    def host(self, host: Host, drain_until: float | None) -> None:
        """A host, in order of their numbers."""
        self._scheduler.hosts.restore(host)
        self._life.liveness.restored(self._now, host, drain_until)

    def agent(self, agent_id: str) -> Agent:
        """The agent of a task that follows."""
        agents = self._life.agents
        agent = agents.by_id.get(agent_id)
        if agent is None:
            agent = self._life.ready.restored_agent(agent_id, self._tie_breaks.get(agent_id, 0))
            agent.figures = agents.figures.of_restored(agent_id)
            agents.by_id[agent_id] = agent
        return agent

    def lease(
        self,
        task: Task,
        host_id: str,
        claimed_at: float,
        secs: float,
        started_at: float | None,
        is_streamed: bool,
        claim_id: str | None = None,
    ) -> None:
        """The lease of a task, which follows by `live`."""
        host = self._host(host_id)
        lease = Lease(task, host, task.token, claimed_at, secs, claim_id)
        lease.started_at = started_at
        if is_streamed:
            lease.stream = self._closed_stream(host)
        self._life.grants.restore(self._now, lease)
        if host_id in self._absent_hosts or self.leases_ended:
            self._scheduler.left_behind.append(lease)

    def live(self, task: Task, has_no_key: bool = False) -> None:
        """A task that is live, or blocks its target; in order of submission. Raises `Damaged`."""
        life, state, agent = self._life, task.state, task.agent
        if task.deadline is not None and task.deadline_secs is None:
            task.deadline += life.deadlines.stood_still_secs
        self._index_task(task, has_no_key)
        self._note_relations(task)
        target = task.options.target
        if state is QUEUED or state is PENDING:
            life.count_queued(task)
            life.deadlines.add(task)
            if state is PENDING:
                due = task.history.not_before
                if task.options.extras is not NO_EXTRAS and task.options.extras.predecessors and not task.token:
                    self._followers.append(task)
                elif due is not None and not task.history.held:
                    life.pending.delayed.add(due, task)
            elif target is None:
                if task.deadline is None:
                    raise Damaged(f"{task.id} is queued without a deadline")
                life.ready.add(task)
            if target is not None:
                life.targets.restore(task, None)
        elif state is ASSIGNED or state is RUNNING:
            if task.lease is None:
                raise Damaged(f"{task.id} is {state.value} without a lease")
            life.counts.inflight += 1
            agent.inflight += 1
            life.ready.keys.restore(task.options.extras.concurrency_keys)
            life.deadlines.add(task)
            if task.options.trigger_id is not None:
                life.triggered.restored(life.limits.max_concurrent)
            if target is not None:
                life.targets.restore(task, None)
        elif state is PARKED:
            life.counts.parked += 1
            life.deadlines.add(task)
            if target is not None:
                life.targets.restore(task, None)
        elif state is PAUSED or (state is FAILED and target is not None):
            if state is PAUSED:
                life.counts.paused += 1
            if target is not None:
                life.targets.restore(task, _blocked_at(task))
        else:
            raise Damaged(f"{task.id} is {state.value} and counts as live")
        if task.history.park is not None:
            self._parked.append(task)
        if task.options.extras is not NO_EXTRAS and state is not FAILED:
            life.unique_keys.add(task)
        if (task.lease is None) != (state not in IN_FLIGHT):
            raise Damaged(f"{task.id} is {state.value} and has a lease")
        if state is FAILED:
            self._failed_blockers.append(task)
        elif task.options.parent_id is not None:
            life.children.add(task)
            if task.options.extras.on_parent_end is OnParentEnd.CANCEL:
                self._bound.append(task)
        if task.token > self._served.get(agent, 0):
            self._served[agent] = task.token

    def ended(self, task: Task, has_no_key: bool = False) -> None:
        """A task that has ended and is retained; in any order."""
        if task.deadline is not None and task.deadline_secs is None:
            task.deadline += self._life.deadlines.stood_still_secs
        self._index_task(task, has_no_key)
        self._note_relations(task)
        self._ended.append(task)
        if task.token > self._served.get(task.agent, 0):
            self._served[task.agent] = task.token

    def missing_predecessors(self) -> list[int]:
        """The orders of submission of the tasks that others need or end with and that are not here; after all others.

        One that is not stored either had ended well enough before those came that name it, or long ago, or never was.
        """
        names = [task_id for task in self._followers for task_id in task.options.extras.after]
        names += [task_id for task in self._with_inputs for _, task_id in task.options.extras.inputs]
        # A parent may be any name.
        names += [parent for task in self._bound if (parent := task.options.parent_id) is not None and is_id(parent)]
        orders = [order_of(each) for each in dict.fromkeys(names) if self._life.tasks.get(each) is None]
        for task in self._with_children:
            orders += [order for order in task.history.children if order not in self._children]
        return orders

    def past_key(self, order: int, past: PastKey) -> None:
        """The key of a task that had left memory, with its order of submission; of two such tasks the later has it."""
        known = self._past_keys.get(past.name)
        if past.until > self._now and (known is None or known[0] < order):
            self._past_keys[past.name] = (order, past)

    def stopping(
        self,
        task_id: str,
        order: int,
        agent_id: str,
        target: str,
        host_id: str,
        token: int,
        secs: float,
        streamed: bool,
    ) -> None:
        """A lease that has ended while its host may still work, for one full length from now; after all tasks."""
        task = self._life.tasks.get(task_id)
        if task is None:
            # It has left memory. What waits for the lease needs its id and its target alone.
            submission = Submission(agent_id, "", options=TaskOptions(target=target))
            agent = self._life.agents.by_id.get(agent_id) or Agent(agent_id, 0)
            task = Task(task_id, order, agent, submission, self._now, None, FAILED)
        host = self._host(host_id)
        lease = Lease(task, host, token, self._now, secs)
        if streamed:
            lease.stream = self._closed_stream(host)
        self._life.grants.stopping.restore(lease)
        self._life.targets.stop(lease)

    def schedule(self, schedule: Schedule) -> None:
        """A schedule, in order of their numbers."""
        self._scheduler.schedules.restore(schedule)

    def trigger(self, trigger: Trigger) -> None:
        """A trigger, after its schedule; in any order."""
        self._triggers.append(trigger)

    def operation(self, operation: Operation) -> None:
        """An operation, in order of their numbers."""
        self._scheduler.operations.restore(operation)

    def rule(self, rule: Rule) -> None:
        """A rule that was set by a call; in any order."""
        self._scheduler.rules.restore(rule)

    def sent_event(self, event: SentEvent) -> None:
        """An event that is kept, in order of their numbers."""
        self._life.parks.events.restore(event)

    def finish(self) -> None:
        """All is there: put it in order, and let what may be claimed be claimable. `recover` follows."""
        life, now = self._life, self._now
        life.ready.keys.begin_empty(now)
        if self._scheduler.rules.all():
            self._scheduler.rules.apply(now)
        for agent, token in self._served.items():
            life.ready.restore_served(agent, token)
        if not self._is_in_order:
            life.tasks.sort()
            life.tasks.batches.sort()
        for task in sorted(self._ended, key=_ended_at):
            life.retention.retain(task)
        for task in [*self._ended, *self._failed_blockers]:
            life.children.restored(task)
        self._end_with_parents()
        for name, (_, past) in self._past_keys.items():
            if name not in life.tasks.by_key:
                life.past_keys.add(past)
        for task in sorted(self._with_inputs, key=_order):
            life.predecessors.keep_inputs(task)
            if task.lease is not None:
                task.lease.inputs = life.predecessors.inputs[task]
        for task in self._with_children:
            life.children.named.restored(task)
        for task in sorted(self._followers, key=_order):
            life.pending.restore(now, task)
        hosts = self._scheduler.hosts
        for host in [*hosts, *self._absent_hosts.values()]:
            if host.leases:
                host.leases = {lease.task.id: lease for lease in sorted(host.leases.values(), key=_token)}
                for claim_id, leases in host.claimed.items():
                    host.claimed[claim_id] = dict.fromkeys(sorted(leases, key=_token))
        for host in hosts:
            life.liveness.arm_silence_timer(host)
        self._scheduler.left_behind.sort(key=_token)
        self._scheduler.operations.settle()
        for trigger in sorted(self._triggers, key=_trigger_order):
            self._scheduler.schedules.restore_trigger(trigger)
        life.targets.settle(now, _blocked_at)
        for task in self._parked:
            life.parks.restored(now, task)
        life.parks.settle()
        if life.changes is not None:
            life.changes.everything = True

    def note_all(self) -> None:
        """Count all that was restored as changed."""
        life, changes = self._life, self._life.changes
        if changes is None:
            return
        tasks = dict.fromkeys(life.tasks.after(0))
        # As if they had come back from the history: their rows are written as a whole.
        changes.tasks, changes.reopened = tasks, dict(tasks)
        changes.agents = dict.fromkeys([figures for _, figures in life.agents.figures])
        changes.hosts = dict.fromkeys(self._scheduler.hosts)
        changes.schedules = dict.fromkeys(self._scheduler.schedules.after(0))
        changes.triggers = dict.fromkeys(self._scheduler.schedules.triggers_before(None))
        changes.operations = dict.fromkeys(self._scheduler.operations.all())
        changes.rules = dict.fromkeys(self._scheduler.rules.all())
        changes.sent_events = dict.fromkeys(life.parks.events.all())

    def _index_task(self, task: Task, has_no_key: bool) -> None:
        """Put a task into the indexes that all retained tasks are in."""
        life, options, agent = self._life, task.options, task.agent
        if task.seq > self._last_seq:
            self._last_seq = task.seq
        else:
            self._is_in_order = False
        life.tasks.restore(task)
        life.tasks.continue_after(task.seq)
        agent.tasks += 1
        if options.batch_id is not None:
            life.tasks.batches.restore(options.batch_id, task)
        if options.key is not None and not has_no_key:
            self._index_key(task, options.key.key)
        for bound in task.history.bound:
            self._index_key(task, bound.key)

    def _note_relations(self, task: Task) -> None:
        """Note a task that is handed the results of others, or has children by name, unless it has ended for good."""
        extras, may_run = task.options.extras, task.state not in TERMINAL or task.state is FAILED
        if extras is not NO_EXTRAS and extras.inputs and may_run:
            self._with_inputs.append(task)
        if task.history.children and may_run:
            self._with_children.append(task)
        if extras.child_name is not None:
            self._children.add(task.seq)

    def _end_with_parents(self) -> None:
        """Bind what ends with its parent; that of one which has ended was still to be cancelled."""
        ends = self._life.children.ends
        for task in self._bound:
            ends.bind(task)
        for parent_id in list(ends.bound):
            parent = self._life.tasks.get(parent_id)
            if parent is not None and parent.state in TERMINAL:
                ends.ended(self._now, parent)

    def _index_key(self, task: Task, key: str) -> None:
        """A task has a key. Of two the older one had left memory before the other came, and is back by the restart."""
        name = (task.agent.id, key)
        first = self._life.tasks.by_key.get(name)
        if first is None or first.seq < task.seq:
            self._life.tasks.by_key[name] = task

    def _host(self, host_id: str) -> Host:
        """The stored host of this id, else one that is known to nobody."""
        host = self._scheduler.hosts.find(host_id) or self._absent_hosts.get(host_id)
        if host is None:
            host = self._absent_hosts[host_id] = Host(host_id, 0, self._now)
            host.built_in = True
        return host

    def _closed_stream(self, host: Host) -> Offer:
        """The stream that the host had, as it is after its end."""
        stream = self._closed_streams.get(host)
        if stream is None:
            stream = self._closed_streams[host] = Offer(host, OfferGroup(host.profile), 0, 0.0, 0.0, None, 0)
        return stream


def agent_of(scheduler: Scheduler, agent_id: str) -> Agent:
    """The agent of a task that `take_back` is to have."""
    agents = scheduler.life.agents
    return agents.by_id.get(agent_id) or agents.add(agent_id, scheduler.limits.max_agent_figures)


def take_back(scheduler: Scheduler, task: Task) -> None:
    """Have an ended task again that had left memory, so that a command can be about it."""
    scheduler.life.retention.adopt(task)


def _blocked_at(task: Task) -> float:
    """When a paused or failed task began to block its target."""
    if task.completed_at is not None:
        return task.completed_at
    ended_at = task.history.attempts[-1].ended_at if task.history.attempts else None
    return task.queued_at if ended_at is None else ended_at


def _ended_at(task: Task) -> tuple[float, int]:
    return (task.completed_at or 0.0, task.seq)


def _order(task: Task) -> int:
    return task.seq


def _token(lease: Lease) -> int:
    return lease.token


def _trigger_order(trigger: Trigger) -> tuple[float, int]:
    return (trigger.ended_at or 0.0, trigger.number)
