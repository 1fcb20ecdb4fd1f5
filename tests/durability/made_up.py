"""Histories that nobody saw: a yard that keeps its promises, told in a few words, for a test to spoil."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from .evidence import number_of
from .history import (
    ALWAYS,
    NEVER,
    Delivery,
    Event,
    FinalState,
    Firing,
    Grant,
    HostCall,
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
EPOCH = 1_700_000_000
AGENT_OF_SCHEDULES = "clockwork"


class Story:
    """What clients did, one thing after the other, a second each, and the state that a good server would show."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.tasks: dict[str, dict[str, Json]] = {}
        self.triggers: list[dict[str, Json]] = []
        self.leases: list[dict[str, Json]] = []
        self.stats: dict[str, Json] = {}
        """What differs from the figures that a good server would show."""
        self.agents: dict[str, Json] = {}
        self.now = 0.0
        self._token = 0

    def add(
        self, event_kind: type[E], who: str, /, *, secs: float = 0.5, begun: float | None = None, **fields: Any
    ) -> E:
        """Note an event that begins now, and takes a while."""
        begun = self.now if begun is None else begun
        event = event_kind(begun=begun, ended=self.now + secs, who=who, **fields)
        self.events.append(event)
        self.now += 1
        return event

    def change(self, event: E, **fields: Any) -> E:
        """Replace fields of an event that was noted; the new one."""
        changed = replace(event, **fields)
        self.events[self.events.index(event)] = changed
        return changed

    @property
    def time(self) -> str:
        """Now, as the server says it."""
        return time_text(self.now)

    # What agents do

    def submit(
        self, count: int = 1, *, outcome: Outcome = Outcome.ACKNOWLEDGED, exist: bool = True, **asked: Json
    ) -> list[str]:
        """Submit some tasks in one call; their ids. With another outcome they may exist all the same."""
        call, created, begun = f"call-{self.now:g}", self.time, self.now
        ids = []
        batch = {"batchId": f"bat_{self.now:g}"} if count > 1 else {}
        for place in range(count):
            task_id = f"tsk_{self.now:06g}{place:02}"
            body = {"agentId": "ann", "action": "work", "params": {"n": task_id}, **asked}
            told = {"task_id": task_id, "created_at": created, "batch_id": batch.get("batchId")}
            event = Submission(
                **(told if outcome is Outcome.ACKNOWLEDGED else {}),
                begun=begun,
                ended=begun + 0.5,
                who="writer",
                outcome=outcome,
                call=call,
                lane="lane",
                place=int(self.now) * 100 + place,
                asked=body,
            )
            self.events.append(event)
            if exist:
                self.tasks[task_id] = {**body, "taskId": task_id, "createdAt": created, "state": "queued", **batch}
            ids.append(task_id)
        self.now += 1
        return ids

    def repeat(self, number: Json, task_id: str, created_at: str | None = None) -> Submission:
        """Submit a task again, by its number, and have it acknowledged under this id."""
        tries = (each for each in self.events if isinstance(each, Submission))
        asked = next(each.asked for each in tries if number_of(each.asked) == number)
        told: Any = {"outcome": Outcome.ACKNOWLEDGED, "task_id": task_id, "created_at": created_at}
        return self.add(Submission, "writer", call="again", lane="again", place=0, asked=asked, **told)

    def move(self, kind: str, task_id: str, outcome: Outcome = Outcome.ACKNOWLEDGED, **fields: Json) -> Move:
        """Command a task; cancel and resolve end it here, resume begins a new run."""
        if outcome is Outcome.ACKNOWLEDGED:
            match kind:
                case "cancel":
                    self.end(task_id, "cancelled", error=None)
                case "resolve":
                    self.end(task_id, "done", error=None, result=fields.get("value"))
                case "resume":
                    task = self.tasks[task_id]
                    task |= {"state": "queued", "run": task.get("run", 1) + 1}
                    task.pop("completedAt", None)
                    task.pop("error", None)
        return self.add(Move, "operator", kind=kind, task_id=task_id, outcome=outcome, **fields)

    def read(self, task_id: str, who: str = "reader", **task: Json) -> Reading:
        """Show a task as it is, but for some fields."""
        shown = {name: value for name, value in (self.tasks[task_id] | task).items() if name != "params"}
        return self.add(Reading, who, via="get", task_id=task_id, task=shown)

    def watch(self, task_id: str, who: str = "watcher") -> Reading:
        """Show a task to a watcher."""
        return self.add(Reading, who, begun=ALWAYS, via="watch", task_id=task_id, task=dict(self.tasks[task_id]))

    def deliver(self, task_id: str) -> Delivery:
        """Post the end of a task."""
        task = dict(self.tasks[task_id])
        webhook_id = f"{task_id}-{task.get('run', 1)}-{task['state']}"
        return self.add(Delivery, "receiver", webhook_id=webhook_id, task=task)

    # What hosts do

    def grant(self, task_id: str, host: str = "host", *, streamed: bool = False) -> Grant:
        """Lease a task to a host."""
        self._token += 1
        told: Any = {"claimed_at": self.now, "lease_secs": 60.0, "streamed": streamed}
        return self.add(Grant, host, task_id=task_id, token=self._token, **told)

    def report(self, kind: str, grant: Grant | Work, outcome: Outcome = Outcome.ACKNOWLEDGED, **fields: Json) -> Report:
        """Report on a task; nothing happens to it."""
        return self.add(
            Report, grant.who, kind=kind, task_id=grant.task_id, token=grant.token, outcome=outcome, **fields
        )

    def start(self, grant: Grant) -> Work:
        """Report a start, and begin."""
        self.report("started", grant, state="running")
        task = self.tasks[grant.task_id]
        task.setdefault("startedAt", self.time)
        return self.add(
            Work, grant.who, task_id=grant.task_id, token=grant.token, target=task.get("target"), secs=NEVER
        )

    def finish(self, work: Work, *, error: str | None = None) -> Report:
        """End the work, and report it: done, or failed with an error."""
        self.change(work, ended=self.now)
        result = None if error else {"token": work.token}
        state, kind = ("failed", "failed") if error else ("done", "completed")
        self.end(work.task_id, state, error=error, result=result, hostId=work.who)
        return self.add(
            Report,
            work.who,
            kind=kind,
            task_id=work.task_id,
            token=work.token,
            outcome=Outcome.ACKNOWLEDGED,
            state=state,
            value=error or result,
        )

    def run(self, task_id: str, host: str = "host", *, error: str | None = None) -> Report:
        """Lease a task, work on it, and end it."""
        return self.finish(self.start(self.grant(task_id, host)), error=error)

    def kill(self, host: str) -> Killed:
        """End a host."""
        return self.add(Killed, host)

    def call(self, kind: str, host: str = "host", **fields: Json) -> HostCall:
        """Make a call about a host."""
        return self.add(HostCall, host, **{"kind": kind, "outcome": Outcome.ACKNOWLEDGED, **fields})

    # What schedules do

    def schedule(self) -> ScheduleMade:
        """Make one that fires each ten seconds."""
        return self.add(
            ScheduleMade,
            "planner",
            schedule_id="clock",
            agent=AGENT_OF_SCHEDULES,
            every_secs=10.0,
            created_at=time_text(self.now),
        )

    def fire(self, schedule: ScheduleMade, times: int, key: str | None = None) -> dict[str, Json]:
        """Let a due time come, or trigger it by a call with a key; its task is done at once."""
        due = time_text(datetime.fromisoformat(schedule.created_at).timestamp() - EPOCH + 10 * times)
        trigger_id = f"trg_{self.now:g}"
        task_id = f"tsk_{self.now:06g}00"
        self.tasks[task_id] = {
            "agentId": AGENT_OF_SCHEDULES,
            "action": "tick",
            "taskId": task_id,
            "createdAt": self.time,
            "state": "queued",
            "idempotencyKey": trigger_id,
        }
        trigger = {
            "triggerId": trigger_id,
            "scheduleId": "clock",
            "dueAt": due,
            "state": "completed",
            "taskId": task_id,
            "idempotencyKey": key or str(round(datetime.fromisoformat(due).timestamp() * 1000)),
        }
        self.triggers.append(trigger)
        self.add(TriggerReading, "planner", trigger=dict(trigger))
        if key is not None:
            self.add(
                Firing,
                "planner",
                outcome=Outcome.ACKNOWLEDGED,
                schedule_id="clock",
                key=key,
                trigger_id=trigger_id,
            )
        self.run(task_id)
        return trigger

    # How it ends

    def end(self, task_id: str, state: str, **fields: Json) -> None:
        """Let a task end."""
        task = self.tasks[task_id]
        task |= {"state": state, "completedAt": self.time, **fields}
        for name in [name for name, value in task.items() if value is None]:
            del task[name]

    def final(self) -> FinalState:
        """What the server shows in the end."""
        states = Counter(task["state"] for task in self.tasks.values())
        figures = {
            "tasksSubmitted": len(self.tasks),
            "tasksCompleted": states["done"],
            "tasksFailed": states["failed"],
            "tasksCancelled": states["cancelled"],
        }
        agents: dict[str, Json] = {}
        for task in self.tasks.values():
            figures_of = agents.setdefault(task["agentId"], Counter())
            figures_of[{"done": "completed"}.get(task["state"], task["state"])] += 1
        return FinalState(
            at=self.now,
            tasks=list(self.tasks.values()),
            triggers=self.triggers,
            stats={"metrics": figures | self.stats | {"agents": agents | self.agents}, "queue": {}},
            leases=self.leases,
        )


def time_text(secs: float) -> str:
    """A time of the story as the API writes it."""
    return datetime.fromtimestamp(EPOCH + secs, UTC).isoformat().replace("+00:00", "Z")
