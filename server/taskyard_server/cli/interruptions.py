"""`taskyard pause | resume | resolve`: interrupt a task by hand, then run it again or end it."""

from typing import Annotated, Final

import typer
from google.protobuf import json_format

from taskyard.v1 import task_pb2 as pb
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.json_text import read_json

from .connection import Connection, with_connection
from .console import out
from .failure import Misuse
from .output_form import print_data, with_output
from .server import word
from .stops import ReasonOption, WaitOption, stop_text, timeout_secs, wait_ms
from .task_ids import TaskArgument, whole_id

MAX_TOKENS: Final = 2**32 - 1


@with_output
@with_connection
def pause(
    task_id: TaskArgument,
    connection: Connection,
    reason: ReasonOption = None,
    wait: WaitOption = None,
    as_json: bool = False,
) -> None:
    """Interrupt a task that is assigned or running. It can be resumed."""
    ms = wait_ms(wait)
    with connection.opened() as channel:
        request = pb.PauseTaskRequest(task_id=whole_id(channel, connection, task_id), wait_ms=ms, reason=reason)
        answer = TaskServiceStub(channel).PauseTask(request, **connection.call(timeout_secs(ms)))
    _show(answer, as_json, stop_text(answer))


@with_output
@with_connection
def resume(
    task_id: TaskArgument,
    connection: Connection,
    token_limit: Annotated[
        int | None,
        typer.Option(help="A new limit of the tokens that it may use, over all its runs.", min=0, max=MAX_TOKENS),
    ] = None,
    as_json: bool = False,
) -> None:
    """Queue a paused or failed task again, or release a held one."""
    with connection.opened() as channel:
        request = pb.ResumeTaskRequest(task_id=whole_id(channel, connection, task_id), token_limit=token_limit)
        answer = TaskServiceStub(channel).ResumeTask(request, **connection.call())
    _show(answer, as_json)


@with_output
@with_connection
def resolve(
    task_id: TaskArgument,
    connection: Connection,
    result: Annotated[str | None, typer.Option(help="The result to record, any JSON.")] = None,
    reason: ReasonOption = None,
    as_json: bool = False,
) -> None:
    """End a paused or failed task as done, which frees its target."""
    request = pb.ResolveTaskRequest(reason=reason)
    if result is not None:
        try:
            json_format.ParseDict(read_json(result), request.result)
        except (json_format.ParseError, ValueError, RecursionError) as error:
            raise Misuse(f"--result: {error}") from None
    with connection.opened() as channel:
        request.task_id = whole_id(channel, connection, task_id)
        answer = TaskServiceStub(channel).ResolveTask(request, **connection.call())
    _show(answer, as_json)


def _show(
    answer: pb.PauseTaskResponse | pb.ResumeTaskResponse | pb.ResolveTaskResponse, as_json: bool, more: str = ""
) -> None:
    if as_json:
        print_data(message_to_json(answer))
    else:
        out.print(f"{answer.task_id} is {word(answer.status)}{more}", soft_wrap=True)
