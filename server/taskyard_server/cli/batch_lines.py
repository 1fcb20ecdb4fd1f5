"""Files with one task a line, and their submission in as many batches as it takes."""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc

from taskyard.errors import error_from_rpc
from taskyard.v1 import batch_pb2 as pb
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.json_text import read_json

from .connection import Connection
from .failure import Failure, Misuse
from .server import filled

STANDARD_INPUT: Final = "-"
TASK_INDEX: Final = re.compile(r"tasks\[(\d+)\](?:\.|: )")
"""How a server names a task of a batch, and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A task, and the number of its line."""

    number: int
    task: pb.BatchTask


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A task that was not admitted, by the number of its line."""

    line: int
    reason: str


@dataclass(slots=True)
class LineSubmission:
    """The outcome of a file: the sizes of its batches by their ids, and the outcomes in the order of the lines."""

    batches: dict[str, int] = field(default_factory=dict)
    outcomes: list[pb.BatchOutcome] = field(default_factory=list)
    refused: list[RefusedLine] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        tasks = [message_to_json(outcome) for outcome in self.outcomes]
        submitted = sum(1 for outcome in self.outcomes if not outcome.HasField("error"))
        return {"batchIds": list(self.batches), "submitted": submitted, "tasks": tasks}


def read_tasks(file: Path) -> list[Line]:
    """The tasks of a file, empty lines left out. Raises `Misuse`, which names the line that is malformed."""
    try:
        text = _standard_input() if str(file) == STANDARD_INPUT else file.read_text("utf-8")
    except OSError as error:
        raise Misuse(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise Misuse(f"{file}: is no text in UTF-8") from None
    # Some editors put a mark in front. Texts in JSON may hold what else Python takes for the end of a line.
    parts = text.removeprefix("\ufeff").split("\n")
    lines = [_line(number, line) for number, line in enumerate(parts, 1) if line.strip()]
    if not lines:
        raise Misuse(f"{file}: holds no tasks")
    return lines


def _standard_input() -> str:
    # It is None if it was closed when the command began.
    return "" if sys.stdin is None else sys.stdin.read()


def _line(number: int, text: str) -> Line:
    try:
        fields = read_json(text)
        if not isinstance(fields, dict):
            raise Misuse("must be a JSON object")
        return Line(number, filled(pb.BatchTask(), fields))
    except (ValueError, RecursionError, Misuse) as error:
        raise Misuse(f"line {number}: {error}") from None


def submit_lines(
    stub: Any,
    connection: Connection,
    request: pb.SubmitBatchRequest,
    lines: Sequence[Line],
    size: int,
    advance: Callable[[int], None],
) -> LineSubmission:
    """Submit the lines as batches like `request`. `advance` is told how many have been.

    Raises `Failure` where the server refuses a batch; those before it are named in that.
    """
    for name, given in (("afterIndexes", "after_indexes"), ("inputIndexes", "input_indexes")):
        if len(lines) > size and any(getattr(line.task, given) for line in lines):
            raise Misuse(f"{name}: only in one batch, and these are {len(lines)} tasks; see --size")
    done = LineSubmission()
    for begin in range(0, len(lines), size):
        chunk = lines[begin : begin + size]
        del request.tasks[:]
        request.tasks.extend(line.task for line in chunk)
        try:
            answer: pb.SubmitBatchResponse = stub.SubmitBatch(request, **connection.call())
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call) or error.code() is not grpc.StatusCode.INVALID_ARGUMENT:
                raise
            before = f" (submitted before it: {', '.join(done.batches)})" if done.batches else ""
            raise Failure(_by_lines(error_from_rpc(error).reason, chunk) + before) from None
        if answer.batch_id:
            done.batches[answer.batch_id] = len(chunk)
        done.outcomes.extend(answer.tasks)
        done.refused.extend(
            RefusedLine(line.number, outcome.error.error)
            for line, outcome in zip(chunk, answer.tasks, strict=True)
            if outcome.HasField("error")
        )
        advance(begin + len(chunk))
    return done


def _by_lines(reason: str, chunk: Sequence[Line]) -> str:
    """The reason of a refusal, with the number of the line for the index of its task in the batch."""
    return TASK_INDEX.sub(lambda match: f"line {chunk[int(match[1])].number}: ", reason)
