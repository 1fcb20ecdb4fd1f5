"""Events: what somebody sends to a name, for all tasks that are parked until one comes (docs/rules.md, Events).

An event is kept until its life is over and all that waited for it have got it, one by one, in `act_on_one`, so that
thousands of them hold nobody up. A parked task stands either among those that wait for a name, or with the oldest event
of the name that it is to get. An event is also kept while an older one of its name is: some may wait for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from taskyard_server.core.errors import TooManyEvents
from taskyard_server.core.history import EVENT
from taskyard_server.core.timers import TimerOrder

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.readers import ReaderRules
    from taskyard_server.core.task import Task
    from taskyard_server.core.timers import Timers

MAX_EVENTS: Final = 1_000
MAX_EVENTS_BYTES: Final = 16 << 20
"""Of a namespace: how many are kept at a time, and their payloads together."""
MAX_EVENT_BYTES: Final = 65_536
"""Of a payload."""


class NewEvent(NamedTuple):
    """An event that is sent, `by` whom, for tasks of `agents`, None for all. `payload` is a serialized `Value`."""

    name: str
    event_id: str
    payload: bytes
    life_secs: float
    by: str | None = None
    agents: Names | None = None


class SentEvent:
    """An event that is kept. `number` grows with each of the namespace, and `waited` counts the tasks that it found.

    Those that are still to get it first are `due`, the next one last. Its life is over once it `has_ended`.
    """

    __slots__ = ("agents", "at", "by", "due", "event_id", "has_ended", "name", "number", "payload", "until", "waited")

    def __init__(self, number: int, new: NewEvent, at: float, until: float, waited: int = 0) -> None:
        self.number = number
        self.name = new.name
        self.event_id = new.event_id
        self.payload = new.payload
        self.by = new.by
        self.agents = new.agents
        self.at = at
        self.until = until
        self.waited = waited
        self.has_ended = False
        self.due: dict[Task, None] = {}

    @property
    def key(self) -> tuple[Names | None, str, str]:
        """The key of its repeats: ids of callers with other agents are others."""
        return self.agents, self.name, self.event_id

    def may_reach(self, task: Task) -> bool:
        """True if it is for the agent of a task."""
        return self.agents is None or task.agent_id in self.agents

    def is_for(self, task: Task, since: float) -> bool:
        """True if it came while a task waited that is parked `since` then, or this began to wait within its life."""
        return (since <= self.at or since < self.until) and self.may_reach(task)


class EventChanges(Protocol):
    """The part of `Changes` that has to do with events."""

    sent_events: dict[SentEvent, None]

    def sent_event_gone(self, event: SentEvent) -> None:
        """See `Changes`."""


class SentEvents:
    """The events of one namespace that are kept, and the parked tasks that wait for one.

    `on_came` is called with a task that is to go on, since an event has come for it.
    """

    def __init__(self, timers: Timers, readers: ReaderRules, changes: EventChanges | None) -> None:
        self.on_came: Callable[[float, Task], None]
        self.last_number = 0
        self._timers = timers.queue(self._end_life, TimerOrder.FORGET_EVENT)
        self._readers = readers
        self._changes = changes
        self._by_name: dict[str, dict[int, SentEvent]] = {}
        """The oldest of a name first."""
        self._by_key: dict[tuple[Names | None, str, str], SentEvent] = {}
        self._bytes = 0
        self._waiting: dict[str, dict[Task, None]] = {}
        self._due: dict[SentEvent, None] = {}
        """Those that tasks are to get."""
        self._since = 0.0

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._by_key)

    def send(self, now: float, new: NewEvent) -> tuple[SentEvent, bool]:
        """Take an event, unless one of its name and id is kept: returns that, and whether it is that one.

        Raises `TooManyEvents`, and `Unavailable` while an earlier version may come to serve the namespace.
        """
        self._readers.require_known("event")
        key = (new.agents, new.name, new.event_id)
        known = self._by_key.get(key)
        if known is not None:
            return known, True
        if len(self) >= MAX_EVENTS or self._bytes + len(new.payload) > MAX_EVENTS_BYTES:
            raise TooManyEvents(MAX_EVENTS, MAX_EVENTS_BYTES)
        self.last_number += 1
        event = SentEvent(self.last_number, new, now, now + new.life_secs)
        self._keep(event)
        if self._changes is not None:
            self._changes.sent_events[event] = None
        waiting = self._waiting.get(event.name, {})
        its = [task for task in waiting if event.may_reach(task)]
        for task in its:
            del waiting[task]
        if not waiting:
            self._waiting.pop(event.name, None)
        event.waited = len(its)
        event.due = dict.fromkeys(sorted(its, key=_youngest_first))
        self._note_due(now, event)
        if now < event.until:
            self._timers.add(event.until, event)
        else:
            self._end_life(now, event)
        return event, False

    # Parked tasks

    def next_for(self, task: Task, name: str) -> SentEvent | None:
        """The oldest event of a name that a parked task is to get: one that came in time, and that it has not had."""
        by_number = self._by_name.get(name)
        if by_number is None:
            return None
        park = task.history.park
        assert park is not None
        last = dict(park.heard).get(name, 0)
        for number, event in by_number.items():
            if number > last and event.is_for(task, park.since):
                return event
        return None

    def has_for(self, task: Task) -> bool:
        """True if an event is there that a parked task waits for."""
        return any(self.next_for(task, name) is not None for name in awaited(task))

    def wait(self, now: float, task: Task) -> None:
        """Note a parked task by the names that it waits for."""
        for name in awaited(task):
            event = self.next_for(task, name)
            if event is None:
                self._waiting.setdefault(name, {})[task] = None
            else:
                event.due[task] = None
                self._note_due(now, event)

    def withdraw(self, task: Task) -> None:
        """A parked task goes on or ends, whose waits are as they were. `let_go` follows once it has what it gets."""
        for name in awaited(task):
            waiting = self._waiting.get(name)
            if waiting is not None and task in waiting:
                del waiting[task]
                if not waiting:
                    del self._waiting[name]
            else:
                for event in self._by_name.get(name, {}).values():
                    event.due.pop(task, None)
                    if not event.due:
                        self._due.pop(event, None)

    def let_go(self, name: str) -> None:
        """Forget the events of a name that are over, from the oldest on to one that somebody is still to get."""
        for event in list(self._by_name.get(name, {}).values()):
            if event.due:
                return
            if event.has_ended:
                self._forget(event)

    # Time

    def next_due(self) -> float | None:
        """Since when tasks are to get an event; None if none is."""
        return self._since if self._due else None

    def act_on_one(self, now: float) -> bool:
        """Let the next task go on that is to get an event; False if there is none."""
        for event in self._due:
            task, _ = event.due.popitem()
            self.on_came(now, task)
            return True
        return False

    def _end_life(self, now: float, event: SentEvent) -> None:
        del now
        event.has_ended = True
        self.let_go(event.name)

    # For a store

    def restore(self, event: SentEvent) -> None:
        """Have an event again that was stored; in order of their numbers, before the parked tasks."""
        self._keep(event)
        self._timers.add(event.until, event)

    def settle(self) -> None:
        """All parked tasks are noted: they get their events in the order of their ages."""
        for event in self._due:
            event.due = dict.fromkeys(sorted(event.due, key=_youngest_first))

    def all(self) -> list[SentEvent]:
        """All that are kept."""
        return list(self._by_key.values())

    def _keep(self, event: SentEvent) -> None:
        self._by_name.setdefault(event.name, {})[event.number] = event
        self._by_key[event.key] = event
        self._bytes += len(event.payload)

    def _forget(self, event: SentEvent) -> None:
        by_number = self._by_name[event.name]
        del by_number[event.number]
        if not by_number:
            del self._by_name[event.name]
        del self._by_key[event.key]
        self._bytes -= len(event.payload)
        if self._changes is not None:
            self._changes.sent_event_gone(event)

    def _note_due(self, now: float, event: SentEvent) -> None:
        if event.due:
            if not self._due:
                self._since = now
            self._due[event] = None


def awaited(task: Task) -> Iterator[str]:
    """The names of the events that a task waits for, each once."""
    park = task.history.park
    assert park is not None
    return iter(dict.fromkeys([name for wait in park.waits if wait.kind == EVENT for name in wait.about]))


def _youngest_first(task: Task) -> int:
    return -task.seq
