"""The task of a unit test: a handler is called with it as a host would call it, and what it reports is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from taskyard.calls.artifacts import Content, media_type_of
from taskyard.errors import NotFound
from taskyard.hosting.actions import Actions, Registered
from taskyard.hosting.artifact_work import place_of
from taskyard.hosting.inputs import TaskInput
from taskyard.hosting.invocation import call_plainly, invoke
from taskyard.hosting.running_task import NO_INPUTS, RunningTask
from taskyard.records.artifacts import Artifact
from taskyard.records.output import OutputChunk, data_of
from taskyard.records.tasks import Attempt, Progress, Task, TaskState
from taskyard.v1 import artifact_pb2
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.input_pb2 import Input
from taskyard.v1.lease_pb2 import Assignment
from taskyard.v1.output_pb2 import NewChunk
from taskyard.v1.runtime_host_pb2 import Report
from taskyard.v1.step_pb2 import Step
from taskyard.values import present
from taskyard.values.convert import plain_value, struct_from, timestamp_from, value_from
from taskyard.values.payloads import MISSING, BadValue, Codec, decode_value, encode_value
from taskyard.values.shapes import shape_of

if TYPE_CHECKING:
    from taskyard.action import Action

NAME: Final = "test"


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
    """

    result: Any = None
    error: str | None = None
    code: str | None = None
    is_retryable: bool = True
    retry_after: timedelta | None = None
    is_stopped: bool = False


class RecordedOutput:
    """The output of the task of a unit test. There is always room.

    Attributes:
        refusal: Empty, since everything is taken.

    Args:
        chunks: Where what is said is put.
        task: The task.
    """

    def __init__(self, chunks: list[OutputChunk], task: Task) -> None:
        self.refusal = ""
        self._chunks = chunks
        self._attempt = task.attempts[-1].number if task.attempts else 1

    def take(self, chunk: NewChunk, size: int) -> bool:
        """Record a chunk.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            True.
        """
        del size
        number = len(self._chunks) + 1
        self._chunks.append(OutputChunk(number, chunk.channel, data_of(chunk), self._attempt, present.now()))
        return True

    take_over = wait = take

    async def wait_here(self, chunk: NewChunk, size: int) -> bool:
        """As `take`.

        Args:
            chunk: The chunk.
            size: Its bytes.

        Returns:
            True.
        """
        return self.take(chunk, size)

    def stop(self) -> None:
        """Do nothing, since nothing waits."""

    def end(self) -> None:
        """Do nothing: what is said later is recorded, too."""


class RecordedArtifacts:
    """The artifacts of the task of a unit test.

    Args:
        kept: Their bytes by name.
        task: The task.
    """

    def __init__(self, kept: dict[str, bytes], task: Task) -> None:
        self._kept = kept
        self._attempt = task.attempts[-1].number if task.attempts else 1

    def put(self, name: str, content: Content, media_type: str | None) -> Artifact:
        """Keep an artifact.

        Args:
            name: Its name.
            content: Its bytes, or the file that has them.
            media_type: Its media type, None for what the name says.

        Returns:
            The artifact.
        """
        data = self._kept[name] = content.read_bytes() if isinstance(content, Path) else bytes(content)
        found, hashed = media_type_of(name, content, media_type), sha256(data).hexdigest()
        return Artifact(name, found, len(data), hashed, self._attempt, present.now())

    def read(self, name: str, of: str = "") -> bytes:
        """Read an artifact.

        Args:
            name: Its name.
            of: The input whose artifact it is. Default it is one of the task itself.

        Returns:
            Its bytes.

        Raises:
            NotFound: There is none.
        """
        place = place_of(name, of)
        if place not in self._kept:
            raise NotFound("artifact not found")
        return self._kept[place]


class RecordedSteps:
    """The steps of the task of a unit test.

    Attributes:
        codec: None.

    Args:
        kept: Their results by name.
    """

    def __init__(self, kept: dict[str, Any]) -> None:
        self.codec: Codec | None = None
        self._kept = kept

    def may_have(self, name: str) -> bool:
        """Find out whether there is a step.

        Args:
            name: Its name.

        Returns:
            Whether there is.
        """
        return name in self._kept

    def find(self, name: str) -> Step | None:
        """Find a step.

        Args:
            name: Its name.

        Returns:
            The step, None if there is none.
        """
        if name not in self._kept:
            return None
        return Step(name=name, output=pb.Payload(data=shape_of(Any).write(self._kept[name])))

    def record(self, step: Step) -> Step:
        """Keep the result of a step, as JSON.

        Args:
            step: The step.

        Returns:
            The step.
        """
        self._kept[step.name] = decode_value(
            Any, plain_value(step.result), step.output if step.HasField("output") else None, None
        )
        return step


class RecordedTask(RunningTask):
    """A task that a unit test hands to a handler. `running_task` makes it.

    Attributes:
        progress_reports: The progress that the handler has reported, in order.
        chunks: What the handler has said, in order, as readers of its output get it.
        artifacts: The bytes of its artifacts by name: what the handler has put, and what the test puts there for it.
            Those of the input `page` have names such as `page/shot.png`.
        steps: The results of its steps as JSON, by name: what the handler has recorded, and what the test puts there as
            what an earlier attempt has.
        outcome: How the last `run` has ended, None before.

    Args:
        task: The task.
        fencing_token: The fencing token of its lease.
        state: What the host's lifespan would yield.
        value: The input.
        inputs: The inputs by name.
        steps: The results of the steps that there are.
    """

    __slots__ = ("artifacts", "chunks", "outcome", "progress_reports", "steps")

    def __init__(
        self,
        task: Task,
        fencing_token: int,
        state: Any,
        value: Any,
        inputs: Mapping[str, TaskInput],
        steps: Mapping[str, Any],
    ) -> None:
        self.chunks: list[OutputChunk] = []
        self.artifacts: dict[str, bytes] = {}
        artifacts = RecordedArtifacts(self.artifacts, task)
        self.steps = dict(steps)
        kept, output = RecordedSteps(self.steps), RecordedOutput(self.chunks, task)
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
        self._run_steps = None
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
    return RecordedTask(Task(**{**values, **fields}), fencing_token, state, value, handed, steps)


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
