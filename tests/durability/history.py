"""What clients saw of a yard: events of their calls, written to a file as they come, so that a kill loses none.

All times are those of the monotonic clock in seconds, which all processes of a machine share. An event has the time at
which its call began and the one at which its answer was there; what the server did, it did between the two. A call
without an answer has an unknown outcome: it may have been done, at any time after its beginning.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

Json = Any
NEVER: Final = float("inf")
ALWAYS: Final = float("-inf")
ENDED_STATES: Final = frozenset({"done", "failed", "cancelled"})


class Outcome(StrEnum):
    """What a caller knows of its call."""

    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One call, or one thing that was seen. `who` is the client."""

    begun: float
    ended: float
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission(Event):
    """One try to submit one task. Tries of the same task have the same `asked`.

    `asked` is the JSON of the request, with a number of its own in `params.n`. `call` names the message that the try
    was part of, `lane` what orders it with others though they are not answered yet: a stream, or the call; `place` is
    its place in there. `may_split` says that the tasks of the call may be accepted without one another.
    """

    outcome: Outcome
    call: str
    lane: str
    place: int
    asked: dict[str, Json]
    task_id: str | None = None
    created_at: str | None = None
    batch_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Event):
    """A lease that a host was handed, over a stream or by a claim.

    `claimed_at` is the server's word, in seconds of its clock, `lease_secs` the length of the lease.
    """

    task_id: str
    token: int
    claimed_at: float
    lease_secs: float
    streamed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Event):
    """A report of a host: `started`, `progress`, `renewed`, `completed`, `failed` or `released`.

    `state` is that of the answer, `value` the result or the error that was reported, `code` that of a refusal.
    """

    outcome: Outcome
    kind: str
    task_id: str
    token: int
    state: str | None = None
    value: Json = None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Event):
    """A handler at work. It is written twice: with the end `NEVER` when it begins, and again when it ends."""

    task_id: str
    token: int
    target: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed(Event):
    """A host, named by `who`, was killed between the two times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Event):
    """A command to a task: `cancel`, `pause`, `resume`, `unhold` (a resume of a held task) or `resolve`."""

    outcome: Outcome
    kind: str
    task_id: str
    state: str | None = None
    value: Json = None
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCall(Event):
    """A call about a host itself: `register`, `claim` or `heartbeat`; `code` is that of a refusal."""

    outcome: Outcome
    kind: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SdkCall(Event):
    """A call of the SDK that succeeded, by whatever repeats; `kind` is its method."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Event):
    """A task as the server showed it, None if it did not know it.

    `via` is `get`, `list`, `webhook`, `watch`, or `current` for a watch that begins with what there is. What a watch
    shows may be from any time before: its `begun` is `ALWAYS`.
    """

    via: str
    task_id: str
    task: dict[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(Event):
    """A webhook that came in."""

    webhook_id: str
    task: dict[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleMade(Event):
    """A schedule that the server acknowledged. `every_secs` is its interval, `agent` that of its tasks.

    It fires beside what is open and catches up everything, so that no due time may be left out.
    """

    schedule_id: str
    agent: str
    every_secs: float
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing(Event):
    """A call to trigger a schedule, under a key."""

    outcome: Outcome
    schedule_id: str
    key: str
    trigger_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerReading(Event):
    """A trigger as the server showed it."""

    trigger: dict[str, Json]


KINDS: Final = {
    kind.__name__: kind
    for kind in (
        *(Submission, Grant, Report, Work, Killed, Move, HostCall, SdkCall, Reading, Delivery),
        *(ScheduleMade, Firing, TriggerReading),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalState:
    """What the server shows once everything has ended, as JSON: tasks in the order of the listing, all triggers that
    are kept, the answer of GetStats, live leases. `at` is when it was read.
    """

    at: float
    tasks: list[dict[str, Json]]
    triggers: list[dict[str, Json]]
    stats: dict[str, Json]
    leases: list[dict[str, Json]]


class Recorder:
    """Writes events to a file. Each is one unbuffered write, so that it survives a kill -9 of its process."""

    def __init__(self, path: Path, who: str) -> None:
        self.who = who
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def add(self, event_kind: type[Event], begun: float, /, *, ended: float | None = None, **fields: Json) -> None:
        """Write an event of this client, which ended now unless another time is given."""
        event = event_kind(begun=begun, ended=time.monotonic() if ended is None else ended, who=self.who, **fields)
        line = json.dumps({"event": event_kind.__name__, **asdict(event)}, separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_events(paths: Iterable[Path]) -> list[Event]:
    """The events of some files, by their ends. Of a handler's two lines the last one counts."""
    events: list[Event] = []
    works: dict[tuple[str, str, int, float], Work] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            name = fields.pop("event")
            if "outcome" in fields:
                fields["outcome"] = Outcome(fields["outcome"])
            event = KINDS[name](**fields)
            if isinstance(event, Work):
                works[event.who, event.task_id, event.token, event.begun] = event
            else:
                events.append(event)
    return sorted([*events, *works.values()], key=lambda event: event.ended)
