"""Events in the model, written from docs/rules.md (Events) alone: every question is a look at all events and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .model_records import Job, Refused, Sent

if TYPE_CHECKING:
    from .world import World

MAX_EVENTS = 1_000
MAX_EVENTS_BYTES = 16 << 20
MAX_EVENT_BYTES = 65_536


class Events:
    """The events that were sent in a world, the oldest first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent: list[Sent] = []
        self.last = 0

    def kept(self) -> list[Sent]:
        """Those whose life is not over, or that somebody is still to get, or an older one of the name."""
        self._sent = [
            event
            for event in self._sent
            if not event.is_over
            or any(self._is_due(each) for each in self._sent if each.name == event.name and each.number <= event.number)
        ]
        return self._sent

    def send(
        self,
        now: float,
        name: str,
        event_id: str,
        payload: bytes,
        life: float,
        by: str | None,
        agents: frozenset[str] | None,
    ) -> tuple[Sent, bool]:
        """One that is kept is the same for all who may reach the same tasks."""
        kept = self.kept()
        for event in kept:
            if (event.name, event.id, event.agents) == (name, event_id, agents):
                return event, True
        if len(kept) >= MAX_EVENTS or sum(len(event.payload) for event in kept) + len(payload) > MAX_EVENTS_BYTES:
            raise Refused("queue_full")
        self.last += 1
        event = Sent(self.last, name, event_id, payload, now, now + life, by, agents)
        its = [job for job in self._world.tasks.values() if self._waits_for(job, name) and self._is_for(event, job)]
        # Others are to get an older one first.
        event.waited = len([job for job in its if self.next_for(job, name) is None])
        event.is_over = life == 0
        self._sent.append(event)
        return event, False

    def next_for(self, job: Job, name: str) -> Sent | None:
        """The oldest event of a name that a task is to get."""
        for event in self._sent:
            if event.name == name and event.number > job.heard.get(name, 0) and self._is_for(event, job):
                return event
        return None

    def has_for(self, job: Job) -> bool:
        """True if an event has come for a parked task."""
        self.kept()
        return any(wait.kind == "event" and self.next_for(job, wait.about[0]) is not None for wait in job.waits)

    def _is_due(self, event: Sent) -> bool:
        tasks = self._world.tasks.values()
        return any(self._waits_for(job, event.name) and self.next_for(job, event.name) is event for job in tasks)

    def _waits_for(self, job: Job, name: str) -> bool:
        return job.state == "parked" and any(wait.kind == "event" and wait.about == (name,) for wait in job.waits)

    def _is_for(self, event: Sent, job: Job) -> bool:
        """It came while it waited, or this began within its life, and they are of the same world."""
        since = job.parked_at or 0.0
        return (since <= event.at or since < event.until) and (event.agents is None or job.wish.agent in event.agents)
