"""`taskyard submit | get | list | cancel | stats`: submit, show and cancel tasks, and show the figures."""

from base64 import b64decode
from typing import Annotated, Any

import typer
from google.protobuf.message import Message
from rich.table import Column, Table
from rich.text import Text

from taskyard.v1 import stats_pb2, stats_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .filter_options import filter_fields
from .server import (
    JsonOption,
    TaskArgument,
    fields_table,
    filled,
    given,
    out,
    print_json,
    shown,
    size_text,
    word,
)
from .shared_options import with_options
from .stops import WaitOption, stop_text, timeout_secs, wait_ms
from .task_options import with_task_options


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
    as_json: JsonOption = False,
) -> None:
    """Submit one task."""
    # The tasks of schedules do not have these fields.
    single = {
        "deadline": deadline,
        "hold": hold or None,
        "notBefore": not_before,
        "idempotencyKey": idempotency_key,
        "parentId": parent,
        "after": after or None,
        "afterPolicy": after_policy,
        "uniqueKey": unique_key,
        "uniqueWhile": unique_while,
        "onConflict": on_conflict,
    }
    request = filled(task_pb2.SubmitTaskRequest(), task | given(single))
    with connection.opened() as channel:
        answer = task_pb2_grpc.TaskServiceStub(channel).SubmitTask(request, **connection.call())
    place = f" at position {answer.position}" if answer.HasField("position") else ""
    already = " already" if answer.existing else ""
    _show(answer, as_json, f"{answer.task_id} is {word(answer.state)}{already}{place}")


@with_connection
def get(
    task_id: TaskArgument,
    connection: Connection,
    as_json: JsonOption = False,
) -> None:
    """Show one task."""
    request = task_pb2.GetTaskRequest(task_id=task_id)
    with connection.opened() as channel:
        task = task_pb2_grpc.TaskServiceStub(channel).GetTask(request, **connection.call())
    _show(task, as_json, fields_table(_readable(_as_dict(task))))


@with_options("wanted", filter_fields)
@with_connection
def list_tasks(
    connection: Connection,
    wanted: dict[str, Any],
    history: Annotated[bool, typer.Option("--history", help="Also tasks that ended days ago.")] = False,
    newest: Annotated[bool, typer.Option("--newest", help="The youngest first.")] = False,
    limit: Annotated[int, typer.Option(help="The most tasks to show.", min=1, max=1000)] = 100,
    as_json: JsonOption = False,
) -> None:
    """List tasks in order of submission."""
    request = task_pb2.ListTasksRequest(**wanted, history=history, newest_first=newest, page_size=limit)
    with connection.opened() as channel:
        stub = task_pb2_grpc.TaskServiceStub(channel)
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
    table = Table(Column("task", no_wrap=True), "agent", "action", "state", "ms", "error", box=None)
    for task in answer.tasks:
        latency = str(task.latency_ms) if task.HasField("latency_ms") else ""
        texts = (task.task_id, task.agent_id, task.action, word(task.state), latency, task.error)
        table.add_row(*map(shown, texts))
    if answer.next_page_token:
        table.caption = f"the {'last' if newest else 'first'} {answer.count}; there are more"
    _show(answer, as_json, table)


@with_connection
def cancel(
    task_id: TaskArgument,
    connection: Connection,
    cancel_children: Annotated[
        bool, typer.Option("--cancel-children", help="Also what its work has submitted, and what theirs has.")
    ] = False,
    wait: WaitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Cancel a task that has not ended."""
    request = task_pb2.CancelTaskRequest(task_id=task_id)
    if cancel_children:
        request.cancel_children = True
    if (ms := wait_ms(wait)) is not None:
        request.wait_ms = ms
    with connection.opened() as channel:
        answer = task_pb2_grpc.TaskServiceStub(channel).CancelTask(request, **connection.call(timeout_secs(ms)))
    below = f", and {answer.children_cancelled} below it are cancelled" if cancel_children else ""
    _show(answer, as_json, f"{answer.task_id} is {word(answer.status)}{below}{stop_text(answer)}")


@with_connection
def stats(
    connection: Connection,
    as_json: JsonOption = False,
) -> None:
    """Show the scheduler's figures."""
    with connection.opened() as channel:
        request = stats_pb2.GetStatsRequest()
        answer = stats_pb2_grpc.StatsServiceStub(channel).GetStats(request, **connection.call())
    table = Table("agent", "queued", "submitted", "completed", "failed", "cancelled", "rejected", box=None)
    metrics, queue = answer.metrics, answer.queue
    for name, agent in sorted(metrics.agents.items()):
        counts = (agent.submitted, agent.completed, agent.failed, agent.cancelled, agent.rejected)
        table.add_row(shown(name), f"{queue.agent_counts.get(name, 0):.0f}", *(f"{count:.0f}" for count in counts))
    totals = (
        metrics.tasks_submitted,
        metrics.tasks_completed,
        metrics.tasks_failed,
        metrics.tasks_cancelled,
        metrics.tasks_rejected,
    )
    table.add_section()
    table.add_row(Text("all", "bold"), f"{queue.total_queued:.0f}", *(f"{count:.0f}" for count in totals))
    table.caption = f"{queue.total_inflight:.0f} in flight, {metrics.avg_dispatch_latency_ms:.1f} ms to hand-out"
    if queue.total_paused:
        table.caption += f", {queue.total_paused:.0f} paused"
    if queue.targets.waiting:
        table.caption += f", {queue.targets.waiting:.0f} wait for their target (see: taskyard targets)"
    if answer.HasField("hosts"):
        table.caption += f", {answer.hosts.online:.0f} of {answer.hosts.registered:.0f} hosts online"
    if answer.HasField("store"):
        table.caption += f", {size_text(answer.store.used_bytes)} kept"
        if answer.store.free_bytes:
            table.caption += f", {size_text(answer.store.free_bytes)} free"
    if queue.limited_by:
        table.caption += f", tasks wait: raise scheduler.{queue.limited_by}"
    _show(answer, as_json, table)


def _show(answer: Message, as_json: bool, otherwise: str | Table) -> None:
    if as_json:
        print_json(_as_dict(answer))
    else:
        out.print(otherwise)


def _readable(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a task for people: typed payloads that are JSON as such, and what has several lines last."""
    for name in ("input", "output"):
        if (payload := fields.get(name)) is not None and "encoding" not in payload:
            fields[name] = b64decode(payload.get("data", "")).decode(errors="replace")
    if (traceback := fields.pop("traceback", None)) is not None:
        fields["traceback"] = traceback
    return fields


def _as_dict(message: Message) -> dict[str, Any]:
    shown = message_to_json(message, zeros=isinstance(message, stats_pb2.GetStatsResponse))
    return {"tasks": [], **shown} if isinstance(message, task_pb2.ListTasksResponse) else shown
