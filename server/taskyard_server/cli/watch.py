"""`taskyard watch`: show the events of tasks as they happen.

A terminal shows a table of the last events, any other output one line or one JSON object per event. The watch survives
broken connections and restarts of the server; it ends when it is interrupted, or when the watched tasks have ended.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Annotated, Final

import grpc
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from taskyard.calls.retrying import Backoff
from taskyard.connection.credentials import Renewal
from taskyard.errors import NotOwner, error_from_rpc
from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .console import out
from .listing import Head, ListingTable, number, task_id
from .output_form import print_line, with_output
from .server import shown, state_cell, took_text, why_text
from .several_servers import PATIENCE_SECS
from .task_ends import exit_as
from .task_ids import whole_id

Show = Callable[[task_pb2.TaskEvent], None]

RECONNECT_SECS: Final = 1.0
REFRESHES_PER_SEC: Final = 8
FRAME_LINES: Final = 4
"""Lines of the terminal that hold no events."""

trouble = Console(stderr=True, highlight=False)


@with_output
@with_connection
def watch(
    connection: Connection,
    agent: Annotated[str, typer.Option(help="Only tasks of this agent.")] = "",
    batch: Annotated[str, typer.Option(help="Only tasks of this batch.")] = "",
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be given more than once.")] = None,
    state: Annotated[str, typer.Option(help="Only what leaves a task in these states, separated by commas.")] = "",
    target: Annotated[str, typer.Option(help="Only tasks of this target.")] = "",
    until_ended: Annotated[
        bool,
        typer.Option(
            "--until-ended",
            help="End once all tasks given by --task or --batch have: exit code 1 unless all are done.",
        ),
    ] = False,
    as_json: bool = False,
) -> None:
    """Show what happens to tasks until Ctrl-C; with --task or --batch, first how they stand."""
    asked = task_pb2.WatchTasksRequest(
        task_ids=task,
        batch_id=batch or None,
        agent_id=agent or None,
        target=target or None,
        state=state or None,
        include_current=bool(task or batch) or None,
        until_ended=until_ended or None,
    )
    states: dict[str, int] = {}
    try:
        with _display(as_json) as show:
            if task:
                with connection.opened() as channel:
                    asked.task_ids[:] = [whole_id(channel, connection, each) for each in task]
            for event in _events(asked, connection):
                states[event.task.task_id] = event.task.state
                show(event)
        if until_ended:
            exit_as(*states.values())
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:
        # The reader of the pipe has gone. Flushing the rest of the buffer at exit must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _events(asked: task_pb2.WatchTasksRequest, connection: Connection) -> Iterator[task_pb2.TaskEvent]:
    """The events of one watch, over as many streams as it takes. `asked` holds the cursor."""
    is_connected = has_begun = False
    renewal, backoff = Renewal(connection.credentials), Backoff()
    until = time.monotonic() + PATIENCE_SECS
    while True:
        pause_secs = RECONNECT_SECS
        call = connection.call(None)
        with connection.opened() as channel:
            try:
                for message in task_pb2_grpc.TaskServiceStub(channel).WatchTasks(asked, **call):
                    is_connected = has_begun = True
                    renewal.worked()
                    backoff.reset()
                    yield from message.events
                    if message.end.reason == task_pb2.WatchEnd.tasks_ended:
                        return
                    if message.cursor:
                        asked.ClearField("include_current")
                        asked.cursor = message.cursor
            except grpc.RpcError as error:
                if not isinstance(error, grpc.Call):
                    raise
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    if not renewal.is_worth_it(call["metadata"]):
                        raise
                elif isinstance(stray := error_from_rpc(error), NotOwner):
                    if not has_begun and time.monotonic() > until:
                        raise
                    pause_secs = backoff.delay(stray)
                elif not has_begun or not _may_go_on(error.code(), asked):
                    raise
        if is_connected:
            is_connected = False
            trouble.print("taskyard: the watch broke off, and goes on as soon as it can", style="dim")
        time.sleep(pause_secs)


def _may_go_on(status: grpc.StatusCode, asked: task_pb2.WatchTasksRequest) -> bool:
    """True if the watch can go on after its stream ended with this status. After an expired cursor it begins anew."""
    if status is grpc.StatusCode.OUT_OF_RANGE:
        asked.ClearField("cursor")
        if asked.task_ids or asked.batch_id:
            asked.include_current = True
        else:
            trouble.print("taskyard: what happened in between cannot be shown any more", style="dim")
        return True
    return status is grpc.StatusCode.UNAVAILABLE


@contextmanager
def _display(as_json: bool) -> Iterator[Show]:
    """A function that shows an event: in a table on a terminal, as a line elsewhere."""
    if as_json:
        yield lambda event: print_line(message_to_json(event))
    elif not out.is_terminal:
        yield lambda event: print("  ".join(cell.plain for cell in _cells(event) if cell.plain), flush=True)
    else:
        rows: deque[task_pb2.TaskEvent] = deque(maxlen=500)
        with Live(get_renderable=lambda: _table(rows), console=out, refresh_per_second=REFRESHES_PER_SEC):
            yield rows.append


def _table(events: deque[task_pb2.TaskEvent]) -> Table:
    """The last events that fit on the terminal, the newest at the bottom."""
    heads = Head("time", 4), task_id("task"), Head("agent", 2), "action", "state", Head("host", 3)
    table = ListingTable(*heads, number("duration", 1), "error or progress")
    room = max(out.height - FRAME_LINES, 1)
    for event in list(events)[-room:]:
        table.add(*_cells(event))
    return table.table(out.width if out.is_fitted else None, is_cut=True)


def _cells(event: task_pb2.TaskEvent) -> tuple[Text, ...]:
    task = event.task
    at = event.occurred_at.ToDatetime(UTC).astimezone()
    note = why_text(task)
    if event.kind == task_pb2.TaskEvent.progressed:
        share = f"{task.progress.fraction:.0%} " if task.progress.HasField("fraction") else ""
        note = share + task.progress.message
    return (
        Text(f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}"),
        *map(shown, (task.task_id, task.agent_id, task.action)),
        Text("evicted") if event.kind == task_pb2.TaskEvent.evicted else state_cell(task.state),
        shown(task.host_id),
        Text(took_text(task)),
        shown(note),
    )
