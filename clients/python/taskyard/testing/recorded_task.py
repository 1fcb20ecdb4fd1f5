"""The task of a unit test: a handler is called with it as a host would call it, and what it reports is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from taskyard.hosting.actions import Actions, Registered
from taskyard.hosting.inputs import TaskInput
from taskyard.hosting.invocation import call_plainly, invoke
from taskyard.hosting.running_task import NO_INPUTS, RunningTask
from taskyard.records.output import OutputChunk
from taskyard.records.questions import Question, Wait, WaitFor
from taskyard.records.tasks import Attempt, Progress, Task, TaskState
from taskyard.v1 import artifact_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.input_pb2 import Input
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.runtime_host_pb2 import Report
from taskyard.v1.wait_pb2 import NewWait
from taskyard.values import present
from taskyard.values.convert import plain_value, struct_from, timestamp_from, value_from
from taskyard.values.payloads import MISSING, BadValue, Codec, decode_value, encode_value
from taskyard.values.shapes import shape_of

from .recorded_parts import RecordedArtifacts, RecordedChildren, RecordedOutput, RecordedSteps

if TYPE_CHECKING:
    from taskyard.action import Action

NAME: Final = "test"
WAITS: Final = {"question": WaitFor.ANSWER, "sleep_secs": WaitFor.TIME, "ends": WaitFor.ENDS, "event": WaitFor.EVENT}
QUESTION_SECS: Final = 604_800
"""How long a question that says nothing else can be answered."""


@dataclass(frozen=True, slots=True)
class HandlerOutcome:
    """How a handler has ended, as its host would report it.

    Attributes:
        result: What it returned, as JSON; of a typed action in its type. None if it failed.
        error: Why it failed, None if it did not.
        code: The kind of failure.
        is_retryable: Whether another attempt could help.
        retry_after: After what time it asked for another attempt, None if it did not.
        is_stopped: Whether it was stopped before it had an outcome.
        is_parked: Whether it waits without a slot.
        waits: What it waits for then.
    """

    result: Any = None
    error: str | None = None
    code: str | None = None
    is_retryable: bool = True
    retry_after: timedelta | None = None
    is_stopped: bool = False
    is_parked: bool = False
    waits: tuple[Wait, ...] = ()


class RecordedTask(RunningTask):
    """A task that a unit test hands to a handler. `running_task` makes it.

    Attributes:
        progress_reports: The progress that the handler has reported, in order.
        chunks: What the handler has said, in order, as readers of its output get it.
        artifacts: The bytes of its artifacts by name: what the handler has put, and what the test puts there for it.
            Those of the input `page` have names such as `page/shot.png`.
        steps: The results of its steps as JSON, by name: what the handler has recorded, and what the test puts there as
            what an earlier attempt has.
        answers: The answers to its questions by their ids, which the test puts there.
        events: The payloads of the events that came, by the names of its waits, which the test puts there.
        came: The names of what is over that it has slept for or joined, which the test puts there.
        children: What it has submitted as its children, by name: actions and params.
        outcome: How the last `run` has ended, None before.

    Args:
        task: The task.
        fencing_token: The fencing token of its lease.
        state: What the host's lifespan would yield.
        value: The input.
        inputs: The inputs by name.
        steps: The results of the steps that there are.
        answers: The answers that there are.
        events: The payloads of events that there are.
        came: The names of what is over.
        children: The results of its children that have ended.
    """

    __slots__ = ("answers", "artifacts", "came", "children", "chunks", "events", "outcome", "progress_reports", "steps")

    def __init__(
        self,
        task: Task,
        fencing_token: int,
        state: Any,
        value: Any,
        inputs: Mapping[str, TaskInput],
        steps: Mapping[str, Any],
        answers: Mapping[str, Any],
        events: Mapping[str, Any],
        came: Iterable[str],
        children: Mapping[str, Any],
    ) -> None:
        self.chunks: list[OutputChunk] = []
        self.artifacts: dict[str, bytes] = {}
        artifacts = RecordedArtifacts(self.artifacts, task)
        self.steps = dict(steps)
        self.answers, self.events, self.came = dict(answers), dict(events), set(came)
        its = RecordedChildren(children)
        self.children = its.submitted
        kept = RecordedSteps(self.steps, self.answers, self.events, self.came, its)
        output = RecordedOutput(self.chunks, task)
        super().__init__(task, fencing_token, self._take, state, output, lambda: artifacts, lambda: kept)
        self.blocks = True
        self.take_input(value)
        self.inputs = inputs
        self.progress_reports: list[Progress] = []
        self.outcome: HandlerOutcome | None = None

    def cancel(self) -> None:
        """Tell the handler that its work is no longer wanted: `cancelled` is set, `check` and `progress` raise once."""
        self.cancelled = self.raises = True

    async def run(
        self,
        handler: Callable[..., Any],
        action: Action[Any, Any] | None = None,
        codec: Codec | None = None,
    ) -> HandlerOutcome:
        """Run a handler as a host does: the input is checked, and what it returns or raises becomes an outcome.

        A plain function runs in a thread.

        Args:
            handler: The handler.
            action: The typed action that it handles. Default none: it takes the task alone.
            codec: The codec of input and output. Default none.

        Returns:
            How it has ended.

        Raises:
            TypeError: The handler does not fit the action.
        """
        self._run_steps = self._run_waits = None
        self.raises = self.cancelled
        actions = Actions()
        is_async = asyncio.iscoroutinefunction(handler)
        actions.add(self.action, handler, action=action, runs_in="loop" if is_async else "thread")
        registered = actions.handler(self.action)
        call = _call_here if is_async else _call_in_thread
        inputs = {name: _input_message(each, codec) for name, each in self.inputs.items()}
        assignment = Assignment(task=_message(self.input, action, codec), inputs=inputs)
        report = await invoke(assignment, self, registered, (), codec, call)
        self.outcome = _outcome(report, registered, codec)
        return self.outcome

    @property
    def waits(self) -> tuple[Wait, ...]:
        """The waits of the task, once it is parked."""
        return () if self._run_waits is None else tuple(map(_wait, self._run_waits.waits))

    @property
    def _may_wait(self) -> bool:
        return asyncio._get_running_loop() is not None

    def _take(self, report: Report) -> None:
        self.progress_reports.append(Progress.from_message(report.progress))

    def _deliver(self, report: Report) -> None:
        self._take(report)


def running_task(
    input: Any = None,  # noqa: A002 - the name that it has everywhere
    /,
    *,
    action: str | Action[Any, Any] = NAME,
    attempt: int = 1,
    checkpoint: Mapping[str, Any] | None = None,
    state: Any = None,
    fencing_token: int = 1,
    inputs: Mapping[str, Any] = NO_INPUTS,
    steps: Mapping[str, Any] = NO_INPUTS,
    answers: Mapping[str, Any] = NO_INPUTS,
    events: Mapping[str, Any] = NO_INPUTS,
    came: Iterable[str] = (),
    children: Mapping[str, Any] = NO_INPUTS,
    **fields: Any,
) -> RecordedTask:
    """Make a task for a unit test, which hands it to a handler: no server is needed.

    Args:
        input: The input of a typed action, or the params of another. Default no params.
        action: The action, or its name. Default `test`.
        attempt: Which attempt this is. Default 1.
        checkpoint: What the attempt before has reported as details of its progress. Default nothing.
        state: What the host's lifespan has yielded. Default None.
        fencing_token: The fencing token. Default 1.
        inputs: The results of other tasks that are handed to it, by name; a `TaskInput` for a task that failed, or that
            has artifacts. Default none.
        steps: The results of the steps that earlier attempts have recorded, by name. Default none.
        answers: The answers to its questions, by their ids. Default none.
        events: The payloads of the events that came, by the names of its waits. Default none.
        came: The names of what is over that it sleeps for or joins, such as `sleep`. Default none.
        children: The results of its children that have ended, by name; an exception for one that failed. Default none.
        **fields: Other fields of `Task`, such as `labels`, `target` or `deadline`.

    Returns:
        The task. It records what is reported.

    Raises:
        ValueError: The attempt is below 1, or an input is no JSON.
        TypeError: A field is unknown.
    """
    if attempt < 1:
        raise ValueError(f"attempt: is 1 or more, not {attempt}")
    value = {} if input is None else input
    handed = MappingProxyType({name: _input(name, each) for name, each in inputs.items()})
    now = present.now()
    values: dict[str, Any] = {
        "id": "tsk_test",
        "agent_id": "tester",
        "action": action if isinstance(action, str) else action.name,
        "state": TaskState.RUNNING,
        "created_at": now,
        "started_at": now,
        "params": _plain(value),
        "attempts": tuple(
            Attempt(number, "host-1", now, None if number == attempt else now) for number in range(1, attempt + 1)
        ),
        "progress": None if checkpoint is None else Progress(details=dict(checkpoint)),
        "steps": len(steps),
        "inputs": {name: each.task_id for name, each in handed.items()},
    }
    task = Task(**{**values, **fields})
    return RecordedTask(task, fencing_token, state, value, handed, steps, answers, events, came, children)


def _plain(value: Any) -> dict[str, Any]:
    """The params that the input would be, empty if it cannot be plain."""
    if isinstance(value, dict):
        return value
    try:
        plain = encode_value(value, type(value), None, is_object=True).plain
    except (BadValue, TypeError):
        return {}
    return plain if isinstance(plain, dict) else {}


def _input(name: str, value: Any) -> TaskInput:
    if isinstance(value, TaskInput):
        return value
    return TaskInput(f"tsk_{name}", value=msgspec.json.decode(shape_of(Any).write(value)))


def _input_message(handed: TaskInput, codec: Codec | None) -> Input:
    encoded = encode_value(handed.value, Any, codec, is_object=False)
    return Input(
        task_id=handed.task_id,
        state=None if handed.state is None else pb.Task.State.Value(handed.state.value),
        error=handed.error,
        result=None if encoded.plain in (None, MISSING) else value_from(encoded.plain),
        output=encoded.payload,
        artifacts=[
            artifact_pb2.Artifact(
                name=each.name,
                media_type=each.media_type,
                size_bytes=each.size_bytes,
                sha256=each.sha256,
                attempt=each.attempt,
                created_at=timestamp_from(each.created_at),
            )
            for each in handed.artifacts
        ],
    )


def _message(value: Any, action: Action[Any, Any] | None, codec: Codec | None) -> pb.Task:
    try:
        encoded = encode_value(value, Any if action is None else action.input_type, codec, is_object=True)
    except BadValue:
        # It comes as it is, and the handler's side refuses it.
        encoded = encode_value(value, Any, codec, is_object=True)
    if encoded.payload is not None:
        return pb.Task(input=encoded.payload)
    return pb.Task(params=None if encoded.plain in (None, MISSING) else struct_from(encoded.plain))


async def _call_here(function: Callable[..., Any], *args: Any) -> Any:
    return await function(*args)


async def _call_in_thread(function: Callable[..., Any], *args: Any) -> Any:
    return await asyncio.to_thread(call_plainly, function, *args)


def _outcome(report: Report | None, registered: Registered | None, codec: Codec | None) -> HandlerOutcome:
    if report is None:
        return HandlerOutcome(is_stopped=True)
    if report.HasField("parked"):
        return HandlerOutcome(is_parked=True, waits=tuple(map(_wait, report.parked.waits)))
    if report.HasField("failed"):
        failed = report.failed
        return HandlerOutcome(
            error=failed.error,
            code=failed.code or None,
            is_retryable=failed.retryable if failed.HasField("retryable") else True,
            retry_after=timedelta(milliseconds=failed.retry_after_ms) if failed.HasField("retry_after_ms") else None,
        )
    done = report.completed
    kind = registered.output_type if registered is not None and registered.is_typed else Any
    plain = plain_value(done.result) if done.HasField("result") else None
    payload = done.output if done.HasField("output") else None
    return HandlerOutcome(result=decode_value(kind, plain, payload, codec))


def _wait(new: NewWait) -> Wait:
    """A wait that a host would report, as the server would show it."""
    kind = WAITS[new.WhichOneof("awaited") or ""]
    secs = new.sleep_secs if kind is WaitFor.TIME else new.timeout_secs if new.HasField("timeout_secs") else None
    if secs is None and kind is WaitFor.ANSWER:
        secs = QUESTION_SECS
    return Wait(
        kind,
        new.name,
        until=None if secs is None else present.now() + timedelta(seconds=secs),
        question=Question.from_message(new.question) if kind is WaitFor.ANSWER else None,
        task_ids=tuple(new.ends.task_ids),
        event=new.event.name if kind is WaitFor.EVENT else None,
    )
