"""`taskyard targets`: list the serial queues, and what each waits for."""

from typing import Annotated

import typer

from taskyard.v1 import target_pb2 as pb
from taskyard.v1.target_pb2_grpc import TargetServiceStub
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.core.targets import TargetStatus

from .connection import Connection, with_connection
from .listing import ListingTable, number
from .output_form import print_data, with_output
from .server import shown

STYLES = {"ready": "green", "running": "green", "stopping": "yellow", "blocked": "red", "waiting": "cyan"}


@with_output
@with_connection
def targets(
    connection: Connection,
    status: Annotated[TargetStatus | None, typer.Option(help="Only targets with this status.")] = None,
    limit: Annotated[int, typer.Option(help="The most targets to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """List the targets by name, with what each waits for."""
    request = pb.ListTargetsRequest(page_size=limit)
    if status is not None:
        request.status = pb.Target.Status.Value(status.value)
    with connection.opened() as channel:
        answer = TargetServiceStub(channel).ListTargets(request, **connection.call())
    if as_json:
        print_data({"targets": [], **message_to_json(answer)})
        return
    table = ListingTable("target", "status", number("queued"), "waits for")
    for target in answer.targets:
        name = pb.Target.Status.Name(target.status)
        standing = shown(name)
        standing.stylize(STYLES[name])
        table.add(target.target, standing, str(target.queued), target.waits_for)
    if answer.next_page_token:
        table.note = f"the first {len(answer.targets)}; there are more"
    table.print()
