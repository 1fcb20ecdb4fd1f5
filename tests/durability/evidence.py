"""A history put in order for the rules: tries of a task together, everything by task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from .history import (
    ALWAYS,
    NEVER,
    Delivery,
    Event,
    FinalState,
    Grant,
    Json,
    Killed,
    Move,
    Outcome,
    Reading,
    Report,
    ScheduleMade,
    Submission,
    TriggerReading,
    Work,
)

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Intent:
    """A task that somebody wanted, and all tries to submit it."""

    tries: list[Submission] = field(default_factory=list)

    @property
    def asked(self) -> dict[str, Json]:
        return self.tries[0].asked

    @property
    def acknowledged(self) -> list[Submission]:
        return [each for each in self.tries if each.outcome is Outcome.ACKNOWLEDGED]

    @property
    def may_exist(self) -> bool:
        """True if any try may have been accepted."""
        return any(each.outcome is not Outcome.REFUSED for each in self.tries)

    @property
    def begun(self) -> float:
        """Before this the task did not exist."""
        return min(each.begun for each in self.tries)

    @property
    def ended(self) -> float:
        """From this on the task existed."""
        return min((each.ended for each in self.acknowledged), default=NEVER)


class Evidence:
    """A history and the final state, in the ways in which the rules look at them."""

    def __init__(self, history: Sequence[Event], final: FinalState) -> None:
        self.history = sorted(history, key=lambda event: event.ended)
        self.final = final

    def of(self, kind: type[E]) -> list[E]:
        """The events of a kind, by their ends."""
        return [event for event in self.history if isinstance(event, kind)]

    @cached_property
    def intents(self) -> dict[Json, Intent]:
        """By the number that makes each task its own."""
        intents: dict[Json, Intent] = defaultdict(Intent)
        for each in self.of(Submission):
            intents[number_of(each.asked)].tries.append(each)
        return dict(intents)

    @cached_property
    def tasks(self) -> dict[str, dict[str, Json]]:
        """The final tasks by id."""
        return {task["taskId"]: task for task in self.final.tasks}

    @cached_property
    def position(self) -> dict[str, int]:
        """The place of each task in the final listing."""
        return {task["taskId"]: place for place, task in enumerate(self.final.tasks)}

    @cached_property
    def triggers(self) -> dict[str, dict[str, Json]]:
        """Triggers by id, as they were shown last."""
        seen = {each.trigger["triggerId"]: each.trigger for each in self.of(TriggerReading)}
        return seen | {trigger["triggerId"]: trigger for trigger in self.final.triggers}

    @cached_property
    def trigger_tasks(self) -> dict[str, dict[str, Json]]:
        """The final tasks that triggers made, by id: schedules have agents of their own."""
        agents = {each.agent for each in self.of(ScheduleMade)}
        return {task_id: task for task_id, task in self.tasks.items() if task["agentId"] in agents}

    @cached_property
    def reports(self) -> dict[str, list[Report]]:
        return _by_task(self.of(Report))

    @cached_property
    def moves(self) -> dict[str, list[Move]]:
        return _by_task(self.of(Move))

    @cached_property
    def grants(self) -> dict[str, list[Grant]]:
        return _by_task(self.of(Grant))

    @cached_property
    def readings(self) -> dict[str, list[Reading]]:
        """What was shown of each task: answers, webhooks, and the final state last."""
        at = self.final.at
        shown = [_reading(each.task, "webhook", each.who, ALWAYS, each.ended) for each in self.of(Delivery)]
        last = [_reading(task, "list", "the end", at, NEVER) for task in self.final.tasks]
        return _by_task(sorted([*self.of(Reading), *shown], key=lambda each: each.ended) + last)

    @cached_property
    def works(self) -> list[Work]:
        """The runs of handlers by their beginnings; those of a killed host end with it."""
        killed: dict[str, list[float]] = defaultdict(list)
        for kill in self.of(Killed):
            killed[kill.who].append(kill.begun)
        works = []
        for each in self.of(Work):
            end = min((at for at in killed[each.who] if at >= each.begun), default=NEVER)
            works.append(replace(each, ended=min(each.ended, end)))
        return sorted(works, key=lambda each: each.begun)

    def tried(self, task_id: str, *kinds: str) -> list[Move]:
        """The commands of these kinds to a task that may have been done."""
        return [each for each in self.moves.get(task_id, ()) if each.kind in kinds and _may_be_done(each.outcome)]

    def moved(self, task_id: str, *kinds: str) -> list[Move]:
        """The commands of these kinds to a task that were acknowledged."""
        return [each for each in self.tried(task_id, *kinds) if each.outcome is Outcome.ACKNOWLEDGED]

    def reported(self, task_id: str, *kinds: str) -> Iterator[Report]:
        """The reports of these kinds on a task that may have been taken."""
        return (each for each in self.reports.get(task_id, ()) if each.kind in kinds and _may_be_done(each.outcome))

    def taken(self, task_id: str, *kinds: str) -> list[Report]:
        """The reports of these kinds on a task that were acknowledged."""
        return [each for each in self.reported(task_id, *kinds) if each.outcome is Outcome.ACKNOWLEDGED]


def number_of(task: dict[str, Json]) -> Json:
    """The number of its own that a task has in its params; None where it has none, such as tasks of schedules."""
    return (task.get("params") or {}).get("n")


def seconds_of(text: str) -> float:
    """A time of the API in seconds."""
    return datetime.fromisoformat(text).timestamp()


def _reading(task: dict[str, Json], via: str, who: str, begun: float, ended: float) -> Reading:
    return Reading(begun=begun, ended=ended, who=who, via=via, task_id=task["taskId"], task=task)


def _may_be_done(outcome: Outcome) -> bool:
    return outcome is not Outcome.REFUSED


def _by_task(events: Iterable[E]) -> dict[str, list[E]]:
    by_task: dict[str, list[E]] = defaultdict(list)
    for event in events:
        by_task[event.task_id].append(event)  # type: ignore[attr-defined]
    return dict(by_task)
