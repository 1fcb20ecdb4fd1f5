"""`taskyard tree`: a task with all that its work has submitted, and what theirs has, as a tree."""

import time
from typing import Annotated, Final

import typer
from rich.text import Text

from taskyard.v1 import task_pb2
from taskyard.v1.wait_pb2 import Wait
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .console import out
from .descendants import Descendants, TreeLine, depth_first
from .listing import short_ids
from .output_form import print_data, with_output
from .server import length_text, local_time, shown, state_cell, took_text, why_text, word
from .task_ids import TaskArgument, whole_id

LINES: Final = ("├── ", "└── ", "│   ", "    ")
ASCII_LINES: Final = ("|-- ", "`-- ", "|   ", "    ")
"""Before a task, before the last one, and below these."""


@with_output
@with_connection
def tree(
    task_id: TaskArgument,
    connection: Connection,
    root: Annotated[bool, typer.Option("--root", help="The whole run: from its highest ancestor down.")] = False,
    limit: Annotated[int, typer.Option(help="The most tasks to show.", min=1, max=10_000)] = 200,
    as_json: bool = False,
) -> None:
    """Show a task with all that its work has submitted, and what theirs has, as a tree."""
    with connection.opened() as channel:
        reader = Descendants(channel, connection)
        task = reader.task(whole_id(channel, connection, task_id))
        top = reader.tree(reader.root(task) if root else task, limit)
    lines = list(depth_first(top))
    nodes = [line.node for line in lines if line.node is not None]
    left_out = sum(node.left_out for node in nodes)
    unread = [node.task.task_id for node in nodes if not node.is_read]
    if as_json:
        tasks = [message_to_json(node.task) for node in nodes]
        print_data({"tasks": tasks, "leftOut": left_out, "notLookedBelow": unread})
        return
    _print(lines, [node.task.task_id for node in nodes], marked=task.task_id if root else "")
    if left_out or unread:
        rest = f"at least {left_out} more are left out" if left_out else "there may be more"
        out.print(Text(f"the first {len(nodes)} tasks; {rest} (--limit)", "dim"))


def _print(lines: list[TreeLine], ids: list[str], marked: str) -> None:
    """A line a task. The marked one is the one that was asked for."""
    short = short_ids(ids) if out.is_fitted else dict(zip(ids, ids, strict=True))
    before, last, below, beside = ASCII_LINES if out.options.ascii_only else LINES
    for line in lines:
        text = Text("".join([beside if is_last else below for is_last in line.lasts[:-1]]), "dim")
        if line.lasts:
            text.append(last if line.lasts[-1] else before)
        if line.node is None:
            text.append(f"and {line.left_out} more")
        else:
            task = line.node.task
            text.append_text(_label(task, short[task.task_id], is_marked=task.task_id == marked))
        if out.is_fitted:
            text.truncate(out.size.width, overflow="ellipsis")
        out.print(text, soft_wrap=True)


def _label(task: task_pb2.Task, task_id: str, *, is_marked: bool) -> Text:
    """A task in a line: its name, id, state, how long it took, where it is or what it waits for, and its error."""
    name = f"{task.child_name} ({task.action})" if task.child_name else task.action
    label = Text("", "not dim").append_text(Text(shown(name).plain, "bold reverse" if is_marked else "bold"))
    label.append(f" {task_id} ", "dim").append_text(state_cell(task.state))
    steps = f"{task.steps} step{'s' if task.steps > 1 else ''}" if task.steps else ""
    parts = [_took(task), _place(task), steps, why_text(task) or task.notice]
    for part in filter(None, parts):
        label.append(", ").append_text(shown(" ".join(part.split())))
    return label


def _took(task: task_pb2.Task) -> str:
    """How long it took, or for how long it has been at work."""
    if task.HasField("started_at") and not task.HasField("completed_at"):
        return length_text(max(0.0, time.time() - task.started_at.seconds - task.started_at.nanos / 1e9))
    return took_text(task)


def _place(task: task_pb2.Task) -> str:
    """The host that has it or had it last, or what it waits for."""
    if task.HasField("park"):
        return "waits for " + " or ".join(map(_awaited, task.park.waits))
    if task.state == task_pb2.Task.pending:
        if task.hold:
            return "held"
        return f"waits until {local_time(task.not_before)}" if task.HasField("not_before") else _after(task)
    return f"on {task.host_id}" if task.host_id and word(task.state) != "queued" else ""


def _after(task: task_pb2.Task) -> str:
    count = len({*task.after, *task.inputs.values()})
    return f"waits for {_tasks(count)}" if count else ""


def _awaited(wait: Wait) -> str:
    if wait.kind == Wait.answer:
        return f"an answer to {wait.name}"
    if wait.kind == Wait.event:
        return f"the event {wait.event_name}"
    return _tasks(len(wait.task_ids)) if wait.kind == Wait.ends else local_time(wait.until)


def _tasks(count: int) -> str:
    return f"{count} task{'s' if count > 1 else ''}"
