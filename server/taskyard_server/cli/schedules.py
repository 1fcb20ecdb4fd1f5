"""`taskyard schedule create | put | get | list | update | delete | pause | resume | trigger | preview`: schedules."""

from typing import Annotated, Any, Final

import grpc
import typer
from google.protobuf.message import Message

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.schedule_pb2_grpc import ScheduleServiceStub
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.core.schedules.schedule import CatchUp, Overlap

from . import completed
from .connection import Connection, with_connection
from .console import out
from .failure import Misuse
from .listing import Head, ListingTable
from .output_form import print_data, with_output
from .server import fields_table, filled, given, instant, local_time, shown
from .task_options import with_task_options

app = typer.Typer(help="Submit tasks by the clock.", no_args_is_help=True)

REPLACED: Final = ("time_zone", "display_name", "overlap", "catch_up", "catch_up_window_secs", "task")
STYLES: Final = {"active": "green", "paused": "magenta"}

ScheduleArgument = Annotated[
    str, typer.Argument(metavar="SCHEDULE", help="The schedule's id.", autocompletion=completed.schedules)
]
CronOption = Annotated[str | None, typer.Option(help="When it is due: five fields, such as '0 9 * * 1-5'.")]
EveryOption = Annotated[str | None, typer.Option(help="When it is due: an interval, such as 30s, 10m, 1.5h or 1d.")]
AtOption = Annotated[str | None, typer.Option(help="When it is due: once, RFC 3339.")]
ZoneOption = Annotated[
    str | None, typer.Option("--time-zone", help="The time zone of --cron.", show_default="UTC when created")
]
OldZoneOption = Annotated[str | None, typer.Option("--zone", hidden=True)]
NameOption = Annotated[str | None, typer.Option(help="A name for people.")]
OverlapOption = Annotated[
    Overlap | None, typer.Option(help="If the one before has not ended.", show_default="skip when created")
]
CatchUpOption = Annotated[
    CatchUp | None, typer.Option(help="What an outage delayed.", show_default="last when created")
]
WindowOption = Annotated[
    int | None,
    typer.Option(metavar="SECS", help="How far back --catch-up all looks.", show_default="86400 when created", min=0),
]
DeadlineOption = Annotated[
    int | None, typer.Option(metavar="SECS", help="How long each task has until it fails.", min=1)
]


@app.command()
@with_output
@with_task_options("agent", "action")
@with_connection
def create(
    task: dict[str, Any],
    connection: Connection,
    deadline: DeadlineOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtOption = None,
    time_zone: ZoneOption = None,
    zone: OldZoneOption = None,
    schedule_id: Annotated[str | None, typer.Option("--id", help="Its id.", show_default="the server chooses")] = None,
    name: NameOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    window: WindowOption = None,
    paused: Annotated[bool, typer.Option("--paused", help="Create it paused.")] = False,
    as_json: bool = False,
) -> None:
    """Create a schedule: give one of --cron, --every and --at."""
    cadence = _cadence(cron, every, at)
    if not cadence:
        raise Misuse("give one of --cron, --every and --at")
    fields = {
        "scheduleId": schedule_id,
        "timeZone": _time_zone(time_zone, zone),
        "displayName": name,
        "overlap": overlap,
        "catchUp": catch_up,
        "catchUpWindowSecs": window,
        "paused": paused or None,
        "task": task | given({"deadlineSecs": deadline}),
    }
    request = filled(pb.CreateScheduleRequest(), cadence | given(fields))
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).CreateSchedule(request, **connection.call())
    _show_status(answer, as_json)


@app.command()
@with_output
@with_task_options("agent", "action")
@with_connection
def put(
    schedule_id: ScheduleArgument,
    task: dict[str, Any],
    connection: Connection,
    deadline: DeadlineOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtOption = None,
    time_zone: ZoneOption = None,
    name: NameOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    window: WindowOption = None,
    as_json: bool = False,
) -> None:
    """Create a schedule, or replace all parts of the one that has the id; what is not given has its default."""
    cadence = _cadence(cron, every, at)
    if not cadence:
        raise Misuse("give one of --cron, --every and --at")
    parts = cadence | given(
        {
            "scheduleId": schedule_id,
            "timeZone": time_zone,
            "displayName": name,
            "overlap": overlap,
            "catchUp": catch_up,
            "catchUpWindowSecs": window,
            "task": task | given({"deadlineSecs": deadline}),
        }
    )
    replacing = filled(pb.UpdateScheduleRequest(), parts)
    replacing.update_mask.paths.extend([*cadence, *REPLACED])
    answer: pb.UpdateScheduleResponse | pb.CreateScheduleResponse
    with connection.opened() as channel:
        stub = ScheduleServiceStub(channel)
        try:
            answer = stub.UpdateSchedule(replacing, **connection.call())
        except grpc.RpcError as error:
            if not isinstance(error, grpc.Call) or error.code() is not grpc.StatusCode.NOT_FOUND:
                raise
            answer = stub.CreateSchedule(filled(pb.CreateScheduleRequest(), parts), **connection.call())
    _show_status(answer, as_json)


@app.command()
@with_output
@with_connection
def get(
    schedule_id: ScheduleArgument,
    connection: Connection,
    as_json: bool = False,
) -> None:
    """Show one schedule."""
    request = filled(pb.GetScheduleRequest(), {"scheduleId": schedule_id})
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).GetSchedule(request, **connection.call())
    if as_json:
        _print_json(answer)
    else:
        out.print(fields_table(message_to_json(answer.schedule)))


@app.command("list")
@with_output
@with_connection
def list_schedules(
    connection: Connection,
    limit: Annotated[int, typer.Option(help="The most schedules to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """List the schedules, oldest first."""
    with connection.opened() as channel:
        request = pb.ListSchedulesRequest(page_size=limit)
        answer = ScheduleServiceStub(channel).ListSchedules(request, **connection.call())
    if as_json:
        _print_json(answer)
        return
    table = ListingTable("id", "when", Head("zone", 2), "status", Head("next due", 1), Head("last fired", 3))
    for schedule in answer.schedules:
        status = shown(_status(schedule))
        status.stylize(STYLES[status.plain])
        when = local_time(schedule.at) or schedule.interval or schedule.cron
        zone = schedule.time_zone if schedule.cron else ""
        times = local_time(schedule.next_due_at), local_time(schedule.last_fired_at)
        table.add(*map(shown, (schedule.schedule_id, when, zone)), status, *times)
    if answer.next_page_token:
        table.note = f"the first {len(answer.schedules)}; there are more"
    table.print()


@app.command()
@with_output
@with_task_options()
@with_connection
def update(
    schedule_id: ScheduleArgument,
    task: dict[str, Any],
    connection: Connection,
    deadline: DeadlineOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    at: AtOption = None,
    time_zone: ZoneOption = None,
    zone: OldZoneOption = None,
    name: NameOption = None,
    overlap: OverlapOption = None,
    catch_up: CatchUpOption = None,
    window: WindowOption = None,
    as_json: bool = False,
) -> None:
    """Change what is given of a schedule, of when it is due and of its task."""
    task |= given({"deadlineSecs": deadline})
    fields = {
        "timeZone": _time_zone(time_zone, zone),
        "displayName": name,
        "overlap": overlap,
        "catchUp": catch_up,
        "catchUpWindowSecs": window,
    }
    changes = _cadence(cron, every, at) | given(fields)
    if not changes and not task:
        raise Misuse("give what is to change")
    request = filled(pb.UpdateScheduleRequest(), changes | {"scheduleId": schedule_id})
    with connection.opened() as channel:
        stub = ScheduleServiceStub(channel)
        if task:
            # The API replaces the whole task, so the fields that no option changes are read first.
            current = stub.GetSchedule(
                pb.GetScheduleRequest(schedule_id=schedule_id), **connection.call()
            ).schedule.task
            for field in task:
                current.ClearField(current.DESCRIPTOR.fields_by_camelcase_name[field].name)  # type: ignore[arg-type]
            request.task.CopyFrom(filled(current, task))
        answer = stub.UpdateSchedule(request, **connection.call())
    _show_status(answer, as_json)


@app.command()
@with_output
@with_connection
def delete(
    schedule_id: ScheduleArgument,
    connection: Connection,
    as_json: bool = False,
) -> None:
    """Delete a schedule; the tasks that it has submitted go on."""
    request = filled(pb.DeleteScheduleRequest(), {"scheduleId": schedule_id})
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).DeleteSchedule(request, **connection.call())
    if as_json:
        _print_json(answer)
    else:
        out.print(shown(f"{schedule_id} is deleted"))


@app.command()
@with_output
@with_connection
def pause(
    schedule_id: ScheduleArgument,
    connection: Connection,
    as_json: bool = False,
) -> None:
    """Let a schedule fire no more until it is resumed."""
    request = filled(pb.PauseScheduleRequest(), {"scheduleId": schedule_id})
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).PauseSchedule(request, **connection.call())
    _show_status(answer, as_json)


@app.command()
@with_output
@with_connection
def resume(
    schedule_id: ScheduleArgument,
    connection: Connection,
    catch_up: Annotated[CatchUp | None, typer.Option(help="What the pause delayed.", show_default="none")] = None,
    as_json: bool = False,
) -> None:
    """Let a paused schedule go on."""
    request = filled(pb.ResumeScheduleRequest(), given({"scheduleId": schedule_id, "catchUp": catch_up}))
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).ResumeSchedule(request, **connection.call())
    _show_status(answer, as_json)


@app.command()
@with_output
@with_connection
def trigger(
    schedule_id: ScheduleArgument,
    connection: Connection,
    idempotency_key: Annotated[str | None, typer.Option(help="The same key twice fires once.")] = None,
    as_json: bool = False,
) -> None:
    """Let a schedule fire now, even a paused one."""
    fields = {"scheduleId": schedule_id, "idempotencyKey": idempotency_key}
    request = filled(pb.TriggerScheduleRequest(), given(fields))
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).TriggerSchedule(request, **connection.call())
    if as_json:
        _print_json(answer)
        return
    made = answer.trigger
    note = f" as {made.task_id}" if made.task_id else f": {made.reason}" if made.reason else ""
    out.print(shown(f"{made.trigger_id} is {pb.Trigger.State.Name(made.state)}{note}"), soft_wrap=True)


@app.command()
@with_output
@with_connection
def preview(
    schedule_id: ScheduleArgument,
    connection: Connection,
    count: Annotated[int, typer.Option(help="How many times to show.", min=1, max=1000)] = 10,
    after: Annotated[str | None, typer.Option(help="Only times after this one, RFC 3339.", show_default="now")] = None,
    as_json: bool = False,
) -> None:
    """Show when a schedule will be due."""
    fields = {"scheduleId": schedule_id, "count": count, "after": instant(after, "--after")}
    request = filled(pb.PreviewScheduleRequest(), given(fields))
    with connection.opened() as channel:
        answer = ScheduleServiceStub(channel).PreviewSchedule(request, **connection.call())
    if as_json:
        _print_json(answer)
        return
    for due_at in answer.due_at:
        out.print(local_time(due_at))


def _cadence(cron: str | None, every: str | None, at: str | None) -> dict[str, Any]:
    """The JSON field that says when the schedule is due, empty if no option was given."""
    cadence = given({"cron": cron, "interval": every, "at": instant(at, "--at")})
    if len(cadence) > 1:
        raise Misuse("give only one of --cron, --every and --at")
    return cadence


def _time_zone(given: str | None, old: str | None) -> str | None:
    """The time zone, also where it is given by the name that the option had in 0.2."""
    if old is None:
        return given
    if given is not None:
        raise Misuse("give only one of --time-zone and --zone")
    typer.echo("taskyard: --zone is now --time-zone, and goes with the next release", err=True)
    return old


def _status(schedule: pb.Schedule) -> str:
    return pb.Schedule.Status.Name(schedule.status)


def _show_status(
    answer: pb.CreateScheduleResponse
    | pb.UpdateScheduleResponse
    | pb.PauseScheduleResponse
    | pb.ResumeScheduleResponse,
    as_json: bool,
) -> None:
    """Print when the schedule is due next, or why it is not."""
    if as_json:
        _print_json(answer)
        return
    schedule = answer.schedule
    status = "is due no more"
    if schedule.status == pb.Schedule.paused:
        status = "is paused"
    elif schedule.HasField("next_due_at"):
        status = f"is due at {local_time(schedule.next_due_at)}"
    out.print(shown(f"{schedule.schedule_id} {status}"), soft_wrap=True)


def _print_json(answer: Message) -> None:
    print_data(message_to_json(answer, zeros=True))
