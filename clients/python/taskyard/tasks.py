"""Tasks as callers see them: what is submitted, and how it then stands (scheduler-reference, Task Object).

The fields are those of the proto, under the same names, as plain Python: times are aware datetimes in UTC, JSON values
are dicts, lists and the like, what is absent is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypedDict

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import batch_pb2, schedule_pb2
from taskyard.v1 import task_pb2 as pb

from .values import (
    datetime_from,
    given,
    given_time,
    plain_object,
    plain_value,
    struct_from,
    timestamp_from,
    whole_seconds,
)


class TaskState(StrEnum):
    """Where a task stands (DESIGN, Task states)."""

    PENDING = "pending"
    QUEUED = "queued"
    ASSIGNED = "assigned"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"

    @property
    def ended(self) -> bool:
        """Whether a task in this state has ended. A failed one can still be resumed or resolved."""
        return self in ENDED


ENDED: Final = frozenset({TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED, TaskState.REJECTED})
STATE_OF_NUMBER: Final = {pb.Task.State.Value(state.value): state for state in TaskState}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a failed attempt is repeated. `max_attempts` counts the first one; delays are in milliseconds."""

    max_attempts: int = 1
    first_delay_ms: int = 1_000
    multiplier: float = 2.0
    max_delay_ms: int = 60_000
    non_retryable_codes: tuple[str, ...] = ()

    @classmethod
    def from_message(cls, message: pb.RetryPolicy) -> RetryPolicy:
        """The policy, with the documented defaults for what is absent."""
        fields = {field.name: value for field, value in message.ListFields()}
        return cls(**fields | {"non_retryable_codes": tuple(message.non_retryable_codes)})

    def to_message(self) -> pb.RetryPolicy:
        """The policy with every field set."""
        return pb.RetryPolicy(
            max_attempts=self.max_attempts,
            first_delay_ms=self.first_delay_ms,
            multiplier=self.multiplier,
            max_delay_ms=self.max_delay_ms,
            non_retryable_codes=self.non_retryable_codes,
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of a task within a run. `code` is the host's word for the kind of failure."""

    number: int
    host_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None
    code: str | None = None

    @classmethod
    def from_message(cls, message: pb.Attempt) -> Attempt:
        """The attempt as the server tells it."""
        return cls(
            number=message.number,
            host_id=given(message, "host_id"),
            started_at=given_time(message, "started_at"),
            ended_at=given_time(message, "ended_at"),
            error=given(message, "error"),
            code=given(message, "code"),
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """A host's last word on how far a task is. `fraction` is 0 to 1."""

    fraction: float | None = None
    message: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    reported_at: datetime | None = None

    @classmethod
    def from_message(cls, message: pb.Progress) -> Progress:
        """The progress as the server tells it."""
        return cls(
            fraction=given(message, "fraction"),
            message=given(message, "message"),
            details=plain_object(message.details),
            reported_at=given_time(message, "reported_at"),
        )


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it stood when the server answered. `latency_ms` is from `started_at` to `completed_at`.

    `attempts` is empty before the first execution, and where there is only one and no retry policy. `run` counts from
    1 and grows with each resume. The events of a watch leave out `params`, which never change.
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
    latency_ms: int | None = None
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

    @classmethod
    def from_message(cls, message: pb.Task) -> Task:
        """The task as the server tells it."""
        return cls(
            id=message.task_id,
            agent_id=message.agent_id,
            action=message.action,
            state=STATE_OF_NUMBER[message.state],
            created_at=datetime_from(message.created_at),
            priority=message.priority,
            tab_id=given(message, "tab_id"),
            ref=given(message, "ref"),
            params=plain_object(message.params) if message.HasField("params") else {},
            deadline=given_time(message, "deadline"),
            started_at=given_time(message, "started_at"),
            completed_at=given_time(message, "completed_at"),
            latency_ms=given(message, "latency_ms"),
            result=plain_value(message.result) if message.HasField("result") else None,
            error=given(message, "error"),
            position=given(message, "position"),
            callback_url=given(message, "callback_url"),
            batch_id=given(message, "batch_id"),
            project=given(message, "project"),
            requires=tuple(message.requires),
            labels=dict(message.labels),
            target=given(message, "target"),
            hold=message.hold,
            not_before=given_time(message, "not_before"),
            token_limit=given(message, "token_limit"),
            tokens_used=given(message, "tokens_used"),
            retry_policy=RetryPolicy.from_message(message.retry_policy) if message.HasField("retry_policy") else None,
            attempts=tuple(Attempt.from_message(attempt) for attempt in message.attempts),
            run=message.run or 1,
            idempotency_key=given(message, "idempotency_key"),
            host_id=given(message, "host_id"),
            progress=Progress.from_message(message.progress) if message.HasField("progress") else None,
            traceparent=given(message, "traceparent"),
        )


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task as its submitter writes it. Only `action` must be given; None is the server's default.

    `deadline` and `not_before` are points in time with a time zone, or spans that count from the call that submits.
    `agent_id` is by default the client's. With an `idempotency_key` of its own the same task may be submitted twice and
    is made once; then give points in time, since a span makes another task of it each time.
    """

    action: str
    params: Mapping[str, Any] | None = None
    tab_id: str | None = None
    ref: str | None = None
    priority: int = 0
    deadline: datetime | timedelta | None = None
    callback_url: str | None = None
    project: str | None = None
    requires: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    target: str | None = None
    hold: bool = False
    not_before: datetime | timedelta | None = None
    token_limit: int | None = None
    retry_policy: RetryPolicy | None = None
    idempotency_key: str | None = None
    traceparent: str | None = None
    agent_id: str | None = None

    def to_message(self, agent_id: str, idempotency_key: str) -> pb.SubmitTaskRequest:
        """The request that submits it, for this agent and under this key unless it has its own.

        Raises TypeError or ValueError for what the API cannot express.
        """
        if isinstance(self.requires, str):
            raise TypeError("requires: is a sequence of names, not one name")
        return pb.SubmitTaskRequest(
            agent_id=self.agent_id or agent_id,
            action=self.action,
            tab_id=self.tab_id,
            ref=self.ref,
            params=None if self.params is None else struct_from(self.params),
            priority=self.priority,
            deadline=_point(self.deadline),
            callback_url=self.callback_url,
            project=self.project,
            requires=self.requires,
            labels=self.labels,
            target=self.target,
            hold=self.hold or None,
            not_before=_point(self.not_before),
            token_limit=self.token_limit,
            retry_policy=None if self.retry_policy is None else self.retry_policy.to_message(),
            idempotency_key=self.idempotency_key or idempotency_key,
            traceparent=self.traceparent,
        )

    def to_batch_message(self, idempotency_key: str) -> batch_pb2.BatchTask:
        """The same as a part of a batch, which gives the agent and the callback to all its tasks.

        Raises ValueError where the task names its own, and as `to_message` does.
        """
        if self.agent_id is not None or self.callback_url is not None:
            raise ValueError("agent_id, callback_url: the tasks of a batch share those of the batch")
        # The proto gives both messages the same field numbers.
        return batch_pb2.BatchTask.FromString(self.to_message("", idempotency_key).SerializeToString())

    def to_template(self, agent_id: str) -> schedule_pb2.TaskTemplate:
        """The same as what a schedule submits each time it fires, for this agent unless it names its own.

        Raises ValueError for what only a single task can have, and as `to_message` does.
        """
        for name in ("hold", "not_before", "idempotency_key", "traceparent"):
            if getattr(self, name):
                raise ValueError(f"{name}: is for a single task, a schedule cannot give it to each of its tasks")
        if isinstance(self.deadline, datetime):
            raise ValueError("deadline: of a schedule's tasks is a span, not a point in time")
        message = replace(self, deadline=None).to_message(agent_id, "")
        message.ClearField("idempotency_key")
        # The proto gives both messages the same names.
        template = schedule_pb2.TaskTemplate(**{field.name: value for field, value in message.ListFields()})
        if self.deadline is not None:
            template.deadline_secs = whole_seconds(self.deadline, "deadline")
        return template

    @classmethod
    def from_template(cls, message: schedule_pb2.TaskTemplate) -> NewTask:
        """The task that a schedule submits, as the server tells it."""
        secs = given(message, "deadline_secs")
        return cls(
            action=message.action,
            params=plain_object(message.params) if message.HasField("params") else None,
            tab_id=given(message, "tab_id"),
            ref=given(message, "ref"),
            priority=message.priority,
            deadline=None if secs is None else timedelta(seconds=secs),
            callback_url=given(message, "callback_url"),
            project=given(message, "project"),
            requires=tuple(message.requires),
            labels=dict(message.labels),
            target=given(message, "target"),
            token_limit=given(message, "token_limit"),
            retry_policy=RetryPolicy.from_message(message.retry_policy) if message.HasField("retry_policy") else None,
            agent_id=message.agent_id,
        )


class TaskFields(TypedDict, total=False):
    """What a `NewTask` is made of beside its action, for calls that take it as keywords."""

    params: Mapping[str, Any] | None
    tab_id: str | None
    ref: str | None
    priority: int
    deadline: datetime | timedelta | None
    callback_url: str | None
    project: str | None
    requires: Sequence[str]
    labels: Mapping[str, str]
    target: str | None
    hold: bool
    not_before: datetime | timedelta | None
    token_limit: int | None
    retry_policy: RetryPolicy | None
    idempotency_key: str | None
    traceparent: str | None
    agent_id: str | None


def new_task(task: str | NewTask, fields: TaskFields) -> NewTask:
    """A task from an action and its fields, or from another task, whose fields the given ones replace."""
    return NewTask(task, **fields) if isinstance(task, str) else replace(task, **fields)


@dataclass(frozen=True, slots=True)
class Submitted:
    """A task just after its acceptance. `position` is the number of queued tasks of the namespace just then.

    `state` is `queued` or `pending`; where the idempotency key was known, it is that of the first task.
    """

    task_id: str
    state: TaskState
    position: int
    created_at: datetime

    @classmethod
    def from_message(cls, message: pb.SubmitTaskResponse) -> Submitted:
        """The acceptance as the server tells it."""
        return cls(message.task_id, STATE_OF_NUMBER[message.state], message.position, datetime_from(message.created_at))


def _point(when: datetime | timedelta | None) -> Timestamp | None:
    if when is None:
        return None
    return timestamp_from(datetime.now(UTC) + when if isinstance(when, timedelta) else when)
