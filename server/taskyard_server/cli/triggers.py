"""`taskyard triggers`: list when schedules fired, and how their tasks ended."""

from typing import Annotated, Final

import typer

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceStub
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .listing import Head, ListingTable, task_id
from .output_form import print_data, with_output
from .server import filled, given, instant, local_time, shown

STYLES: Final = {
    "pending": "cyan",
    "executing": "yellow",
    "completed": "green",
    "failed": "red",
    "skipped": "bright_black",
}


@with_output
@with_connection
def triggers(
    connection: Connection,
    schedule: Annotated[str | None, typer.Option(help="Only triggers of this schedule.")] = None,
    state: Annotated[str | None, typer.Option(help="Only triggers in these states, separated by commas.")] = None,
    due_from: Annotated[
        str | None, typer.Option("--from", help="Only those due at this time or later, RFC 3339.")
    ] = None,
    due_before: Annotated[
        str | None, typer.Option("--before", help="Only those due before this time, RFC 3339.")
    ] = None,
    limit: Annotated[int, typer.Option(help="The most triggers to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """List the triggers of schedules, latest due first."""
    fields = {
        "scheduleId": schedule,
        "state": state,
        "dueFrom": instant(due_from, "--from"),
        "dueBefore": instant(due_before, "--before"),
        "pageSize": limit,
    }
    request = filled(pb.ListTriggersRequest(), given(fields))
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).ListTriggers(request, **connection.call())
    if as_json:
        print_data(message_to_json(answer, zeros=True))
        return
    table = ListingTable(Head("id", 3), "schedule", Head("due", 1), "state", task_id("task", 2), "reason")
    for trigger in answer.triggers:
        state_cell = shown(pb.Trigger.State.Name(trigger.state))
        state_cell.stylize(STYLES[state_cell.plain])
        table.add(
            *map(shown, (trigger.trigger_id, trigger.schedule_id, local_time(trigger.due_at))),
            state_cell,
            *map(shown, (trigger.task_id, trigger.reason)),
        )
    if answer.next_page_token:
        table.note = f"the latest {len(answer.triggers)}; there are more"
    table.print()
