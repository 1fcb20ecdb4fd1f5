"""What replicas have told, and what is in the store: whoever is told something must find it true for ever.

It shares no code with what it judges: trust is computed from when renewals were sent and whether they took effect, and
what is kept is read from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

from taskyard_server.core.task import TERMINAL, TaskState
from taskyard_server.store.port import Fence, Group, Table, key_of, namespace_of
from taskyard_server.store.records.records import StateRecord, decode_state, decode_task
from taskyard_server.store.records.schedules import decode_schedule, decode_trigger
from taskyard_server.store.records.tasks import AS_SUBMITTED
from taskyard_server.store.shared_port import OwnerRow, Taken

if TYPE_CHECKING:
    from tests.replicas.shared_rows import SharedRows

TRUSTED: Final = 0.5
"""The part of the failover time for which a renewal is trusted."""
ID: Final = re.compile("tsk_[0-9a-f]{12}([0-9a-f]{10})[0-9a-f]{10}")
SLEW_SECS: Final = 0.05
UNSHOWN: Final = b"(not shown)"
ENDS: Final = frozenset(state.value for state in TERMINAL)


class Broken(AssertionError):
    """A promise was broken."""


class Seen(NamedTuple):
    """A task as an answer or an event showed it."""

    id: str
    state: str
    token: int
    result: bytes | None


class Granted(NamedTuple):
    """A lease as an answer showed it. It holds `until` then, if it is not renewed."""

    task: Seen
    token: int
    until: float
    target: str | None


@dataclass(slots=True, eq=False)
class Held:
    """A lease as its host sees it, until it stops or its time is over."""

    host: str
    task: str
    token: int
    target: str | None
    until: float
    is_over: bool = False

    def holds(self, now: float) -> bool:
        """True if the host may work under it; it stops a little before, since the engines' clocks are slewed."""
        return not self.is_over and now < self.until - SLEW_SECS


@dataclass(slots=True)
class Known:
    """What is known of a task for good; with its key, once that is acknowledged."""

    namespace: str
    key: str | None
    end: tuple[str, bytes | None] | None = None


@dataclass(slots=True)
class Watched:
    """What a watcher saw: the `ends` of tasks. It had its first cursor at `since`, and has one ever since."""

    since: float = inf
    ends: set[str] = field(default_factory=set)


class Witness:
    """Judges everything that is told, as it is told."""

    def __init__(self, rows: SharedRows, now: Callable[[], float], failover_secs: float) -> None:
        self.tasks: dict[str, Known] = {}
        self.held: dict[str, list[Held]] = {}
        self.last_token: dict[str, int] = {}
        self.watchers: list[tuple[str, Watched]] = []
        self.told = 0
        self.first_breach: Broken | None = None
        self._rows = rows
        self._now = now
        self._trusted_secs = TRUSTED * failover_secs
        self._trusted_until: dict[str, float] = {}
        self._by_key: dict[tuple[str, str], str] = {}
        self._commits: dict[int, tuple[int, int]] = {}
        self._ended_at: dict[int, float] = {}
        self._takes: dict[str, tuple[str, float]] = {}
        rows.on_commit = self._committed
        rows.on_take = self._took

    def _broken(self, why: str) -> Broken:
        """The breach; the first is remembered, since whoever is told of it may take it for a fault of its own."""
        broken = Broken(why)
        self.first_breach = self.first_breach or broken
        return broken

    # Who may speak, and write

    def renewed(self, instance: str, sent_at: float) -> None:
        """A renewal that was sent then has taken effect."""
        until = sent_at + self._trusted_secs
        self._trusted_until[instance] = max(self._trusted_until.get(instance, 0.0), until)

    def speaks(self, begun_as: str, instance: str, what: object) -> None:
        """A replica says something that it began as one instance and says as another."""
        self.told += 1
        row = self._rows.replicas.get(begun_as)
        if begun_as != instance:
            raise self._broken(f"what was begun in the life of {begun_as} is said in that of {instance}: {what}")
        if row is None or row.died_at is not None:
            raise self._broken(f"{begun_as} is dead and says {what}")
        if self._now() > (until := self._trusted_until.get(begun_as, 0.0)):
            raise self._broken(f"{begun_as} is trusted until {until} and says {what}")

    def answers(self, namespace: str, instance: str, begun_at: float) -> None:
        """An instance says what came of a call that it began then: it must have owned the namespace by then."""
        owner, taken_at = self._takes.get(namespace, (instance, 0.0))
        if owner != instance and taken_at < begun_at:
            raise self._broken(
                f"{instance} answers for {namespace} what it began at {begun_at}; {owner} took it {taken_at}"
            )

    def _took(self, row: OwnerRow) -> None:
        assert row.name is not None
        assert row.instance is not None
        if self._takes.get(row.name, ("", 0.0))[0] != row.instance:
            self._takes[row.name] = row.instance, self._now()

    def took(self, before: OwnerRow | None, taken: Taken | None, instance: str) -> None:
        """An instance has taken, or tried to take, what was owned like that before."""
        if taken is None or before is None:
            return
        if before.instance not in (None, instance) and self._rows.lives(before.instance):
            raise self._broken(f"{instance} takes {before}, whose owner lives")
        if taken.term <= before.term:
            raise self._broken(f"{instance} takes {before} under the term {taken.term}")

    def lost(self, instance: str | None, fences: dict[int, Fence]) -> None:
        """An instance is told that it has lost namespaces."""
        for number, fence in fences.items():
            owner = self._rows.owners[number]
            if (owner.instance, owner.term) == (instance, fence.term):
                raise self._broken(f"{instance} is told that it has lost {owner}, with {fence}")

    def _committed(self, instance: str, number: int, fence: Fence, group: Group) -> None:
        owner = self._rows.owners[number]
        if (owner.instance, owner.term) != (instance, fence.term):
            raise self._broken(
                f"{instance} writes {owner.name} under {fence}, which belongs to {owner.instance}: {owner}"
            )
        term, last = self._commits.get(number, (0, 0))
        if fence.number != last + 1 or fence.term < term:
            raise self._broken(f"commit {fence} of {owner.name} follows {last} under {term}")
        self._commits[number] = fence.term, fence.number
        for key, _, _ in group.ended:
            if namespace_of(key) == number:
                self._ended_at[key] = self._now()

    # What is told of tasks

    def told_of(self, namespace: str, tasks: Iterable[Seen]) -> None:
        """An answer or an event tells of tasks: all of it must be in the store."""
        for task in tasks:
            key = key_of(self.number_of(namespace), _number(task.id))
            kept = self._kept(key)
            if kept is None:
                raise self._broken(f"{task} is told of and not in the store")
            state, token, result = kept
            if task.token > token:
                raise self._broken(f"{task} is told of, but the store knows the token {token}")
            if task.state in ENDS:
                if (task.state, state) == ("failed", "cancelled"):
                    # It blocked its target for a while.
                    continue
                if state != task.state or task.result not in (result, UNSHOWN):
                    raise self._broken(f"{task} is told of, but the store has {state} {result!r}")
                self.ends(namespace, task.id, (state, result))

    def number_of(self, namespace: str) -> int:
        """The number of a namespace in the store."""
        return next(owner.number for owner in self._rows.owners.values() if owner.name == namespace)

    def _kept(self, key: int) -> tuple[str, int, bytes | None] | None:
        tables = self._rows.kept.tables
        if key in self._rows.kept.ended:
            return _state(decode_state(self._rows.kept.ended[key][1]))
        if key not in tables[Table.TASKS]:
            return None
        state = tables[Table.STATES].get(key)
        return None if state is None else ("", 0, None) if state == AS_SUBMITTED else _state(decode_state(state))

    def ends(self, namespace: str, task_id: str, end: tuple[str, bytes | None]) -> None:
        """An end was told, which is for good."""
        known = self.tasks.setdefault(task_id, Known(namespace, None))
        if known.end is None:
            known.end = end
        elif known.end[0] == "failed" and end[0] == "cancelled":
            # One that failed blocks its target until somebody cancels it.
            known.end = end
        elif known.end != end:
            raise self._broken(f"{task_id} ends as {end}, and has ended as {known.end} before")

    def blocking(self, namespace: str) -> list[str]:
        """The tasks that have failed, and for which those of their target wait."""
        tables = self._rows.kept.tables
        return [
            decode_task(tables[Table.TASKS][key]).id
            for key, state in tables[Table.STATES].items()
            if state != AS_SUBMITTED
            and namespace_of(key) == self.number_of(namespace)
            and decode_state(state).state is TaskState.FAILED
        ]

    def submitted(self, namespace: str, key: str, task: Seen) -> None:
        """A submission under a key was acknowledged."""
        known = self._by_key.setdefault((namespace, key), task.id)
        if known != task.id:
            raise self._broken(f"{key} is {known} and {task.id}")
        self.tasks.setdefault(task.id, Known(namespace, key)).key = key

    def floor(self, task_id: str) -> Known | None:
        """What a read that begins now must show at least; a copy."""
        known = self.tasks.get(task_id)
        return None if known is None else Known(known.namespace, known.key, known.end)

    def read(self, floor: Known, task: Seen | None) -> None:
        """A read that began when so much was known was answered."""
        if task is None:
            raise self._broken(f"an acknowledged task of {floor} was not found")
        if floor.end is not None and floor.end[0] != "failed" and floor.end != (task.state, task.result):
            raise self._broken(f"{task} is shown after it had ended as {floor.end}")

    # Leases, as hosts see them

    def granted(self, namespace: str, host: str, lease: Granted, asked_after: int) -> Held:
        """A host was told of a lease, for which it asked when a token was known."""
        now = self._now()
        held = Held(host, lease.task.id, lease.token, lease.target, lease.until)
        if lease.token <= asked_after:
            raise self._broken(f"{lease} was asked for after the token {asked_after} was told")
        others = self.held[namespace] = [each for each in self.held.get(namespace, ()) if each.holds(now)]
        for other in others:
            if other.task == held.task:
                raise self._broken(f"{held} is told while {other} holds, at {now}")
            if held.target is not None and other.target == held.target:
                raise self._broken(f"{held} is told while {other} holds the target, at {now}")
        if any(other.token == lease.token for other in others):
            raise self._broken(f"two leases have the token of {lease}")
        self.last_token[namespace] = max(self.last_token.get(namespace, 0), lease.token)
        if held.holds(now):
            others.append(held)
        return held

    # The end

    def at_rest(self) -> list[str]:
        """What is wrong once everything has come to rest and all schedules are deleted, a line each."""
        # Schedules come first: tasks that have not ended may follow from them.
        schedules = self._rows.kept.tables[Table.SCHEDULES].values()
        wrong = [f"the schedule {decode_schedule(record).id} is still there" for record in schedules]
        wrong += self._rows.kept.wrong()
        keys: dict[tuple[int, str], int] = {}
        for key, record in self._rows.kept.tables[Table.TASKS].items():
            its = decode_task(record)
            kept = self._kept(key)
            if kept is None or kept[0] not in ENDS:
                wrong.append(f"task {its.id} has not ended: {kept}")
            if its.options is not None and its.options.key is not None and its.options.trigger_id is None:
                name = namespace_of(key), its.options.key.key
                if name in keys:
                    wrong.append(f"the key {name} stands for two tasks")
                keys[name] = key
            known = self.tasks.get(its.id)
            if known is not None and known.end is not None and kept is not None and known.end != (kept[0], kept[2]):
                wrong.append(f"task {its.id} has ended as {known.end}, and is kept as {kept}")
        kept_ids = {decode_task(record).id for record in self._rows.kept.tables[Table.TASKS].values()}
        wrong += [
            f"task {task_id} is lost: {known}" for task_id, known in self.tasks.items() if task_id not in kept_ids
        ]
        for namespace, watcher in self.watchers:
            wrong += [
                f"a watcher since {watcher.since} has not seen the end of {task_id} at {self._ended_at[key]}: {known}"
                for task_id, known in self.tasks.items()
                if known.namespace == namespace
                and task_id not in watcher.ends
                and (key := key_of(self.number_of(namespace), _number(task_id))) in self._ended_at
                and self._ended_at[key] > watcher.since
            ]
        return wrong + self._wrong_triggers()

    def _wrong_triggers(self) -> list[str]:
        """Each due time of a schedule fires once, and none is left out."""
        wrong: list[str] = []
        due: dict[int, list[float]] = {}
        tasks: set[str] = set()
        for key, record in self._rows.kept.tables[Table.TRIGGERS].items():
            its = decode_trigger(record)
            if not its.by_call:
                due.setdefault(key_of(namespace_of(key), its.schedule_number), []).append(its.due_at)
            if its.task_id is not None:
                if its.task_id in tasks:
                    wrong.append(f"two triggers have fired {its.task_id}")
                tasks.add(its.task_id)
        for schedule, times in due.items():
            times.sort()
            steps = [round(later - earlier, 3) for earlier, later in pairwise(times)]
            if len(set(steps)) > 1:
                wrong.append(f"the due times of schedule {schedule} are apart by {steps}")
        fired: dict[str, str] = {}
        for record in self._rows.kept.tables[Table.TASKS].values():
            task = decode_task(record)
            trigger = None if task.options is None else task.options.trigger_id
            if trigger is not None and fired.setdefault(trigger, task.id) != task.id:
                wrong.append(f"the trigger {trigger} has fired {task.id} and {fired[trigger]}")
        return wrong


def _number(task_id: str) -> int:
    match = ID.fullmatch(task_id)
    assert match is not None, task_id
    return int(match[1], 16)


def _state(state: StateRecord) -> tuple[str, int, bytes | None]:
    its = state.state.value if isinstance(state.state, TaskState) else str(state.state)
    return its, state.token, state.result
