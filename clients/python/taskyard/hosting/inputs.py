"""The inputs of a task as its handler takes them: the results of other tasks, by name (docs/rules.md, Inputs)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from taskyard.records.artifacts import Artifact
from taskyard.records.tasks import STATE_OF_NUMBER, TaskState
from taskyard.v1.input_pb2 import Input
from taskyard.values.convert import optional, plain_value
from taskyard.values.payloads import BadValue, Codec, decode_value

from .annotations import InputParameter
from .outcomes import Misfit


@dataclass(frozen=True, slots=True)
class TaskInput:
    """A task whose result is handed to another one, as it was when that began.

    Attributes:
        task_id: The task.
        state: Its state: done, or another end where `after_policy` is `"ended"`. None if the server no longer keeps it.
        error: Why it failed.
        artifacts: Its artifacts, which `RunningTask.read_artifact` reads.
        value: Its result as plain JSON, None unless it is done.
    """

    task_id: str
    state: TaskState | None = TaskState.DONE
    error: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    value: Any = None


class TaskInputs(Mapping[str, TaskInput]):
    """The inputs of a task by name, sorted. Each is read when it is asked for.

    Args:
        messages: The inputs as they came along with the task.
        codec: The codec of the host, None for none.
    """

    def __init__(self, messages: Mapping[str, Input], codec: Codec | None) -> None:
        self._messages = messages
        self._codec = codec
        self._found: dict[str, TaskInput] = {}

    def __getitem__(self, name: str) -> TaskInput:
        if name not in self._found:
            if name not in self._messages:
                raise KeyError(name)
            message = self._messages[name]
            self._found[name] = TaskInput(
                message.task_id,
                STATE_OF_NUMBER.get(message.state),
                optional(message, "error"),
                tuple(Artifact.from_message(each) for each in message.artifacts),
                self._value(name, Any),
            )
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._messages))

    def __len__(self) -> int:
        return len(self._messages)

    def arguments(self, parameters: Iterable[InputParameter]) -> dict[str, Any]:
        """Read the inputs that a handler takes.

        Args:
            parameters: Its parameters for them.

        Returns:
            The values by name. Those that have none are left out, for their defaults.

        Raises:
            Misfit: One does not fit, or has no value although its parameter has no default.
        """
        found = {}
        for name, kind, is_required in parameters:
            message = self._messages.get(name)
            state = None if message is None else STATE_OF_NUMBER.get(message.state)
            if state is TaskState.DONE:
                found[name] = self._value(name, kind)
                continue
            if message is None:
                problem = "is missing: the task was submitted without it"
            else:
                became = "is no longer kept" if state is None else f"is {state}"
                problem = f"has no value: its task {message.task_id} {became}"
            if is_required:
                raise Misfit(f"the input {name!r} {problem}")
        return found

    def _value(self, name: str, kind: Any) -> Any:
        message = self._messages[name]
        plain = plain_value(message.result) if message.HasField("result") else None
        try:
            return decode_value(kind, plain, message.output if message.HasField("output") else None, self._codec)
        # A parameter with a default may have a type that cannot be sent.
        except (BadValue, TypeError) as error:
            raise Misfit(f"the input {name!r} does not fit: {error}") from None
