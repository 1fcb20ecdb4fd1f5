"""Operations of the model, written from docs/rules.md alone (see `model.py`): all tasks are looked at each time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from .model_agents import AgentModel
from .model_records import ENDED, FLYING, STOPPED, WAITING, Job, Refused

TREATED: Final = 50
"""So many tasks are treated in one slice."""
OF_ONE: Final = 8
"""So many may be at work."""
KNOWN_SECS: Final = 3600.0

Figures = tuple[str, int, int, int, int]


@dataclass
class Wanted:
    """What is asked for: of which tasks, None for any, and what is to be done to them."""

    name: str
    kind: str
    agent: str | None
    states: Collection[str] | None
    token_limit: int | None
    priority: int
    reason: str | None = None


@dataclass
class Operation:
    """How far one is: it has judged the tasks up to `after`, of those up to `until`."""

    wanted: Wanted
    until: int
    after: int = 0
    status: str = "running"
    matched: int = 0
    done: int = 0
    skipped: int = 0
    failed: int = 0
    ended_at: float | None = None
    waits_for: Job | None = None

    @property
    def figures(self) -> Figures:
        return self.status, self.matched, self.done, self.skipped, self.failed


class Operations:
    """All that are at work or ended within the hour. `line` is in the order of their turns."""

    def __init__(self, agents: AgentModel) -> None:
        self._agents = agents
        self.line: list[Operation] = []
        self.known: dict[str, Operation] = {}

    def begin(self, now: float, wanted: Wanted) -> Figures:
        known = self._find(now, wanted.name)
        if known is not None:
            if known.wanted != wanted:
                raise Refused("conflict")
            return known.figures
        if len(self.line) == OF_ONE:
            raise Refused("queue_full")
        operation = self.known[wanted.name] = Operation(wanted, self._agents.world.number())
        operation.matched = sum(self._concerns(operation, job) for job in self._agents.world.tasks.values())
        self.line.append(operation)
        return operation.figures

    def get(self, now: float, name: str) -> Figures:
        found = self._find(now, name)
        if found is None:
            raise Refused("not_found", "operation not found")
        return found.figures

    def cancel(self, now: float, name: str) -> Figures:
        self.get(now, name)
        operation = self.known[name]
        if operation.ended_at is None:
            self._end(now, operation, "cancelled")
        return operation.figures

    def is_ready(self) -> bool:
        return any(self._can_go_on(operation) for operation in self.line)

    def step(self, now: float) -> None:
        """One slice of the first that can go on, which is the last in line then."""
        for operation in self.line:
            if self._can_go_on(operation):
                self.line.remove(operation)
                self.line.append(operation)
                operation.status, operation.waits_for = "running", None
                self._treat(now, operation)
                return

    def restarted(self) -> None:
        """True if one waits is found out anew, and turns begin with the oldest."""
        for operation in self.line:
            operation.status, operation.waits_for = "running", None
        self.line.sort(key=lambda operation: operation.until)

    def _find(self, now: float, name: str) -> Operation | None:
        found = self.known.get(name)
        if found is None or (found.ended_at is not None and now >= found.ended_at + KNOWN_SECS):
            return None
        return found

    def _concerns(self, operation: Operation, job: Job) -> bool:
        wanted = operation.wanted
        can_be = {
            "cancel": job.state not in ENDED or job.blocks,
            "pause": job.state in FLYING,
            "resume": job.held or job.state in STOPPED,
            "resolve": job.state in STOPPED,
            "reprioritize": job.state not in ENDED,
        }[wanted.kind]
        fits = wanted.agent in (None, job.wish.agent) and (wanted.states is None or job.state in wanted.states)
        return can_be and fits and job.order <= operation.until

    def _has_room(self, job: Job) -> bool:
        world = self._agents.world
        if world.draining:
            return False
        limits, agent = world.limits, job.wish.agent
        free = world.queued() < limits["max_queue_size"] and world.queued(agent) < limits["max_per_agent"]
        return job.state in WAITING or free

    def _can_go_on(self, operation: Operation) -> bool:
        job = operation.waits_for
        return job is None or self._has_room(job) or not self._concerns(operation, job)

    def _treat(self, now: float, operation: Operation) -> None:
        world, treated = self._agents.world, 0
        for job in [*world.tasks.values()]:
            if not operation.after < job.order <= operation.until:
                continue
            if treated == TREATED:
                return
            if job.id in world.tasks and self._concerns(operation, job):
                if operation.wanted.kind == "resume" and not self._has_room(job):
                    operation.status, operation.waits_for = "waiting", job
                    return
                treated += 1
                try:
                    self._do(now, operation.wanted, job)
                    operation.done += 1
                except Refused:
                    operation.failed += 1
                operation.matched = max(operation.matched, operation.done + operation.failed)
            operation.after = job.order
        operation.skipped = operation.matched - operation.done - operation.failed
        self._end(now, operation, "done")

    def _do(self, now: float, wanted: Wanted, job: Job) -> None:
        if wanted.kind == "cancel":
            self._agents.cancel(now, job.id, wanted.reason)
        elif wanted.kind == "pause":
            self._agents.pause(now, job.id, wanted.reason)
        elif wanted.kind == "resume":
            self._agents.resume(now, job.id, None, wanted.token_limit)
        elif wanted.kind == "resolve":
            self._agents.resolve(now, job.id, None, wanted.reason)
        elif job.priority != wanted.priority:
            job.moved_to = wanted.priority
            self._agents.world.tell(now, "reprioritized", job, job.state)

    def _end(self, now: float, operation: Operation, status: str) -> None:
        operation.status, operation.ended_at, operation.waits_for = status, now, None
        self.line.remove(operation)
