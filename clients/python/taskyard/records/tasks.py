"""Tasks as the server shows them (docs/rules.md, Task fields).

The fields are those of the proto, under the same names, as plain Python: times are aware datetimes in UTC, JSON values
are dicts, lists and the like, absent fields are None. `new_tasks` has the tasks to submit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from taskyard.renamed import old_milliseconds
from taskyard.retry_policy import RetryPolicy
from taskyard.v1 import artifact_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.values.choices import AfterPolicy, OnParentEnd, OnTargetFailure, UniqueWhile
from taskyard.values.convert import datetime_from, optional, optional_time, plain_object, plain_value
from taskyard.values.payloads import BadValue, Codec, Payload, json_of

from .artifacts import Artifact
from .questions import Park


class TaskState(StrEnum):
    """The state of a task (docs/rules.md, Task states)."""

    PENDING = "pending"
    QUEUED = "queued"
    ASSIGNED = "assigned"
    RUNNING = "running"
    PAUSED = "paused"
    PARKED = "parked"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"

    @property
    def ended(self) -> bool:
        """True if a task in this state has ended. A failed one can still be resumed or resolved."""
        return self in ENDED


ENDED: Final = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED, TaskState.REJECTED})
STATE_OF_NUMBER: Final = {pb.Task.State.Value(state.value): state for state in TaskState}
AFTER_POLICIES: Final[Mapping[int, AfterPolicy]] = {pb.After.success: "success", pb.After.ended: "ended"}
PARENT_ENDS: Final[Mapping[int, OnParentEnd]] = {pb.Parent.keep: "keep", pb.Parent.cancel: "cancel"}
UNIQUE_WHILES: Final[Mapping[int, UniqueWhile]] = {pb.Unique.queued: "queued", pb.Unique.live: "live"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a task within a run.

    Attributes:
        number: The number of the attempt within the run, from 1.
        host_id: The host that executed it.
        started_at: When the host began.
        ended_at: When it ended, None while it runs.
        error: Why it failed.
        code: The kind of failure, as the host reported it.
    """

    number: int
    host_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None
    code: str | None = None

    @classmethod
    def from_message(cls, message: pb.Attempt) -> Attempt:
        """Convert a message.

        Args:
            message: The attempt as the server sends it.

        Returns:
            The attempt.
        """
        return cls(
            number=message.number,
            host_id=optional(message, "host_id"),
            started_at=optional_time(message, "started_at"),
            ended_at=optional_time(message, "ended_at"),
            error=optional(message, "error"),
            code=optional(message, "code"),
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """The last progress that a host reported for a task.

    Attributes:
        fraction: How far the work is, from 0 to 1.
        message: A text for people.
        details: A JSON object of the handler, empty if there is none.
        reported_at: When it was reported.
    """

    fraction: float | None = None
    message: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    reported_at: datetime | None = None

    @classmethod
    def from_message(cls, message: pb.Progress) -> Progress:
        """Convert a message.

        Args:
            message: The progress as the server sends it.

        Returns:
            The progress.
        """
        return cls(
            fraction=optional(message, "fraction"),
            message=optional(message, "message"),
            details=plain_object(message.details),
            reported_at=optional_time(message, "reported_at"),
        )


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it was when the server answered.

    Attributes:
        id: The task's id.
        agent_id: The agent that submitted it.
        action: The kind of action to run.
        state: Its state.
        created_at: When it was submitted.
        priority: Lower numbers are claimed first among the tasks of the agent.
        tab_id: The browser tab that the action is for.
        ref: The element that the action is for.
        params: Fields for the action. Absent from the events of a watch. Empty where the input is no JSON object, or is
            encoded by a codec that the client has not.
        deadline: When it fails unless it has ended. None while it is paused, and while a default deadline does not
            count yet.
        started_at: When it was first executed, in any attempt or run.
        completed_at: When it ended.
        latency: The time from `started_at` to `completed_at`.
        result: Its result, a JSON value, once it is done. None where it is encoded by a codec that the client has not.
        error: Why it failed, was rejected or was interrupted.
        position: The number of queued tasks of the namespace just after it was admitted.
        callback_url: The URL that it is posted to when it ends.
        batch_id: The batch that it was submitted in.
        project: The project that it belongs to.
        requires: The capabilities that its host must have.
        labels: The labels that the submitter gave.
        target: Its serial queue: one task of a target runs at a time.
        hold: Whether it is held back until it is resumed.
        not_before: When a pending task is due, for the first time or for its next attempt.
        token_limit: The most tokens of a language model that it may use, over all attempts and runs.
        tokens_used: The tokens that it has used, over all attempts and runs.
        retry_policy: How failed attempts are repeated.
        attempts: Its attempts in this run. Empty before the first, and if there is only one and no retry policy.
        run: The number of the run, from 1. It grows with each resume.
        idempotency_key: The key that it was submitted under.
        host_id: The host that holds it, or held it last.
        progress: The last progress that its host reported.
        traceparent: The W3C trace context that it was submitted under.
        run_timeout: How long each attempt may run, from its start.
        parent_id: The task whose work submitted it.
        input: The input as it was sent, where `params` of the API cannot hold it.
        output: The output as it was sent, where `result` of the API cannot hold it.
        code: The kind of the last failure in this run, as the host reported it, or `timed_out`.
        traceback: Where in the host's code the last failure in this run was. Absent from the events of a watch.
        concurrency_keys: The keys that it shares with other tasks, which limits hold for.
        after: The tasks that must have ended before it is due.
        after_policy: What it asks of those, None unless it was set.
        unique_key: The unique key that it was submitted under.
        unique_while: For how long the key is taken, None unless it was set.
        on_target_failure: What becomes of its target if it fails after its start, None unless it was set.
        notice: Why nothing can run it at present, such as `no live host offers the action crawl`, once that has been so
            for a while.
        selector: The element that the action is for, as a selector.
        artifacts: Its artifacts, those of all runs, in the order in which they were put.
        inputs: The ids of the tasks whose results are handed to it, by the names that it has for them.
        steps: How many steps it has, those of all runs. `Client.steps` has them.
        reason: Why somebody cancelled, paused or resolved it, as the last one who did said.
        on_parent_end: What becomes of it when its parent ends, None unless it was set.
        child_name: Its name among the children of its parent, None unless that has submitted it as a child.
        park: What it waits for while it is parked, None otherwise.
    """

    id: str
    agent_id: str
    action: str
    state: TaskState
    created_at: datetime
    priority: int = 0
    tab_id: str | None = None
    ref: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    deadline: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    latency: timedelta | None = None
    result: Any = None
    error: str | None = None
    position: int | None = None
    callback_url: str | None = None
    batch_id: str | None = None
    project: str | None = None
    requires: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    hold: bool = False
    not_before: datetime | None = None
    token_limit: int | None = None
    tokens_used: int | None = None
    retry_policy: RetryPolicy | None = None
    attempts: tuple[Attempt, ...] = ()
    run: int = 1
    idempotency_key: str | None = None
    host_id: str | None = None
    progress: Progress | None = None
    traceparent: str | None = None
    run_timeout: timedelta | None = None
    parent_id: str | None = None
    input: Payload | None = None
    output: Payload | None = None
    code: str | None = None
    traceback: str | None = None
    concurrency_keys: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    after_policy: AfterPolicy | None = None
    unique_key: str | None = None
    unique_while: UniqueWhile | None = None
    on_target_failure: OnTargetFailure | None = None
    notice: str | None = None
    selector: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    inputs: dict[str, str] = field(default_factory=dict)
    steps: int = 0
    reason: str | None = None
    on_parent_end: OnParentEnd | None = None
    child_name: str | None = None
    park: Park | None = None

    latency_ms = old_milliseconds("Task.latency_ms", "latency")

    @classmethod
    def from_message(cls, message: pb.Task, codec: Codec | None = None) -> Task:
        """Convert a message.

        Args:
            message: The task as the server sends it.
            codec: Reads what is encoded. Default none.

        Returns:
            The task.
        """
        values: dict[str, Any] = {
            "id": message.task_id,
            "agent_id": message.agent_id,
            "action": message.action,
            "state": STATE_OF_NUMBER[message.state],
            "created_at": datetime_from(message.created_at),
        }
        # Most fields of most tasks are absent: to ask for each of them would cost several times as much.
        for descriptor, value in message.ListFields():
            if (reading := READINGS.get(descriptor.number)) is not None:
                values[reading[0]] = reading[1](value)
        given, taken = values.get("input"), values.get("output")
        if given is not None and isinstance(found := plain_of(given, codec), dict):
            values["params"] = found
        if taken is not None:
            values["result"] = plain_of(taken, codec)
        return cls(**values)


def _same(value: Any) -> Any:
    return value


def _span(milliseconds: int) -> timedelta:
    return timedelta(milliseconds=milliseconds)


def _attempts(messages: Iterable[pb.Attempt]) -> tuple[Attempt, ...]:
    return tuple(Attempt.from_message(message) for message in messages)


def _artifacts(messages: Iterable[artifact_pb2.Artifact]) -> tuple[Artifact, ...]:
    return tuple(Artifact.from_message(message) for message in messages)


CONVERTED: Final[Mapping[str, Callable[[Any], Any]]] = {
    "params": plain_object,
    "result": plain_value,
    "requires": tuple,
    "labels": dict,
    "inputs": dict,
    "retry_policy": RetryPolicy.from_message,
    "attempts": _attempts,
    "artifacts": _artifacts,
    "progress": Progress.from_message,
    "park": Park.from_message,
    "input": Payload.from_message,
    "output": Payload.from_message,
    "concurrency_keys": tuple,
    "after": tuple,
    "after_policy": AFTER_POLICIES.get,
    "unique_while": UNIQUE_WHILES.get,
    "on_parent_end": PARENT_ENDS.get,
    **dict.fromkeys(("latency", "run_timeout"), _span),
    **dict.fromkeys(("deadline", "started_at", "completed_at", "not_before"), datetime_from),
}
"""How the fields are read that are not plain."""
OTHER_NAMES: Final = {"latency": "latency_ms", "run_timeout": "run_timeout_ms"}
"""Names of fields in the API, where they differ."""
ALWAYS_READ: Final = frozenset({"id", "agent_id", "action", "state", "created_at"})
READINGS: Final[Mapping[int, tuple[str, Callable[[Any], Any]]]] = {
    pb.Task.DESCRIPTOR.fields_by_name[OTHER_NAMES.get(name, name)].number: (name, CONVERTED.get(name, _same))
    for name in (each.name for each in fields(Task))
    if name not in ALWAYS_READ
}
"""The other fields by their numbers in the API: their names here, and how they are read."""


def plain_of(payload: Payload, codec: Codec | None) -> Any:
    """Read the JSON in a payload.

    Args:
        payload: The payload.
        codec: Reads what is encoded, None for nothing.

    Returns:
        The JSON, None if it cannot be read here.
    """
    try:
        return msgspec.json.decode(json_of(payload, codec))
    except (BadValue, msgspec.DecodeError):
        return None
