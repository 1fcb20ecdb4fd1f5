"""`taskyard send-event`: something that parked tasks wait for is told them."""

from typing import Annotated

import typer

from taskyard.v1 import event_pb2 as pb
from taskyard.v1.event_pb2_grpc import EventServiceStub
from taskyard_server.conversion.payload import message_to_json

from .connection import Connection, with_connection
from .console import out
from .output_form import print_data, with_output
from .questions import json_value
from .server import milliseconds


@with_output
@with_connection
def send_event(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that tasks wait for.")],
    connection: Connection,
    payload: Annotated[
        str | None,
        typer.Argument(metavar="PAYLOAD", help="What they get: JSON, or a text where it is none. Default null."),
    ] = None,
    life: Annotated[
        str | None,
        typer.Option(
            "--life",
            metavar="SPAN",
            help="For how long those get it, too, that begin to wait later, such as 0, 30s or 10m. Default 1m.",
        ),
    ] = None,
    event_id: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="An id: within its life the same is the same event."),
    ] = None,
    as_json: bool = False,
) -> None:
    """Send an event to a name, which lets all tasks go on that wait for it."""
    request = pb.SendEventRequest(name=name, event_id=event_id)
    if payload is not None:
        request.payload.CopyFrom(json_value(payload, "PAYLOAD"))
    if life is not None:
        request.life_secs = 0 if life == "0" else milliseconds(life, "--life") / 1000
    with connection.opened() as channel:
        response: pb.SendEventResponse = EventServiceStub(channel).SendEvent(request, **connection.call())
    if as_json:
        print_data(message_to_json(response))
        return
    done = "was sent before" if response.repeated else "is sent"
    tasks = "1 task was" if response.waiting == 1 else f"{response.waiting:,} tasks were"
    out.print(f"{response.event_id} {done}: {tasks} waiting for it", soft_wrap=True)
