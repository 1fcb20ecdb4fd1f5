"""`taskyard get | list | cancel`: show and cancel tasks."""

from base64 import b64decode
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from taskyard.v1 import task_pb2
from taskyard.v1.task_pb2_grpc import TaskServiceStub
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .console import out
from .failure import Misuse
from .filter_options import filter_fields
from .listing import Head, ListingTable, number, task_id
from .output_form import print_data, with_output
from .server import fields_table, local_time, state_cell, took_text, why_text, word
from .shared_options import with_options
from .stops import ReasonOption, WaitOption, stop_text, timeout_secs, wait_ms
from .task_ends import exit_as
from .task_ids import TaskArgument, whole_id


class Order(StrEnum):
    """The keys by which a list is sorted."""

    CREATED = "created"
    ENDED = "ended"
    STATE = "state"
    AGENT = "agent"
    ACTION = "action"
    PRIORITY = "priority"
    MS = "ms"


KEYS: Final[dict[Order, Any]] = {
    Order.CREATED: lambda task: (task.created_at.seconds, task.created_at.nanos),
    Order.ENDED: lambda task: (not task.HasField("completed_at"), task.completed_at.seconds, task.completed_at.nanos),
    Order.STATE: lambda task: word(task.state),
    Order.AGENT: lambda task: task.agent_id,
    Order.ACTION: lambda task: task.action,
    Order.PRIORITY: lambda task: task.priority,
    Order.MS: lambda task: (not task.HasField("latency_ms"), task.latency_ms),
}


@with_output
@with_connection
def get(
    task_id: TaskArgument,
    connection: Connection,
    as_json: bool = False,
) -> None:
    """Show one task. Exit code 1 if it failed, was rejected or was cancelled."""
    with connection.opened() as channel:
        request = task_pb2.GetTaskRequest(task_id=whole_id(channel, connection, task_id))
        task: task_pb2.Task = TaskServiceStub(channel).GetTask(request, **connection.call())
    fields = message_to_json(task)
    if as_json:
        print_data(fields)
    else:
        out.print(fields_table(_readable(fields)))
    exit_as(task.state)


@with_output
@with_options("wanted", filter_fields)
@with_connection
def list_tasks(
    connection: Connection,
    wanted: dict[str, Any],
    history: Annotated[bool, typer.Option("--history", help="Also tasks that ended days ago.")] = False,
    newest: Annotated[bool, typer.Option("--newest", help="The youngest first.")] = False,
    sort: Annotated[Order | None, typer.Option(help="Sort what is listed by this, the lowest first.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="Turn the order of --sort round.")] = False,
    limit: Annotated[int, typer.Option(help="The most tasks to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """List tasks in order of submission."""
    if reverse and sort is None:
        raise Misuse("--reverse: goes with --sort; --newest lists the youngest first")
    request = task_pb2.ListTasksRequest(**wanted, history=history, newest_first=newest, page_size=limit)
    with connection.opened() as channel:
        stub = TaskServiceStub(channel)
        answer = stub.ListTasks(request, **connection.call())
        # A page of the history may be short although more follows.
        while answer.next_page_token and answer.count < limit:
            request.page_token, request.page_size = answer.next_page_token, limit - answer.count
            page = stub.ListTasks(request, **connection.call())
            answer.tasks.extend(page.tasks)
            answer.count += page.count
            answer.next_page_token = page.next_page_token
        if not answer.next_page_token:
            answer.ClearField("next_page_token")
    tasks = list(answer.tasks) if sort is None else sorted(answer.tasks, key=KEYS[sort], reverse=reverse)
    if as_json:
        del answer.tasks[:]
        answer.tasks.extend(tasks)
        print_data({"tasks": [], **message_to_json(answer)})
        return
    heads = task_id("task"), "agent", "action", "state", number("duration", 2), Head("error", 1)
    table = ListingTable(*heads, *(WIDE if out.is_wide else ()))
    for task in tasks:
        table.add(
            *(task.task_id, task.agent_id, task.action, state_cell(task.state), took_text(task), why_text(task)),
            *(_wide(task) if out.is_wide else ()),
        )
    if answer.next_page_token:
        table.note = f"the {'last' if newest else 'first'} {answer.count}; there are more"
    table.print()


WIDE: Final = ("host", "target", number("priority"), "created", "ended")


def _wide(task: task_pb2.Task) -> tuple[str, ...]:
    """The columns of the wide form."""
    times = local_time(task.created_at), local_time(task.completed_at)
    return task.host_id, task.target, str(task.priority), *times


@with_output
@with_connection
def cancel(
    task_id: TaskArgument,
    connection: Connection,
    cancel_children: Annotated[
        bool, typer.Option("--cancel-children", help="Also what its work has submitted, and what theirs has.")
    ] = False,
    reason: ReasonOption = None,
    wait: WaitOption = None,
    as_json: bool = False,
) -> None:
    """Cancel a task that has not ended."""
    request = task_pb2.CancelTaskRequest(reason=reason)
    if cancel_children:
        request.cancel_children = True
    if (ms := wait_ms(wait)) is not None:
        request.wait_ms = ms
    with connection.opened() as channel:
        request.task_id = whole_id(channel, connection, task_id)
        answer = TaskServiceStub(channel).CancelTask(request, **connection.call(timeout_secs(ms)))
    below = f", and {answer.children_cancelled} below it are cancelled" if cancel_children else ""
    if as_json:
        print_data(message_to_json(answer))
    else:
        out.print(f"{answer.task_id} is {word(answer.status)}{below}{stop_text(answer)}", soft_wrap=True)


def _readable(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a task for people: typed payloads that are JSON as such, and what has several lines last."""
    for name in ("input", "output"):
        if (payload := fields.get(name)) is not None and "encoding" not in payload:
            fields[name] = b64decode(payload.get("data", "")).decode(errors="replace")
    if (traceback := fields.pop("traceback", None)) is not None:
        fields["traceback"] = traceback
    return fields
