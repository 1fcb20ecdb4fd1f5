"""Tasks to submit, one by one, in a batch or by a schedule (docs/rules.md, Submitting)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final, Unpack

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import batch_pb2, schedule_pb2
from taskyard.v1 import task_pb2 as pb

from .action import Action, I
from .hosting.child_work import Child
from .records.submitted import Submitted
from .records.tasks import Task
from .retry_policy import RetryPolicy
from .values.choices import AfterPolicy, OnConflict, OnParentEnd, OnTargetFailure, UniqueWhile
from .values.convert import fill_struct, milliseconds, plain_object, timestamp_from, whole_seconds
from .values.payloads import MISSING, BadValue, Codec, Payload, encode_value
from .values.present import now
from .values.task_fields import ActionFields, Predecessor, check, known, shown


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
        run_timeout: How long each attempt may run, from its start: a longer one ends, and is repeated as `retry_policy`
            says. Default as long as the deadline allows.
        parent_id: The task whose work submits it. Default that of the handler that submits it, if one does; an empty
            text is none.
        input: The input of a typed action that `params` cannot hold exactly, see `task_of`.
        concurrency_keys: Keys that it shares with other tasks, at most 4, such as `site:example.org`: a limit on a key
            bounds how many tasks of it are in flight, or begin a second, see `Limits`.
        after: Tasks that must have ended before it is due, at most 32: their ids, handles or tasks; in a batch also
            `NewTask`s that stand before it in the same batch.
        after_policy: What it asks of those, and of its inputs: `"success"`, that they end as done, else it is
            cancelled; or `"ended"`, however they end. Default `"success"`.
        unique_key: While another task of the agent has this key, `on_conflict` says what happens. Default none.
        unique_while: For how long it has its key: `"queued"`, while it waits, or `"live"`, until it has ended. Default
            `"live"`.
        on_conflict: What happens when its key is taken: `"existing"`, the answer is the task that has it, `"reject"`,
            `AlreadyExists` is raised, or `"replaceQueued"`, the task that has it is cancelled if it waits, and else is
            the answer. Default `"existing"`.
        on_target_failure: What becomes of its target if it fails after its start: `"block"`, the target waits until it
            is resumed, resolved or cancelled, or `"continue"`. Default what the settings say of the target, else
            `"block"`.
        selector: The element that the action is for, as a selector such as `#btn`.
        inputs: Tasks whose results are handed to it, by a name for each, see `RunningTask.inputs`: it comes after them,
            as after those of `after`, with which they are at most 32. Default none.
        on_parent_end: What becomes of it when its parent ends: `"keep"`, it goes on, or `"cancel"`, it is cancelled,
            and then the parent must not have ended. Default `"keep"`.
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
    run_timeout: timedelta | None = None
    parent_id: str | None = None
    input: Payload | None = None
    concurrency_keys: Sequence[str] = ()
    after: Sequence[Predecessor] = ()
    after_policy: AfterPolicy | None = None
    unique_key: str | None = None
    unique_while: UniqueWhile | None = None
    on_conflict: OnConflict | None = None
    on_target_failure: OnTargetFailure | None = None
    selector: str | None = None
    inputs: Mapping[str, Predecessor] = field(default_factory=dict)
    on_parent_end: OnParentEnd | None = None

    def to_message(
        self, agent_id: str, idempotency_key: str, codec: Codec | None = None, parent_id: str = ""
    ) -> pb.SubmitTaskRequest:
        """Convert to the request that submits it.

        Args:
            agent_id: The agent, unless the task names its own.
            idempotency_key: The key, unless the task has its own.
            codec: Encodes the input. Default none.
            parent_id: The parent, unless the task names its own. Default none.

        Returns:
            The request.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: A field has a value that the API cannot express.
        """
        return request_of(self._set_fields(), agent_id, idempotency_key, codec, parent_id)

    def to_batch_message(
        self,
        idempotency_key: str,
        codec: Codec | None = None,
        parent_id: str = "",
        before: Sequence[NewTask] = (),
    ) -> batch_pb2.BatchTask:
        """Convert to a part of a batch, which has the agent and the callback of all its tasks.

        Args:
            idempotency_key: The key, unless the task has its own.
            codec: Encodes the input. Default none.
            parent_id: The parent, unless the task names its own. Default none.
            before: The tasks that stand before it in the batch, which it may come after. Default none.

        Returns:
            The part of the request.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: The task has an agent or a callback of its own, comes after one that does not stand before it,
                or has a value that the API cannot express.
        """
        if self.agent_id is not None or self.callback_url is not None:
            raise ValueError("agent_id, callback_url: the tasks of a batch share those of the batch")
        alone, after, inputs = self, [], {}
        if isinstance(self.after, Iterable) and (after := [each for each in self.after if isinstance(each, NewTask)]):
            alone = replace(alone, after=[each for each in self.after if not isinstance(each, NewTask)])
        if isinstance(self.inputs, Mapping) and (inputs := _near(self.inputs)):
            alone = replace(alone, inputs={name: each for name, each in self.inputs.items() if name not in inputs})
        # The proto gives both messages the same field numbers.
        message = batch_pb2.BatchTask.FromString(
            alone.to_message("", idempotency_key, codec, parent_id).SerializeToString()
        )
        message.after_indexes.extend(_place(each, before, "after") for each in after)
        message.input_indexes.update({name: _place(each, before, f"inputs.{name}") for name, each in inputs.items()})
        return message

    def to_template(self, agent_id: str, codec: Codec | None = None) -> schedule_pb2.TaskTemplate:
        """Convert to the template of the tasks that a schedule submits.

        Args:
            agent_id: The agent, unless the task names its own.
            codec: Encodes the input. Default none.

        Returns:
            The template.

        Raises:
            TypeError: A field has a type that the API cannot express.
            ValueError: A field is for a single task only, or has a value that the API cannot express.
        """
        for name in OF_ONE_TASK:
            if getattr(self, name):
                raise ValueError(f"{name}: is for a single task, a schedule cannot give it to each of its tasks")
        if isinstance(self.deadline, datetime):
            raise ValueError("deadline: of a schedule's tasks is a span, not a point in time")
        message = replace(self, deadline=None).to_message(agent_id, "", codec)
        message.ClearField("idempotency_key")
        # The proto gives both messages the same field names.
        template = schedule_pb2.TaskTemplate(**{field.name: value for field, value in message.ListFields()})
        if self.deadline is not None:
            check(self._set_fields())
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
        if "run_timeout_ms" in values:
            values["run_timeout"] = timedelta(milliseconds=values.pop("run_timeout_ms"))
        for name, convert in FROM_MESSAGE.items():
            if name in values:
                values[name] = convert(values[name])
        return cls(**values)

    def _set_fields(self) -> dict[str, Any]:
        """The action, and the fields that have another value than the default. Most tasks set few of them."""
        found = zip(NAMES, VALUES_OF(self), DEFAULTS, strict=True)
        return {name: value for name, value, default in found if value is not default}


NAMES: Final = tuple(each.name for each in fields(NewTask))
VALUES_OF: Final = attrgetter(*NAMES)
DEFAULTS: Final = tuple(each.default for each in fields(NewTask))
FROM_MESSAGE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "params": plain_object,
    "requires": tuple,
    "labels": dict,
    "retry_policy": RetryPolicy.from_message,
    "input": Payload.from_message,
    "concurrency_keys": tuple,
}
"""How the values of a message are converted that are not plain."""
OF_ONE_TASK: Final = (
    *("hold", "not_before", "idempotency_key", "traceparent", "parent_id", "on_parent_end"),
    *("after", "after_policy", "inputs", "unique_key", "unique_while", "on_conflict"),
)
"""The fields that a schedule cannot give to each of its tasks."""


def request_of(
    values: dict[str, Any], agent_id: str, idempotency_key: str, codec: Codec | None = None, parent_id: str = ""
) -> pb.SubmitTaskRequest:
    """Make the request that submits a task.

    Args:
        values: Its action, and the fields that are set, by their names in `NewTask`. They are changed.
        agent_id: The agent, unless the task names its own.
        idempotency_key: The key, unless the task has its own.
        codec: Encodes the input. Default none.
        parent_id: The parent, unless the task names its own. Default none.

    Returns:
        The request.

    Raises:
        TypeError: A field has a type that the API cannot express.
        ValueError: A field has a value that the API cannot express.
    """
    check(values)
    params, payload = _carried(values.pop("params", None), values.pop("input", None), codec)
    if not values.get("agent_id"):
        values["agent_id"] = agent_id
    if not values.get("idempotency_key"):
        values["idempotency_key"] = idempotency_key
    if values.get("parent_id") is None:
        values["parent_id"] = parent_id
    values["parent_id"] = values["parent_id"] or None
    values.setdefault("priority", 0)
    if payload is not None:
        values["input"] = payload.to_message()
    for name in values.keys() & TO_MESSAGE.keys():
        values[name] = TO_MESSAGE[name](values[name])
    if (run_timeout := values.pop("run_timeout", None)) is not None:
        values["run_timeout_ms"] = milliseconds(run_timeout)
    request = pb.SubmitTaskRequest(**values)
    if params is not None:
        # An empty object is params too.
        request.params.SetInParent()
        fill_struct(request.params, params, "params")
    return request


def _carried(
    params: Mapping[str, Any] | None, given: Payload | None, codec: Codec | None
) -> tuple[Mapping[str, Any] | None, Payload | None]:
    """The params and the input for the wire. With a codec everything is in the input."""
    if codec is None or (given is not None and given.encoding) or (given is None and params is None):
        return params, given
    try:
        data = msgspec.json.encode(params) if given is None else given.data
    except (TypeError, OverflowError) as error:
        raise TypeError(f"params: {error}") from None
    return None, Payload(codec.encode(data), codec.name)


def new_task(task: str | NewTask, fields: Mapping[str, Any]) -> NewTask:
    """Make a task from an action, or from another task.

    Args:
        task: The action, or a task whose fields are the defaults.
        fields: The fields that are set.

    Returns:
        The task.

    Raises:
        TypeError: A field is unknown, or the task is neither a text nor a task.
    """
    given = known(fields)
    if isinstance(task, str):
        return NewTask(task, **given)
    if not isinstance(task, NewTask):
        raise TypeError(f"task: is a text, a NewTask or an Action, not {shown(task)}")
    return replace(task, **given)


def common_task(action: str, fields: Mapping[str, Any]) -> NewTask:
    """Make what the tasks of several inputs share, and check it once for all of them.

    Args:
        action: The action.
        fields: The fields that are set.

    Returns:
        The task, without an input.

    Raises:
        TypeError: A field is unknown, has a type that the API cannot express, or is the input.
        ValueError: A field has a value that the API cannot express.
    """
    for name in ("params", "input"):
        if name in fields:
            raise TypeError(f"{name}: stands among the inputs, the second argument")
    task = new_task(action, fields)
    check(task._set_fields())
    _task_ids(task.after)
    _input_ids(task.inputs)
    return task


def task_of(action: Action[I, Any], value: I, /, **fields: Unpack[ActionFields]) -> NewTask:
    """Make a task of a typed action: for a batch or a schedule, where `Client.submit` is not called.

    Args:
        action: The action.
        value: Its input.
        **fields: Fields of the task, in the place of the action's defaults.

    Returns:
        The task.

    Raises:
        BadValue: The input does not fit.
        TypeError: A field is unknown, or the action was made without its types.
    """
    try:
        encoded = encode_value(value, action.input_type, None, is_object=True)
    except BadValue as error:
        joint = "." if error.path and not error.path.startswith("[") else ""
        raise BadValue(f"{error.reason} (action {action.name!r})", f"input{joint}{error.path}") from error
    given = known(fields)
    if "params" in given:
        raise TypeError(f"params: the input of {action.name!r} is the second argument")
    values = {**action.fields_for(value), **given}
    if encoded.payload is not None:
        return NewTask(action.name, input=Payload.from_message(encoded.payload), **values)
    return NewTask(action.name, params=None if encoded.plain is MISSING else encoded.plain, **values)


def _timestamp(at: datetime | timedelta | None, name: str) -> Timestamp | None:
    if at is None:
        return None
    if isinstance(at, datetime) and at.utcoffset() is None:
        raise ValueError(f"{name}: {at!r} must have a time zone, such as datetime.now(UTC) has")
    return timestamp_from(now() + at if isinstance(at, timedelta) else at)


def _task_ids(tasks: Sequence[Predecessor]) -> list[str]:
    """The ids of tasks to come after."""
    if isinstance(tasks, str) or not isinstance(tasks, Iterable):
        raise TypeError(f"after: is a sequence of tasks, not {shown(tasks)}")
    return [_task_id(each, "after") for each in tasks]


def _input_ids(tasks: Mapping[str, Predecessor] | None) -> dict[str, str]:
    """The ids of the tasks whose results are handed on, by name."""
    return {name: _task_id(each, f"inputs.{name}") for name, each in (tasks or {}).items()}


TO_MESSAGE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "deadline": lambda at: _timestamp(at, "deadline"),
    "hold": lambda is_held: is_held or None,
    "not_before": lambda at: _timestamp(at, "not_before"),
    "retry_policy": lambda policy: None if policy is None else policy.to_message(),
    "after": _task_ids,
    "inputs": _input_ids,
}
"""How the values of fields are converted that are not the same in the API."""


def _task_id(task: Predecessor, field_name: str) -> str:
    match task:
        case str():
            return task
        case Submitted() | Task() | Child():
            return task.id
        case NewTask():
            raise ValueError(
                f"{field_name}: {task.action!r} was not submitted; a NewTask is for tasks of the same batch"
            )
    raise TypeError(f"{field_name}: takes ids, handles and tasks, not {shown(task)}")


def _near(tasks: Mapping[str, Predecessor]) -> dict[str, NewTask]:
    """Those that stand in the same batch. A key that is no name is left for the check of all fields."""
    return {name: each for name, each in tasks.items() if isinstance(each, NewTask) and isinstance(name, str)}


def _place(task: NewTask, before: Sequence[NewTask], field_name: str) -> int:
    """Where a task stands in its batch. Equal ones are told apart."""
    places = [place for place, each in enumerate(before) if each is task]
    if len(places) != 1:
        problem = "stands several times" if places else "does not stand"
        raise ValueError(f"{field_name}: {task.action!r} {problem} in the batch before the task that comes after it")
    return places[0]
