"""Output, artifacts, steps and children of the task of a unit test."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from taskyard.calls.artifacts import Content, media_type_of
from taskyard.errors import NotFound
from taskyard.hosting.artifact_work import place_of
from taskyard.hosting.step_work import WORK
from taskyard.new_tasks import NewTask
from taskyard.records.artifacts import Artifact
from taskyard.records.output import OutputChunk, data_of
from taskyard.records.tasks import Task
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.input_pb2 import Input
from taskyard.v1.output_pb2 import NewChunk
from taskyard.v1.step_pb2 import Step
from taskyard.values import present
from taskyard.values.convert import plain_object, plain_value, value_from
from taskyard.values.payloads import Codec, decode_value
from taskyard.values.shapes import shape_of


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

    def flush(self) -> None:
        """Do nothing, since all is recorded."""

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


class RecordedChildren:
    """The children of the task of a unit test.

    Attributes:
        submitted: The actions and the params of what was submitted, by name.

    Args:
        results: The results of those that have ended, by name; an error for one that failed.
    """

    def __init__(self, results: Mapping[str, Any]) -> None:
        self.submitted: dict[str, NewTask] = {}
        self._results = results

    def submit(self, name: str, request: pb.SubmitTaskRequest) -> str:
        """Record a child.

        Args:
            name: Its name.
            request: The child.

        Returns:
            Its id.
        """
        if name not in self.submitted:
            self.submitted[name] = NewTask(request.action, plain_object(request.params))
        return f"tsk_{name}"

    def find(self, name: str) -> Input:
        """Find a child.

        Args:
            name: Its name.

        Returns:
            The child, done or failed where the test says so, else queued.
        """
        found = Input(task_id=f"tsk_{name}", state=pb.Task.State.queued)
        if name in self._results:
            result = self._results[name]
            if isinstance(result, Exception):
                found.state, found.error = pb.Task.State.failed, str(result)
            else:
                found.state = pb.Task.State.done
                found.output.data = shape_of(Any).write(result)
        return found


class RecordedSteps:
    """The steps of the task of a unit test.

    Attributes:
        codec: None.

    Args:
        kept: The results of its work by name.
        answers: The answers to its questions by their ids.
        events: The payloads of the events that came, by the names of its waits.
        came: The names of the times and ends that came.
        children: Its children.
    """

    def __init__(
        self,
        kept: dict[str, Any],
        answers: dict[str, Any],
        events: dict[str, Any],
        came: set[str],
        children: RecordedChildren,
    ) -> None:
        self.codec: Codec | None = None
        self.children = children
        self._kept = kept
        self._given = {Step.Kind.answer: answers, Step.Kind.event: events}
        self._came = came

    def may_have(self, name: str, kind: Step.Kind.ValueType = WORK) -> bool:
        """Find out whether there is a step.

        Args:
            name: Its name.
            kind: Its kind. Default work.

        Returns:
            Whether there is.
        """
        return self.find(name, kind) is not None

    def find(self, name: str, kind: Step.Kind.ValueType = WORK) -> Step | None:
        """Find a step.

        Args:
            name: Its name.
            kind: Its kind. Default work.

        Returns:
            The step, None if there is none.
        """
        if (given := self._given.get(kind)) is not None:
            if name not in given:
                return None
            plain = msgspec.json.decode(shape_of(Any).write(given[name]))
            return Step(name=name, kind=kind, result=value_from(plain))
        if kind != WORK:
            return Step(name=name, kind=kind) if name in self._came else None
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
