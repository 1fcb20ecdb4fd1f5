"""Loads all namespaces of a store, as they go on after a restart.

A namespace whose rows contradict themselves is served nothing; the others load. What was loaded is committed once by
the engine before anything is served: until then default deadlines stand still as of the last commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from msgspec import MsgspecError

from taskyard_server.core.agents import Agent, AgentFigures
from taskyard_server.core.changes import Changes
from taskyard_server.core.hosts import Host
from taskyard_server.core.leases import Lease
from taskyard_server.core.limits import limits_with
from taskyard_server.core.past_keys import PastKey
from taskyard_server.core.restoring import Damaged, Restoring, agent_of, take_back
from taskyard_server.core.scheduler import Scheduler
from taskyard_server.core.schedules.schedule import Schedule
from taskyard_server.core.stats import Counters, TriggerCounters
from taskyard_server.core.task import TERMINAL, Submission, Task

from .clock_shift import shift_operation, shift_schedule, shift_state, shift_task, shift_trigger
from .port import EPOCH_JUMP, LAST_KEY, NAMESPACE_SHIFT, Table, key_of, namespace_of, number_of
from .records.events import decode_event, to_event
from .records.operations import decode_operation, to_operation
from .records.records import (
    StateRecord,
    TaskRecord,
    decode_agent,
    decode_host,
    decode_namespace,
    decode_state,
    decode_stopping,
    decode_task,
    state_as_submitted,
    to_profile,
)
from .records.rules import decode_rule, to_rule
from .records.schedules import decode_schedule, decode_trigger, deleted_schedule, to_schedule, to_trigger
from .records.tasks import AS_SUBMITTED, read_options
from .rows import NOTHING_KNOWN, AboutNamespace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from taskyard_server.core.limits import Limits

    from .port import Store, StoreMeta, TaskRows
    from .shared_port import Taken

FAULTS = (MsgspecError, Damaged, KeyError, ValueError, TypeError, AssertionError, OverflowError)
"""Errors to which a malformed record can lead."""


@dataclass(slots=True)
class LoadedNamespace:
    """A namespace as it was; `recover` has not been called. With an `error`, one line, it must not be served.

    `last_outbox` is the number of the last webhook. Of one that `is_deleted` nothing is loaded.
    """

    number: int
    name: str
    scheduler: Scheduler
    error: str | None = None
    last_outbox: int = 0
    about: AboutNamespace = NOTHING_KNOWN
    is_deleted: bool = False

    @property
    def takes_rows(self) -> bool:
        """True if it is worth while to load more of it."""
        return self.error is None and not self.is_deleted


@dataclass(slots=True)
class _Loading:
    """A namespace while it loads; `schedules` by number, those too of which only triggers are left.

    Of tasks that ended before `ended_since_ms`, as stored, only idempotency keys are loaded.
    """

    loaded: LoadedNamespace
    restoring: Restoring
    shift: float
    ended_since_ms: int
    schedules: dict[int, Schedule] = field(default_factory=dict)

    def first_end_ms(self, now: float) -> int:
        """When the first task ended of which something is to be loaded, as stored."""
        # What was submitted since then has ended since then.
        keys_since_ms = int((now - self.loaded.scheduler.limits.idempotency_secs) * 1000)
        return min(self.ended_since_ms, keys_since_ms)

    # One for each table.

    def agent(self, number: int, record: bytes) -> None:
        its = decode_agent(record)
        figures = AgentFigures(its.name, number)
        figures.submitted, figures.completed, figures.failed = its.submitted, its.completed, its.failed
        figures.cancelled, figures.rejected, figures.tokens_used = its.cancelled, its.rejected, its.tokens_used
        self.restoring.figures(figures, its.tie_break)

    def host(self, number: int, record: bytes) -> None:
        its = decode_host(record)
        host = Host(its.id, number, its.registered_at + self.shift)
        host.display_name, host.profile, host.slots = its.display_name, to_profile(its.profile), its.slots
        host.labels, host.draining, host.instance = its.labels, its.draining, its.instance
        self.restoring.host(host, None if its.drain_until is None else its.drain_until + self.shift)

    def live(self, rows: TaskRows) -> None:
        record, state = decode_task(rows.task), rows.state
        held = state_as_submitted(record) if state == AS_SUBMITTED else decode_state(state or b"")
        if self.shift:
            shift_task(record, self.shift)
            shift_state(held, self.shift)
        restoring = self.restoring
        task = to_task(number_of(rows.key), record, held, restoring.agent(record.agent_id))
        lease = held.held
        if lease is not None:
            restoring.lease(
                task,
                lease.host_id,
                lease.claimed_at,
                lease.secs,
                lease.started_at,
                lease.is_streamed,
                lease.claim_id,
            )
        restoring.live(task, held.has_no_key)

    def ended(self, rows: TaskRows) -> None:
        record = decode_task(rows.task)
        if rows.ended_at is not None and rows.ended_at < self.ended_since_ms:
            if self.shift:
                shift_task(record, self.shift)
            self._past_key(rows, record)
        else:
            self._ended(rows, record)

    def _ended(self, rows: TaskRows, record: TaskRecord) -> None:
        if self.shift:
            shift_task(record, self.shift)
        state = decode_state(rows.ended or b"")
        if self.shift:
            shift_state(state, self.shift)
        task = to_task(number_of(rows.key), record, state, self.restoring.agent(record.agent_id))
        self.restoring.ended(task, state.has_no_key)

    def predecessor(self, rows: TaskRows) -> None:
        """A task that others need or end with, which ended too long ago for all others to be loaded.

        A parent is a mere name: with its order of submission there may be another task, which is here already.
        """
        if rows.ended is not None:
            record = decode_task(rows.task)
            if self.loaded.scheduler.find(record.id) is None:
                self._ended(rows, record)

    def _past_key(self, rows: TaskRows, record: TaskRecord) -> None:
        if record.options is None or record.options.trigger_id is not None:
            return
        key = record.options.key
        lasts_secs = self.loaded.scheduler.limits.idempotency_secs
        state = decode_state(rows.ended or b"")
        keys = [(bound.key, bound.fingerprint, bound.at) for bound in state.history.bound] if state.history else []
        if key is not None and not state.has_no_key:
            keys.append((key.key, key.fingerprint, record.created_at))
        for its, fingerprint, at in keys:
            name = (record.agent_id, its)
            until = at + lasts_secs
            past = PastKey(name, fingerprint, record.id, state.state, record.position, record.created_at, until)
            self.restoring.past_key(number_of(rows.key), past)

    def stopping(self, number: int, record: bytes) -> None:
        its = decode_stopping(record)
        self.restoring.stopping(
            its.task_id, its.task_number, its.agent_id, its.target, its.host_id, number, its.secs, its.is_streamed
        )

    def schedule(self, number: int, record: bytes) -> None:
        schedule = to_schedule(decode_schedule(record), number)
        if self.shift:
            shift_schedule(schedule, self.shift)
        self.schedules[number] = schedule
        self.restoring.schedule(schedule)

    def trigger(self, number: int, record: bytes) -> None:
        its = decode_trigger(record)
        schedule = self.schedules.get(its.schedule_number)
        if schedule is None:
            schedule = self.schedules[its.schedule_number] = deleted_schedule(its)
        trigger = to_trigger(its, number, schedule)
        if self.shift:
            shift_trigger(trigger, self.shift)
        self.restoring.trigger(trigger)

    def operation(self, number: int, record: bytes) -> None:
        operation = to_operation(decode_operation(record), number)
        if self.shift:
            shift_operation(operation, self.shift)
        self.restoring.operation(operation)

    def rule(self, number: int, record: bytes) -> None:
        self.restoring.rule(to_rule(decode_rule(record), number))

    def event(self, number: int, record: bytes) -> None:
        self.restoring.sent_event(to_event(decode_event(record), number, self.shift))


async def load(
    store: Store,
    limits: Limits,
    entropy: Callable[[], int],
    now: float,
    meta: StoreMeta,
    ended_since_ms: int,
    shift: float = 0.0,
) -> list[LoadedNamespace]:
    """All namespaces, in order of their numbers, at `now`; with the tasks that ended at `ended_since_ms` or later.

    Of earlier ones that were submitted within the limits' `idempotency_secs`, the idempotency keys are there. Where a
    namespace has a `result_ttl_secs` of its own, `ended_since_ms` is as much earlier or later.
    `meta` is what opening the store returned. All stored times of the steady clock, that of `meta` too, are moved by
    `shift`, and everything then counts as changed; rows of the history that are not loaded keep theirs.
    """
    parts: dict[int, _Loading] = {}
    since_ms = ended_since_ms - int(shift * 1000)
    async for rows in store.rows(Table.NAMESPACES):
        for number, record in rows:
            scheduler = Scheduler(limits, entropy, Changes())
            _begin(parts, number, record, scheduler, now, meta.at + shift, meta.epoch, shift, since_ms)
    return await _load_parts(store, parts, now, shift)


async def load_one(
    store: Store,
    taken: Taken,
    limits: Limits,
    entropy: Callable[[], int],
    now: float,
    ended_since_ms: int,
    shift: float = 0.0,
) -> LoadedNamespace:
    """One namespace that was taken, as `load` has it; a new one if nothing of it was ever committed."""
    parts: dict[int, _Loading] = {}
    number, meta = taken.number, taken.meta
    since_ms = ended_since_ms - int(shift * 1000)
    async for rows in store.rows(Table.NAMESPACES, after_key=number - 1, last_key=number):
        for key, record in rows:
            scheduler = Scheduler(limits, entropy, Changes())
            _begin(parts, key, record, scheduler, now, meta.at + shift, meta.epoch, shift, since_ms)
    if not parts:
        return LoadedNamespace(number, taken.name, Scheduler(limits, entropy, Changes()))
    (loaded,) = await _load_parts(store, parts, now, shift, number)
    # It goes by the name that the store knows it by.
    loaded.name = taken.name
    return loaded


async def _load_parts(
    store: Store, parts: dict[int, _Loading], now: float, shift: float, only: int | None = None
) -> list[LoadedNamespace]:
    """Load the rest of namespaces that were begun: all, or one `only`."""
    ended_since_ms = min([part.first_end_ms(now - shift) for part in parts.values()], default=0)
    await _each(store, Table.AGENTS, parts, _Loading.agent, only)
    for part in parts.values():
        part.restoring.tie_breaks_known()
    await _each(store, Table.HOSTS, parts, _Loading.host, only)
    await _each_task(store.live_tasks(only), parts, _Loading.live)
    await _each_task(store.ended_tasks(ended_since_ms, only), parts, _Loading.ended)
    for number, part in parts.items():
        await _each_task(_predecessors(store, number, part), parts, _Loading.predecessor)
    await _each(store, Table.STOPPING, parts, _Loading.stopping, only)
    await _each(store, Table.SCHEDULES, parts, _Loading.schedule, only)
    await _each(store, Table.TRIGGERS, parts, _Loading.trigger, only)
    await _each(store, Table.OPERATIONS, parts, _Loading.operation, only)
    await _each(store, Table.RULES, parts, _Loading.rule, only)
    await _each(store, Table.EVENTS, parts, _Loading.event, only)
    for part in parts.values():
        if part.loaded.takes_rows:
            try:
                part.restoring.finish()
                if shift:
                    part.restoring.note_all()
            except FAULTS as fault:
                part.loaded.error = _said("what its rows say together", fault)
    return [parts[number].loaded for number in sorted(parts)]


async def _predecessors(store: Store, number: int, part: _Loading) -> AsyncIterator[Sequence[TaskRows]]:
    """The tasks that others wait for, have as inputs or end with, and that are not loaded yet; and what these need."""
    looked_at: set[int] = set()
    while part.loaded.takes_rows and (orders := set(part.restoring.missing_predecessors()) - looked_at):
        looked_at |= orders
        for order in sorted(orders):
            rows = await store.task(key_of(number, order))
            if rows is not None:
                yield [rows]


def adopt(scheduler: Scheduler, rows: TaskRows) -> Task:
    """The task of these rows in memory, as one that has ended; the one that is there if it is there already.

    One that blocks its target has ended, too, and has its row among the live ones. Raises `ValueError` or
    `msgspec.MsgspecError` for rows that are not those of a task that has ended.
    """
    record = decode_task(rows.task)
    task = scheduler.find(record.id)
    if task is not None:
        return task
    state = decode_state(rows.ended or rows.state or b"")
    if state.state not in TERMINAL:
        raise ValueError(f"{record.id} has not ended")
    task = to_task(number_of(rows.key), record, state, agent_of(scheduler, record.agent_id))
    take_back(scheduler, task)
    return task


def stored_task(rows: TaskRows, stood_still_secs: float) -> Task:
    """The task of these rows as it was committed, live or ended, for reading alone: no scheduler knows it.

    Raises one of `FAULTS` for rows that are not as they must be.
    """
    record = decode_task(rows.task)
    if rows.ended is not None:
        state = decode_state(rows.ended)
    else:
        state = state_as_submitted(record) if rows.state == AS_SUBMITTED else decode_state(rows.state or b"")
    task = to_task(number_of(rows.key), record, state, Agent(record.agent_id, 0))
    if task.deadline is not None and task.deadline_secs is None:
        task.deadline += stood_still_secs
    held = state.held
    if held is not None:
        task.lease = Lease(task, Host(held.host_id, 0, held.claimed_at), state.token, held.claimed_at, held.secs)
        task.lease.started_at = held.started_at
    return task


def to_task(seq: int, record: TaskRecord, state: StateRecord, agent: Agent) -> Task:
    """A task without its lease. A default deadline is as it was stored (`Deadlines.stood_still_secs`)."""
    submission = Submission(
        record.agent_id,
        record.action,
        record.tab_id,
        record.ref,
        record.params,
        record.priority,
        None,
        read_options(record.options),
    )
    task = Task(record.id, seq, agent, submission, record.created_at, None, state.state)
    task.position = record.position
    task.deadline_secs = record.deadline_secs
    task.deadline = state.deadline
    task.queued_at = state.queued_at
    if state.history is not None:
        task.history = state.history
    if state.token:
        task.token, task.deliveries, task.host_id = state.token, state.deliveries, state.host_id
        task.started_at, task.progress = state.started_at, state.progress
    task.error, task.expired = state.error, state.expired
    task.completed_at, task.result, task.commit = state.completed_at, state.result, state.commit
    return task


def _begin(
    parts: dict[int, _Loading],
    number: int,
    record: bytes,
    scheduler: Scheduler,
    now: float,
    kept_at: float,
    epoch: int,
    shift: float,
    ended_since_ms: int,
) -> None:
    loaded = LoadedNamespace(number, f"number {number}", scheduler)
    try:
        its = decode_namespace(record)
    except FAULTS as fault:
        loaded.error = _said("its own record", fault)
        parts[number] = _Loading(loaded, Restoring(scheduler, now, now, 0.0), shift, ended_since_ms)
        return
    loaded.name, loaded.last_outbox, loaded.is_deleted = its.name, its.last_outbox, its.is_deleted
    loaded.about = AboutNamespace(None if its.created_at is None else its.created_at + shift, its.own_limits)
    server_ttl_secs = scheduler.limits.result_ttl_secs
    scheduler.reconfigure(limits_with(scheduler.limits, its.own_limits))
    ended_since_ms += int((server_ttl_secs - scheduler.limits.result_ttl_secs) * 1000)
    restoring = Restoring(scheduler, now, kept_at, its.stood_still_secs)
    # After a restore from a backup, orders and tokens that were given out since the backup must not come again.
    jump = max(0, epoch - its.epoch) * EPOCH_JUMP
    restoring.leases_ended = jump > 0
    restoring.numbers(
        order=its.last_order + jump,
        token=its.last_token + jump,
        host=its.last_host,
        schedule=its.last_schedule,
        trigger=its.last_trigger,
        agent=its.last_agent,
        event=its.last_event,
    )
    restoring.counters(Counters(*cast("tuple[int, ...]", its.counters)), TriggerCounters(*its.trigger_counters))
    parts[number] = _Loading(loaded, restoring, shift, ended_since_ms)


async def _each(
    store: Store,
    table: Table,
    parts: dict[int, _Loading],
    restore: Callable[[_Loading, int, bytes], None],
    only: int | None,
) -> None:
    what = table.name.lower()
    first, last = (-1, LAST_KEY) if only is None else (key_of(only, 0) - 1, key_of(only + 1, 0) - 1)
    async for rows in store.rows(table, after_key=first, last_key=last):
        for key, record in rows:
            part = parts.get(namespace_of(key))
            if part is not None and part.loaded.takes_rows:
                try:
                    restore(part, number_of(key), record)
                except FAULTS as fault:
                    part.loaded.error = _said(f"record {number_of(key)} of {what}", fault)


async def _each_task(
    slices: AsyncIterator[Sequence[TaskRows]], parts: dict[int, _Loading], restore: Callable[[_Loading, TaskRows], None]
) -> None:
    async for rows in slices:
        for each in rows:
            part = parts.get(each.key >> NAMESPACE_SHIFT)
            if part is not None and part.loaded.takes_rows:
                try:
                    restore(part, each)
                except FAULTS as fault:
                    part.loaded.error = _said(f"record {number_of(each.key)} of tasks", fault)


def _said(where: str, fault: BaseException) -> str:
    """One line about what is wrong."""
    text = " ".join(str(fault).split()) or type(fault).__name__
    return f"{where}: {text}"
