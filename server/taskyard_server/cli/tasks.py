"""`taskyard submit | get | list | cancel | stats`: a person's view of a running control plane, over gRPC."""

import json
from typing import Annotated, Any

import typer
from google.protobuf import json_format
from google.protobuf.message import Message
from rich.table import Column, Table
from rich.text import Text

from taskyard.v1 import stats_pb2, stats_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard_server.payload import message_to_json

from .failure import Failure
from .server import (
    DEFAULT_SERVER,
    JsonOption,
    NamespaceOption,
    ServerOption,
    TaskArgument,
    call,
    connected,
    out,
    print_json,
    shown,
    word,
)


def submit(
    agent: Annotated[str, typer.Option(help="The submitting agent.")],
    action: Annotated[str, typer.Option(help="The kind of action to run.")],
    tab: Annotated[str | None, typer.Option(help="The tab that the action is for.")] = None,
    ref: Annotated[str | None, typer.Option(help="The element that the action is for.")] = None,
    params: Annotated[str | None, typer.Option(help="Fields for the action, a JSON object.")] = None,
    priority: Annotated[int, typer.Option(help="The lower number runs first.")] = 0,
    deadline: Annotated[str | None, typer.Option(help="When it fails unless it has ended, RFC 3339.")] = None,
    callback: Annotated[str | None, typer.Option(help="Where the task is posted when it ends.")] = None,
    target: Annotated[str | None, typer.Option(help="Its serial queue: one of its tasks runs at a time.")] = None,
    hold: Annotated[bool, typer.Option("--hold", help="Hold it back until it is resumed.")] = False,
    not_before: Annotated[str | None, typer.Option(help="It is not due before, RFC 3339.")] = None,
    project: Annotated[str | None, typer.Option(help="The project that it belongs to.")] = None,
    requires: Annotated[list[str] | None, typer.Option(help="What its host must be capable of. Repeatable.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A mark. Repeatable.")] = None,
    token_limit: Annotated[int | None, typer.Option(help="The most tokens that it may use.", min=0)] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Attempts in all, the first included.", min=1)] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="The same key twice is one task.")] = None,
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
    namespace: NamespaceOption = "default",
) -> None:
    """Submit one task."""
    fields = {
        "agentId": agent,
        "action": action,
        "tabId": tab,
        "ref": ref,
        "params": _object(params, "--params"),
        "priority": priority,
        "deadline": deadline,
        "callbackUrl": callback,
        "target": target,
        "hold": hold or None,
        "notBefore": not_before,
        "project": project,
        "requires": requires,
        "labels": dict(map(_label, label or ())),
        "tokenLimit": token_limit,
        "retryPolicy": None if max_attempts is None else {"maxAttempts": max_attempts},
        "idempotencyKey": idempotency_key,
    }
    request = task_pb2.SubmitTaskRequest()
    try:
        json_format.ParseDict({key: value for key, value in fields.items() if value is not None}, request)
    except (json_format.ParseError, OverflowError, ValueError) as error:
        raise Failure(str(error)) from None
    with connected(server) as channel:
        answer = task_pb2_grpc.TaskServiceStub(channel).SubmitTask(request, **call(namespace))
    _show(answer, as_json, f"{answer.task_id} is {word(answer.state)} at position {answer.position}")


def get(
    task_id: TaskArgument,
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
    namespace: NamespaceOption = "default",
) -> None:
    """Show one task."""
    request = task_pb2.GetTaskRequest(task_id=task_id)
    with connected(server) as channel:
        task = task_pb2_grpc.TaskServiceStub(channel).GetTask(request, **call(namespace))
    table = Table(show_header=False, box=None)
    for field, value in _as_dict(task).items():
        table.add_row(Text(field, "bold"), shown(value if isinstance(value, str) else json.dumps(value)))
    _show(task, as_json, table)


def list_tasks(
    agent: Annotated[str, typer.Option(help="Only tasks of this agent.")] = "",
    state: Annotated[str, typer.Option(help="Only tasks in these states, separated by commas.")] = "",
    target: Annotated[str, typer.Option(help="Only tasks of this target.")] = "",
    batch: Annotated[str, typer.Option(help="Only tasks of this batch.")] = "",
    limit: Annotated[int, typer.Option(help="The most tasks to show.", min=1, max=1000)] = 100,
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
    namespace: NamespaceOption = "default",
) -> None:
    """List tasks in order of submission."""
    request = task_pb2.ListTasksRequest(agent_id=agent, state=state, target=target, batch_id=batch, page_size=limit)
    with connected(server) as channel:
        answer = task_pb2_grpc.TaskServiceStub(channel).ListTasks(request, **call(namespace))
    table = Table(Column("task", no_wrap=True), "agent", "action", "state", "ms", "error", box=None)
    for task in answer.tasks:
        latency = str(task.latency_ms) if task.HasField("latency_ms") else ""
        texts = (task.task_id, task.agent_id, task.action, word(task.state), latency, task.error)
        table.add_row(*map(shown, texts))
    if answer.next_page_token:
        table.caption = f"the first {answer.count}; there are more"
    _show(answer, as_json, table)


def cancel(
    task_id: TaskArgument,
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
    namespace: NamespaceOption = "default",
) -> None:
    """Cancel a task that has not ended."""
    request = task_pb2.CancelTaskRequest(task_id=task_id)
    with connected(server) as channel:
        answer = task_pb2_grpc.TaskServiceStub(channel).CancelTask(request, **call(namespace))
    _show(answer, as_json, f"{answer.task_id} is {word(answer.status)}")


def stats(
    as_json: JsonOption = False,
    server: ServerOption = DEFAULT_SERVER,
    namespace: NamespaceOption = "default",
) -> None:
    """Show the scheduler's figures."""
    with connected(server) as channel:
        request = stats_pb2.GetStatsRequest()
        answer = stats_pb2_grpc.StatsServiceStub(channel).GetStats(request, **call(namespace))
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
    if queue.limited_by:
        table.caption += f", tasks wait: raise scheduler.{queue.limited_by}"
    _show(answer, as_json, table)


def _show(answer: Message, as_json: bool, otherwise: str | Table) -> None:
    if as_json:
        print_json(_as_dict(answer))
    else:
        out.print(otherwise)


def _as_dict(message: Message) -> dict[str, Any]:
    shown = message_to_json(message, zeros=isinstance(message, stats_pb2.GetStatsResponse))
    return {"tasks": [], **shown} if isinstance(message, task_pb2.ListTasksResponse) else shown


def _label(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark:
        raise Failure("--label: must be KEY=VALUE")
    return key, value


def _object(text: str | None, option: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text is not None else None
    except (ValueError, RecursionError) as error:
        raise Failure(f"{option}: {error}") from None
    if value is not None and not isinstance(value, dict):
        raise Failure(f"{option}: must be a JSON object")
    return value
