"""Tasks to submit, one by one, in a batch or by a schedule, and their acceptance (docs/rules.md, Submitting)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import batch_pb2, schedule_pb2
from taskyard.v1 import task_pb2 as pb

from .present import now
from .tasks import STATE_OF_NUMBER, RetryPolicy, TaskState
from .values import datetime_from, plain_object, struct_from, timestamp_from, whole_seconds


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task to submit. Only `action` is required; None is the server's default.

    Attributes:
        action: The kind of action to run.
        params: Fields for the action, a JSON object.
        tab_id: The browser tab that the action is for.
        ref: The element that the action is for.
        priority: Lower numbers are claimed first among the tasks of the agent. Default 0.
        deadline: When it fails unless it has ended: a time with a time zone, or a span from its submission.
        callback_url: The URL that it is posted to when it ends.
        project: The project that it belongs to.
        requires: The capabilities that its host must have.
        labels: Labels to find it by.
        target: Its serial queue: one task of a target runs at a time.
        hold: Whether it is held back until it is resumed. Default False.
        not_before: When it is due: a time with a time zone, or a span from its submission. Default at once.
        token_limit: The most tokens of a language model that it may use, over all attempts and runs. Default no limit.
        retry_policy: How failed attempts are repeated. Default not at all.
        idempotency_key: A task that is submitted twice under one key is made once. Then give times, since with a span
            the second one is another task. Default a random key.
        traceparent: The W3C trace context.
        agent_id: The agent that submits it. Default the client's.
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
        """Convert to the request that submits it.

        Args:
            agent_id: The agent, unless the task names its own.
            idempotency_key: The key, unless the task has its own.

        Returns:
            The request.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: A field has a value that the API cannot express.
        """
        if isinstance(self.requires, str):
            raise TypeError("requires: is a sequence of names, not one name")
        values = {
            **{name: getattr(self, name) for name in NEW_TASK_FIELDS},
            "agent_id": self.agent_id or agent_id,
            "params": None if self.params is None else struct_from(self.params),
            "deadline": _timestamp(self.deadline),
            "hold": self.hold or None,
            "not_before": _timestamp(self.not_before),
            "retry_policy": None if self.retry_policy is None else self.retry_policy.to_message(),
            "idempotency_key": self.idempotency_key or idempotency_key,
        }
        return pb.SubmitTaskRequest(**values)

    def to_batch_message(self, idempotency_key: str) -> batch_pb2.BatchTask:
        """Convert to a part of a batch, which has the agent and the callback of all its tasks.

        Args:
            idempotency_key: The key, unless the task has its own.

        Returns:
            The part of the request.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: The task has an agent or a callback of its own, or a value that the API cannot express.
        """
        if self.agent_id is not None or self.callback_url is not None:
            raise ValueError("agent_id, callback_url: the tasks of a batch share those of the batch")
        # The proto gives both messages the same field numbers.
        return batch_pb2.BatchTask.FromString(self.to_message("", idempotency_key).SerializeToString())

    def to_template(self, agent_id: str) -> schedule_pb2.TaskTemplate:
        """Convert to the template of the tasks that a schedule submits.

        Args:
            agent_id: The agent, unless the task names its own.

        Returns:
            The template.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: A field is for a single task only, or has a value that the API cannot express.
        """
        for name in ("hold", "not_before", "idempotency_key", "traceparent"):
            if getattr(self, name):
                raise ValueError(f"{name}: is for a single task, a schedule cannot give it to each of its tasks")
        if isinstance(self.deadline, datetime):
            raise ValueError("deadline: of a schedule's tasks is a span, not a point in time")
        message = replace(self, deadline=None).to_message(agent_id, "")
        message.ClearField("idempotency_key")
        # The proto gives both messages the same field names.
        template = schedule_pb2.TaskTemplate(**{field.name: value for field, value in message.ListFields()})
        if self.deadline is not None:
            template.deadline_secs = whole_seconds(self.deadline, "deadline")
        return template

    @classmethod
    def from_template(cls, message: schedule_pb2.TaskTemplate) -> NewTask:
        """Convert the template of a schedule.

        Args:
            message: The template as the server sends it.

        Returns:
            The task that the schedule submits.
        """
        values = {"action": message.action, **{each.name: value for each, value in message.ListFields()}}
        if "deadline_secs" in values:
            values["deadline"] = timedelta(seconds=values.pop("deadline_secs"))
        for name, convert in FROM_MESSAGE.items():
            if name in values:
                values[name] = convert(values[name])
        return cls(**values)


NEW_TASK_FIELDS: Final = tuple(each.name for each in fields(NewTask))
"""The names that a task has in the API too."""
FROM_MESSAGE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "params": plain_object,
    "requires": tuple,
    "labels": dict,
    "retry_policy": RetryPolicy.from_message,
}
"""How the values of a message are converted that are not plain."""


class TaskFields(TypedDict, total=False):
    """The fields of a `NewTask` except its action, for calls that take them as keywords. `NewTask` documents them."""

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
    """Make a task from an action, or from another task.

    Args:
        task: The action, or a task whose fields are the defaults.
        fields: The fields that are set.

    Returns:
        The task.
    """
    return NewTask(task, **fields) if isinstance(task, str) else replace(task, **fields)


@dataclass(frozen=True, slots=True)
class Submitted:
    """The acceptance of a task.

    Attributes:
        task_id: The task's id.
        state: `queued` or `pending`. If the idempotency key was known, the state of the first task.
        position: The number of queued tasks of the namespace at that moment.
        created_at: When it was accepted.
    """

    task_id: str
    state: TaskState
    position: int
    created_at: datetime

    @classmethod
    def from_message(cls, message: pb.SubmitTaskResponse) -> Submitted:
        """Convert a message.

        Args:
            message: The acceptance as the server sends it.

        Returns:
            The acceptance.
        """
        return cls(message.task_id, STATE_OF_NUMBER[message.state], message.position, datetime_from(message.created_at))


def _timestamp(at: datetime | timedelta | None) -> Timestamp | None:
    if at is None:
        return None
    return timestamp_from(now() + at if isinstance(at, timedelta) else at)
