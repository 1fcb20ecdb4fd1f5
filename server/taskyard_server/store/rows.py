"""Changes of one scheduler since the last commit, as rows of the group that is committed next.

Each thing is written once, in its present state. A task is in `ended` if and only if it is terminal and does not block
its target; before that it has a row in `states`. Rejected tasks are never written. A task that comes and ends within
one group is written to `tasks` and `ended` alone. This file is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.stats import Counters, TriggerCounters
from taskyard_server.core.task import TERMINAL

from .port import Table, key_of
from .records.events import encode_event
from .records.operations import encode_operation
from .records.records import NamespaceRecord, encode_host, encode_stopping
from .records.rules import encode_rule
from .records.schedules import encode_schedule, encode_trigger
from .records.tasks import AS_SUBMITTED, encode, encode_agent, encode_state, encode_task, is_as_submitted

if TYPE_CHECKING:
    from taskyard_server.core.changes import Changes
    from taskyard_server.core.scheduler import Scheduler
    from taskyard_server.core.task import Task

    from .port import EndedRow, Group, Row


class AboutNamespace(NamedTuple):
    """When a namespace was made, None if that is not known, and the limits that it has of its own."""

    created_at: float | None = None
    own_limits: Mapping[str, int | float] = MappingProxyType({})


NOTHING_KNOWN: Final = AboutNamespace()
COUNTERS: Final = tuple(each.name for each in fields(Counters))
TRIGGER_COUNTERS: Final = tuple(each.name for each in fields(TriggerCounters))


def add_rows(
    group: Group,
    number: int,
    name: str,
    scheduler: Scheduler,
    changes: Changes,
    keep_history: bool,
    last_outbox: int = 0,
    about: AboutNamespace = NOTHING_KNOWN,
) -> None:
    """Put into a group what changed in a namespace, which has this `number` and `name`.

    `changes` are what `Changes.take` returned just now: nothing may have happened since. Without history a task is
    removed when it leaves memory. The scheduler knows neither `last_outbox`, the number of the last webhook, nor what
    is told `about` the namespace.
    """
    _add_namespace(group, number, name, scheduler, last_outbox, about)
    _add_tasks(group, number, scheduler, changes, keep_history)
    _add_agents(group, number, scheduler, changes)
    for host in changes.hosts:
        if not host.built_in:
            group.put(Table.HOSTS, key_of(number, host.number), encode_host(host))
    for lease in changes.stopping:
        group.put(Table.STOPPING, key_of(number, lease.token), encode_stopping(lease))
    for schedule in changes.schedules:
        group.put(Table.SCHEDULES, key_of(number, schedule.number), encode_schedule(schedule))
    for trigger in changes.triggers:
        group.put(Table.TRIGGERS, key_of(number, trigger.number), encode_trigger(trigger))
    for operation in changes.operations:
        group.put(Table.OPERATIONS, key_of(number, operation.number), encode_operation(operation))
    for rule in changes.rules:
        group.put(Table.RULES, key_of(number, rule.number), encode_rule(rule))
    for event in changes.sent_events:
        group.put(Table.EVENTS, key_of(number, event.number), encode_event(event))
    for table, gone in (
        (Table.AGENTS, changes.agents_gone),
        (Table.HOSTS, changes.hosts_gone),
        (Table.STOPPING, changes.stopping_gone),
        (Table.SCHEDULES, changes.schedules_gone),
        (Table.TRIGGERS, changes.triggers_gone),
        (Table.OPERATIONS, changes.operations_gone),
        (Table.RULES, changes.rules_gone),
        (Table.EVENTS, changes.sent_events_gone),
    ):
        for each in gone:
            group.remove(table, key_of(number, each))


def add_deletion(group: Group, number: int, name: str) -> None:
    """Put into a group that a namespace is deleted. Its rows are removed later, this one last."""
    none = (0,) * len(COUNTERS), (0,) * len(TRIGGER_COUNTERS)
    record = NamespaceRecord(name, 0, 0, 0, 0, 0, 0, 0, 0.0, *none, group.epoch, is_deleted=True)
    group.put(Table.NAMESPACES, number, encode(record))


def _add_namespace(
    group: Group, number: int, name: str, scheduler: Scheduler, last_outbox: int, about: AboutNamespace
) -> None:
    view, schedules = scheduler.view, scheduler.schedules
    last_schedule, last_trigger = schedules.last_numbers
    counters, trigger_counters = view.counters, schedules.counters
    record = NamespaceRecord(
        name,
        view.last_seq,
        view.last_token,
        scheduler.hosts.last_number,
        last_schedule,
        last_trigger,
        view.last_agent_number,
        last_outbox,
        view.stood_still_secs,
        tuple([getattr(counters, each) for each in COUNTERS]),
        tuple([getattr(trigger_counters, each) for each in TRIGGER_COUNTERS]),
        group.epoch,
        about.created_at,
        dict(about.own_limits),
        last_event=scheduler.parks.events.last_number,
    )
    group.put(Table.NAMESPACES, number, encode(record))


def _add_agents(group: Group, number: int, scheduler: Scheduler, changes: Changes) -> None:
    base = key_of(number, 0)
    rows: list[Row] = group.puts.setdefault(Table.AGENTS, [])
    for figures in changes.agents:
        # Those of an agent that was forgotten have no number any more.
        if figures.number:
            rows.append((base | figures.number, encode_agent(figures, scheduler.view.tie_break_of_agent(figures.name))))


def _add_tasks(group: Group, number: int, scheduler: Scheduler, changes: Changes, keep_history: bool) -> None:
    view, targets, base = scheduler.view, scheduler.targets, key_of(number, 0)
    new, reopened, rewritten = changes.new, changes.reopened, changes.rewritten
    secs = view.stood_still_secs
    tasks: list[Row] = group.puts.setdefault(Table.TASKS, [])
    states: list[Row] = group.puts.setdefault(Table.STATES, [])
    removed: list[int] = group.removes.setdefault(Table.STATES, [])
    ended: list[EndedRow] = group.ended
    forgotten: dict[Task, None] = {} if keep_history else changes.evicted
    commit = group.number_of(number)
    for task in changes.tasks:
        if task in forgotten:
            continue
        task.commit = commit
        key = base | task.seq
        is_new = task in new
        if is_new:
            tasks.append((key, encode_task(task, secs)))
        elif task in reopened:
            group.remove(Table.ENDED, key)
            # It may have come back from the history, from which its row may be deleted meanwhile.
            tasks.append((key, encode_task(task, secs)))
        elif task in rewritten:
            tasks.append((key, encode_task(task, secs)))
        options = task.options
        has_no_key = options.key is not None and not view.has_key(task)
        if task.state in TERMINAL and (options.target is None or not targets.blocks(task)):
            assert task.completed_at is not None
            ended.append((key, int(task.completed_at * 1000), encode_state(task, secs, has_no_key)))
            if not is_new:
                removed.append(key)
        elif is_new and is_as_submitted(task):
            states.append((key, AS_SUBMITTED))
        else:
            states.append((key, encode_state(task, secs, has_no_key)))
    for task in forgotten:
        if task not in new:
            key = base | task.seq
            for table in (Table.TASKS, Table.STATES, Table.ENDED):
                group.remove(table, key)
