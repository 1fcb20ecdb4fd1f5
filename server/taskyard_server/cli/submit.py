"""`taskyard submit`: submit a task, and wait for its end if that is wanted."""

from typing import Annotated, Any

import grpc
import typer

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
    after: Annotated[list[str] | None, typer.Option(help="A task that must have ended first. Repeatable.")] = None,
    after_policy: Annotated[
        str | None,
        typer.Option(metavar="success|ended", help="What it asks of those; success unless given."),
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
    }
    request = filled(task_pb2.SubmitTaskRequest(), task | given(single))
    with connection.opened() as channel:
        if parent is not None:
            request.parent_id = whole_id(channel, connection, parent)
        request.after.extend(whole_id(channel, connection, each) for each in after or ())
        answer = TaskServiceStub(channel).SubmitTask(request, **connection.call())
        if attach and not answer.existing:
            answer.state = _attached(answer.task_id, attach, channel, connection, hold=hold)
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


def _attached(
    task_id: str, files: list[str], channel: grpc.Channel, connection: Connection, *, hold: bool
) -> task_pb2.Task.State.ValueType:
    """The state of a task that has its files, and is not held any longer unless that is wanted."""
    # Most submits need no hashes.
    from .artifacts import attach

    for each in files:
        attach(task_id, each, channel, connection)
    if hold:
        return task_pb2.Task.pending
    return TaskServiceStub(channel).ResumeTask(task_pb2.ResumeTaskRequest(task_id=task_id), **connection.call()).status


def _tell(answer: task_pb2.SubmitTaskResponse, as_json: bool) -> None:
    if as_json:
        print_data(message_to_json(answer))
        return
    position = f" at position {answer.position}" if answer.HasField("position") else ""
    already = " already" if answer.existing else ""
    out.print(f"{answer.task_id} is {word(answer.state)}{already}{position}", soft_wrap=True)
