"""Changes of one scheduler since a store last took them.

Tasks and the figures of agents are found from the events of a turn, so that the hottest paths do nothing for it. What
changes without an event is noted where it happens: the deadline of a task that becomes or ceases to be the head of its
target, a hold that is released before its time, a lease that gets another length or becomes one of a stream. Hosts,
stopping leases, schedules, triggers, operations, rules and sent events are noted where they change.

A thing that is gone is in none of the dicts of what changed, or its number is in the list of what is gone, or both;
then it is gone. This file knows no store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .events import EventKind
from .task import CANCELLED, DONE, FAILED, PARKED, PENDING, REJECTED

if TYPE_CHECKING:
    from .agents import AgentFigures
    from .events import Event
    from .hosts import Host
    from .leases import Lease
    from .operations.operation import Operation
    from .queue.keys import KeyLimit
    from .runs.events import SentEvent
    from .schedules.schedule import Schedule, Trigger
    from .task import Task


class Rule:
    """A rule by pattern that a call has set: the limit of keys, or the weight of agents. `number` is for a store."""

    __slots__ = ("limit", "number", "pattern", "weight")

    def __init__(self, number: int, pattern: str, limit: KeyLimit | None, weight: int) -> None:
        self.number = number
        self.pattern = pattern
        self.limit = limit
        self.weight = weight


class Changes:
    """Things that changed, each once.

    `tasks` are those with another state than before, among them the `new` ones, of which nothing was taken before.
    `reopened` are failed ones that someone resumed, resolved or cancelled, `rewritten` ones with another priority
    or other params, `evicted` ones that left memory; rejected tasks are in none of these. `agents` are figures; what is
    gone of these, and of hosts, schedules, triggers, operations, rules and sent events, is told by its number, and of
    the leases that are `stopping` no more by the token.

    `everything` asks for the counters and last numbers to be written even though nothing else changed.
    """

    __slots__ = (
        "agents",
        "agents_gone",
        "everything",
        "evicted",
        "hosts",
        "hosts_gone",
        "new",
        "operations",
        "operations_gone",
        "reopened",
        "rewritten",
        "rules",
        "rules_gone",
        "schedules",
        "schedules_gone",
        "sent_events",
        "sent_events_gone",
        "stopping",
        "stopping_gone",
        "tasks",
        "triggers",
        "triggers_gone",
    )

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self.tasks: dict[Task, None] = {}
        self.new: dict[Task, None] = {}
        self.reopened: dict[Task, None] = {}
        self.evicted: dict[Task, None] = {}
        self.agents: dict[AgentFigures, None] = {}
        self.agents_gone: list[int] = []
        self.hosts: dict[Host, None] = {}
        self.hosts_gone: list[int] = []
        self.stopping: dict[Lease, None] = {}
        self.stopping_gone: list[int] = []
        self.schedules: dict[Schedule, None] = {}
        self.schedules_gone: list[int] = []
        self.triggers: dict[Trigger, None] = {}
        self.triggers_gone: list[int] = []
        self.rewritten: dict[Task, None] = {}
        self.operations: dict[Operation, None] = {}
        self.operations_gone: list[int] = []
        self.rules: dict[Rule, None] = {}
        self.rules_gone: list[int] = []
        self.sent_events: dict[SentEvent, None] = {}
        self.sent_events_gone: list[int] = []
        self.everything = False

    def see(self, events: Sequence[Event]) -> None:
        """Note the tasks and agents of events, each of which is given once."""
        tasks = self.tasks
        for event in events:
            task, kind, state = event.task, event.kind, event.state
            if kind is EventKind.CHANGED:
                tasks[task] = None
                if event.before is FAILED:
                    self.reopened[task] = None
                    self.agents[task.agent.figures] = None
                elif state is DONE or state is FAILED or state is CANCELLED or state is PENDING or state is PARKED:
                    # What was done of a pending or a parked one may have used tokens.
                    self.agents[task.agent.figures] = None
            elif kind is EventKind.PROGRESSED:
                tasks[task] = None
                self.agents[task.agent.figures] = None
            elif kind is EventKind.SUBMITTED:
                self.agents[task.agent.figures] = None
                if state is not REJECTED:
                    tasks[task] = None
                    self.new[task] = None
            elif kind is EventKind.REPRIORITIZED:
                tasks[task] = None
                self.rewritten[task] = None
            elif state is not REJECTED:
                self.evicted[task] = None

    def take(self) -> Changes:
        """The changes until now; from now on what changes is gathered anew. Call it after `take_events` only."""
        taken = Changes()
        taken.tasks, taken.new, taken.reopened, taken.evicted = self.tasks, self.new, self.reopened, self.evicted
        taken.agents, taken.agents_gone = self.agents, self.agents_gone
        taken.hosts, taken.hosts_gone = self.hosts, self.hosts_gone
        taken.stopping, taken.stopping_gone = self.stopping, self.stopping_gone
        taken.schedules, taken.schedules_gone = self.schedules, self.schedules_gone
        taken.triggers, taken.triggers_gone = self.triggers, self.triggers_gone
        taken.rewritten = self.rewritten
        taken.operations, taken.operations_gone = self.operations, self.operations_gone
        taken.rules, taken.rules_gone = self.rules, self.rules_gone
        taken.sent_events, taken.sent_events_gone = self.sent_events, self.sent_events_gone
        taken.everything = self.everything
        self._clear()
        return taken

    def __bool__(self) -> bool:
        """True if there is anything to write."""
        return bool(
            self.tasks
            or self.evicted
            or self.agents
            or self.agents_gone
            or self.hosts
            or self.hosts_gone
            or self.stopping
            or self.stopping_gone
            or self.schedules
            or self.schedules_gone
            or self.triggers
            or self.triggers_gone
            or self.operations
            or self.operations_gone
            or self.rules
            or self.rules_gone
            or self.sent_events
            or self.sent_events_gone
            or self.everything
        )

    # What goes

    def agent_gone(self, figures: AgentFigures, others: AgentFigures) -> None:
        """These figures were added to those of the others."""
        self.agents_gone.append(figures.number)
        figures.number = 0
        self.agents[others] = None

    def host_gone(self, host: Host) -> None:
        """The host was deregistered or forgotten."""
        self.hosts.pop(host, None)
        self.hosts_gone.append(host.number)

    def stopping_lease_gone(self, lease: Lease) -> None:
        """Nothing runs under the lease any more."""
        if lease in self.stopping:
            # It may be in the store nevertheless: a lease can end, be taken, and be stopped later.
            del self.stopping[lease]
        self.stopping_gone.append(lease.token)

    def schedule_gone(self, schedule: Schedule) -> None:
        """The schedule was deleted."""
        self.schedules.pop(schedule, None)
        self.schedules_gone.append(schedule.number)

    def trigger_gone(self, trigger: Trigger) -> None:
        """The trigger is retained no longer."""
        self.triggers.pop(trigger, None)
        self.triggers_gone.append(trigger.number)

    def operation_gone(self, operation: Operation) -> None:
        """The operation is retained no longer."""
        self.operations.pop(operation, None)
        self.operations_gone.append(operation.number)

    def rule_gone(self, rule: Rule) -> None:
        """The rule was deleted."""
        self.rules.pop(rule, None)
        self.rules_gone.append(rule.number)

    def sent_event_gone(self, event: SentEvent) -> None:
        """The event is over, and all that waited for it have got it."""
        self.sent_events.pop(event, None)
        self.sent_events_gone.append(event.number)
