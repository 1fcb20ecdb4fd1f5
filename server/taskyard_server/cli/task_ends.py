"""How a task ended, as an exit code, and the wait for its end."""

import json
import time
from typing import Annotated, Any, Final

import grpc
import typer
from rich.text import Text

from taskyard.errors import error_from_rpc
from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard_server.conversion.payload import message_to_json

from .connection import TIMEOUT_SECS, Connection
from .failure import FAILED, Failure
from .progress import waiting_line
from .server import milliseconds, shown, why_text, word

BAD: Final = frozenset((pb.Task.failed, pb.Task.rejected, pb.Task.cancelled))
LONG_POLL_MS: Final = 30_000
RETRY_SECS: Final = 1.0


def exit_as(*states: int) -> None:
    """End the command with 1 if any of the tasks failed, was rejected or was cancelled."""
    if BAD.intersection(states):
        raise typer.Exit(FAILED)


TimeoutOption = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="The longest wait, such as 30s or 10m.", show_default="until it has ended"),
]


def until(timeout: str | None) -> float | None:
    """The monotonic time at which a wait is given up, if at any. Raises `Misuse` for what is no span."""
    return None if timeout is None else time.monotonic() + milliseconds(timeout, "--timeout") / 1000


def told_end(task: pb.Task) -> Text:
    """The outcome of a task, in a line."""
    told = f"{task.task_id} is {word(task.state)}"
    if task.HasField("result"):
        told += f": {json.dumps(message_to_json(task)['result'], ensure_ascii=False)}"
    elif why := why_text(task):
        told += f": {why}"
    return shown(told)


def wait_for_end(channel: grpc.Channel, connection: Connection, task_id: str, until: float | None) -> pb.Task:
    """The task once it has ended.

    It goes on while the server is started anew, once it has answered. Raises `Failure` at `until`.
    """
    stub: Any = TaskServiceStub(channel)
    has_answered = False
    with waiting_line() as line:
        while True:
            left_ms = LONG_POLL_MS
            if until is not None:
                left_ms = max(0, min(LONG_POLL_MS, round(1000 * (until - time.monotonic()))))
            request = pb.WaitTaskRequest(task_id=task_id, timeout_ms=left_ms if has_answered else 0)
            try:
                answer = stub.WaitTask(request, **connection.call(TIMEOUT_SECS + LONG_POLL_MS / 1000))
            except grpc.RpcError as error:
                if not has_answered or not isinstance(error, grpc.Call) or not error_from_rpc(error).retryable:
                    raise
                time.sleep(RETRY_SECS)
                continue
            task: pb.Task = answer.task
            if answer.ended:
                return task
            if until is not None and time.monotonic() >= until:
                raise Failure(f"{task_id} is still {word(task.state)}")
            has_answered = True
            line(shown(f"{task_id} is {word(answer.task.state)}").plain)
