"""`taskyard bulk cancel | pause | resume | resolve | reprioritize`: one thing for all tasks that a filter names.

Each begins an operation, and waits for its end with a progress bar. To stop waiting does not stop the operation.
"""

import time
from typing import Annotated, Any, Final, Protocol
from uuid import uuid4

import grpc
import typer
from google.protobuf import json_format
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard.v1.operation_pb2_grpc import OperationServiceStub
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.json_text import read_json

from .connection import Connection, with_connection
from .console import out
from .failure import Misuse
from .filter_options import filter_fields, filter_option
from .interruptions import MAX_TOKENS
from .output_form import print_data, with_output
from .shared_options import with_options
from .stops import ReasonOption

POLL_SECS: Final = 0.2
ENDED: Final = (pb.Operation.Status.done, pb.Operation.Status.cancelled)

app = typer.Typer(help="Cancel, pause, resume, resolve or reprioritize all tasks that match.", no_args_is_help=True)


class Request(Protocol):
    """The common part of the requests."""

    filter: task_pb2.TaskFilter


class Asked:
    """The options that all commands share: which tasks, under which id, and what to wait for."""

    def __init__(
        self, task_filter: task_pb2.TaskFilter, means_all: bool, operation_id: str, dry_run: bool, waits: bool
    ) -> None:
        self.fields: dict[str, Any] = {
            "filter": task_filter,
            "all": means_all or None,
            "operation_id": operation_id,
            "dry_run": dry_run or None,
        }
        self.dry_run = dry_run
        self.waits = waits


@with_options("fields", filter_fields)
def asked(
    fields: dict[str, Any],
    means_all: Annotated[bool, filter_option("All tasks, where nothing else says which.", "--all")] = False,
    dry_run: Annotated[bool, filter_option("Only count them.", "--dry-run", panel=None)] = False,
    operation_id: Annotated[
        str | None,
        filter_option("The id of the operation: the same one twice is one. Default: a new one.", "--id", panel=None),
    ] = None,
    no_wait: Annotated[bool, filter_option("Do not wait for the end.", "--no-wait", panel=None)] = False,
) -> Asked:
    """The options that all commands share. Raises `Misuse` for malformed times, and where nothing says which tasks."""
    task_filter = task_pb2.TaskFilter(**fields)
    if not means_all and not task_filter.ListFields():
        raise Misuse("say which tasks, by a filter such as --agent or --state; or --all")
    return Asked(task_filter, means_all, operation_id or f"cli-{uuid4().hex}", dry_run, not no_wait)


with_asked: Final = with_options("asked", asked)


@app.command()
@with_output
@with_connection
@with_asked
def cancel(asked: Asked, connection: Connection, reason: ReasonOption = None, as_json: bool = False) -> None:
    """Cancel the tasks that match and have not ended."""
    request = pb.CancelTasksRequest(**asked.fields, reason=reason)
    with connection.opened() as channel:
        stub = OperationServiceStub(channel)
        _follow(stub, connection, stub.CancelTasks(request, **connection.call()).operation, asked, as_json)


@app.command()
@with_output
@with_connection
@with_asked
def pause(asked: Asked, connection: Connection, reason: ReasonOption = None, as_json: bool = False) -> None:
    """Pause the tasks that match and are in flight."""
    request = pb.PauseTasksRequest(**asked.fields, reason=reason)
    with connection.opened() as channel:
        stub = OperationServiceStub(channel)
        _follow(stub, connection, stub.PauseTasks(request, **connection.call()).operation, asked, as_json)


@app.command()
@with_output
@with_connection
@with_asked
def resume(
    asked: Asked,
    connection: Connection,
    token_limit: Annotated[
        int | None, typer.Option(help="A new limit of the tokens that each may use.", min=0, max=MAX_TOKENS)
    ] = None,
    as_json: bool = False,
) -> None:
    """Resume the tasks that match and are paused, failed or held, as the queue has room."""
    request = pb.ResumeTasksRequest(**asked.fields, token_limit=token_limit)
    with connection.opened() as channel:
        stub = OperationServiceStub(channel)
        _follow(stub, connection, stub.ResumeTasks(request, **connection.call()).operation, asked, as_json)


@app.command()
@with_output
@with_connection
@with_asked
def resolve(
    asked: Asked,
    connection: Connection,
    result: Annotated[str | None, typer.Option(help="The result to record for each, any JSON.")] = None,
    reason: ReasonOption = None,
    as_json: bool = False,
) -> None:
    """End the tasks that match and are paused or failed as done."""
    request = pb.ResolveTasksRequest(**asked.fields, reason=reason)
    if result is not None:
        try:
            json_format.ParseDict(read_json(result), request.result)
        except (json_format.ParseError, ValueError, RecursionError) as error:
            raise Misuse(f"--result: {error}") from None
    with connection.opened() as channel:
        stub = OperationServiceStub(channel)
        _follow(stub, connection, stub.ResolveTasks(request, **connection.call()).operation, asked, as_json)


@app.command()
@with_output
@with_connection
@with_asked
def reprioritize(
    asked: Asked,
    connection: Connection,
    priority: Annotated[int, typer.Option(help="The new priority; a lower number is claimed first.")],
    as_json: bool = False,
) -> None:
    """Give the tasks that match and have not ended another priority."""
    request = pb.ReprioritizeTasksRequest(**asked.fields, priority=priority)
    with connection.opened() as channel:
        stub = OperationServiceStub(channel)
        _follow(stub, connection, stub.ReprioritizeTasks(request, **connection.call()).operation, asked, as_json)


def _follow(
    stub: OperationServiceStub, connection: Connection, operation: pb.Operation, asked: Asked, as_json: bool
) -> None:
    """Wait for the end, unless that is not wanted, and show what has become of it."""
    if not asked.dry_run and asked.waits:
        operation = wait_for_end(stub, connection, operation)
    if as_json:
        print_data({"operation": message_to_json(operation, zeros=True)})
    elif asked.dry_run:
        out.print(f"{operation.matched} {_tasks(operation.matched)} would be treated")
    else:
        out.print(summary(operation), markup=False)


def wait_for_end(stub: OperationServiceStub, connection: Connection, operation: pb.Operation) -> pb.Operation:
    """The operation once it has ended, with a bar on a terminal meanwhile."""
    request = pb.GetOperationRequest(operation_id=operation.operation_id)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not Console(stderr=True).is_terminal,
    ) as progress:
        bar = progress.add_task(pb.Operation.Kind.Name(operation.kind), total=None)
        while True:
            progress.update(
                bar,
                total=operation.matched or None,
                completed=operation.done + operation.failed,
                description=f"{pb.Operation.Kind.Name(operation.kind)}, {_status(operation)}",
            )
            if operation.status in ENDED:
                return operation
            time.sleep(POLL_SECS)
            try:
                operation = stub.GetOperation(request, **connection.call()).operation
            except grpc.RpcError as error:
                # It goes on while its server is started anew, or another one takes over.
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise


def summary(operation: pb.Operation) -> str:
    """An operation in a line, for people."""
    counts = f"{operation.done} of {operation.matched} {_tasks(operation.matched)} done"
    counts += f", {operation.skipped} skipped" if operation.skipped else ""
    counts += f", {operation.failed} failed" if operation.failed else ""
    first = f" (first: {operation.first_error})" if operation.HasField("first_error") else ""
    return (
        f"{operation.operation_id}: {pb.Operation.Kind.Name(operation.kind)} is {_status(operation)}: {counts}{first}"
    )


def _status(operation: pb.Operation) -> str:
    return pb.Operation.Status.Value.Name(operation.status)


def _tasks(count: int) -> str:
    return "task" if count == 1 else "tasks"
