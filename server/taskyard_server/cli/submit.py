"""`taskyard submit`: submit a task, and wait for its end if that is wanted."""

from pathlib import Path
from typing import Annotated, Any

import grpc
import typer
from rich.console import Console

from taskyard.v1 import task_pb2
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .console import out
from .failure import Misuse
from .output_form import print_data, with_output
from .server import filled, given, instant, word
from .task_ends import TimeoutOption, exit_as, told_end, until, wait_for_end
from .task_ids import whole_id
from .task_options import with_task_options

trouble = Console(stderr=True, highlight=False)


@with_output
@with_task_options("agent", "action")
@with_connection
def submit(
    task: dict[str, Any],
    connection: Connection,
    deadline: Annotated[str | None, typer.Option(help="When it fails unless it has ended, RFC 3339.")] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Hold it back until it is resumed.")] = False,
    not_before: Annotated[str | None, typer.Option(help="It is not due before, RFC 3339.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="The same key twice is one task.")] = None,
    parent: Annotated[str | None, typer.Option(help="The task whose work submits it.")] = None,
    on_parent_end: Annotated[
        str | None,
        typer.Option(metavar="keep|cancel", help="What becomes of it when its parent ends; keep unless given."),
    ] = None,
    after: Annotated[list[str] | None, typer.Option(help="A task that must have ended first. Repeatable.")] = None,
    after_policy: Annotated[
        str | None,
        typer.Option(metavar="success|ended", help="What it asks of those; success unless given."),
    ] = None,
    input_of: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=TASK", help="A task whose result it is handed on. Repeatable."),
    ] = None,
    unique_key: Annotated[str | None, typer.Option(help="At most one task of the agent has it.")] = None,
    unique_while: Annotated[
        str | None,
        typer.Option(metavar="queued|live", help="For how long it has its key; live unless given."),
    ] = None,
    on_conflict: Annotated[
        str | None,
        typer.Option(
            metavar="existing|reject|replaceQueued", help="What happens when its key is taken; existing unless given."
        ),
    ] = None,
    attach: Annotated[
        list[str] | None, typer.Option(metavar="NAME=FILE", help="A file that its host can read. Repeatable.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end: exit code 1 unless it is done.")] = False,
    timeout: TimeoutOption = None,
    as_json: bool = False,
) -> None:
    """Submit one task."""
    if timeout is not None and not wait:
        raise Misuse("--timeout: goes with --wait")
    end = until(timeout)
    files = _files_of(attach) if attach else {}
    inputs = [_named(each) for each in input_of or ()]
    # The tasks of schedules do not have these fields.
    single = {
        "deadline": instant(deadline, "--deadline"),
        "hold": hold or bool(attach) or None,
        "notBefore": instant(not_before, "--not-before"),
        "idempotencyKey": idempotency_key,
        "afterPolicy": after_policy,
        "uniqueKey": unique_key,
        "uniqueWhile": unique_while,
        "onConflict": on_conflict,
        "onParentEnd": on_parent_end,
    }
    request = filled(task_pb2.SubmitTaskRequest(), task | given(single))
    with connection.opened() as channel:
        if parent is not None:
            request.parent_id = whole_id(channel, connection, parent)
        request.after.extend(whole_id(channel, connection, each) for each in after or ())
        for name, each in inputs:
            request.inputs[name] = whole_id(channel, connection, each)
        answer = TaskServiceStub(channel).SubmitTask(request, **connection.call())
        if files and not answer.existing:
            _attach(answer, files, channel, connection, hold=hold)
        if not wait or not as_json:
            _tell(answer, as_json)
        if not wait:
            return
        ended = wait_for_end(channel, connection, answer.task_id, end)
    if as_json:
        print_data(message_to_json(ended))
    else:
        out.print(told_end(ended), soft_wrap=True)
    exit_as(ended.state)


def _named(given: str) -> tuple[str, str]:
    """The name and the task of an input. Raises `Misuse`."""
    name, equals, task = given.partition("=")
    if not equals or not name or not task:
        raise Misuse(f"--input-of: must be NAME=TASK, is {given!r}")
    return name, task


def _files_of(attach: list[str]) -> dict[str, Path]:
    # Most submits need no hashes.
    from .attachments import files_of

    return files_of(attach)


def _attach(
    answer: task_pb2.SubmitTaskResponse,
    files: dict[str, Path],
    channel: grpc.Channel,
    connection: Connection,
    *,
    hold: bool,
) -> None:
    """Give a task its files, and let it go unless it is to be held. The answer has its state then."""
    from .attachments import attach

    stub, task_id = TaskServiceStub(channel), answer.task_id
    task = stub.GetTask(task_pb2.GetTaskRequest(task_id=task_id), **connection.call())
    if not task.hold:
        # An earlier submission under its idempotency key has given it its files.
        answer.state = task.state
        return
    try:
        attach(task_id, files, channel, connection)
        if not hold:
            request = task_pb2.ResumeTaskRequest(task_id=task_id)
            answer.state = stub.ResumeTask(request, **connection.call()).status
    except BaseException:
        trouble.print(f"taskyard: {task_id} stays held", style="dim", soft_wrap=True)
        raise


def _tell(answer: task_pb2.SubmitTaskResponse, as_json: bool) -> None:
    if as_json:
        print_data(message_to_json(answer))
        return
    position = f" at position {answer.position}" if answer.HasField("position") else ""
    already = " already" if answer.existing else ""
    out.print(f"{answer.task_id} is {word(answer.state)}{already}{position}", soft_wrap=True)
