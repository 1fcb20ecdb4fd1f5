"""`taskyard targets`: list the serial queues, and what each waits for."""

from typing import Annotated

import typer
from rich.table import Column, Table

from taskyard.v1 import target_pb2 as pb
from taskyard.v1.target_pb2_grpc import TargetServiceStub
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.core.targets import TargetStatus

from .connection import Connection, with_connection
from .server import JsonOption, out, print_json, shown

STYLES = {"ready": "green", "running": "green", "stopping": "yellow", "blocked": "red", "waiting": "cyan"}


@with_connection
def targets(
    connection: Connection,
    status: Annotated[TargetStatus | None, typer.Option(help="Only targets with this status.")] = None,
    limit: Annotated[int, typer.Option(help="The most targets to show.", min=1, max=1000)] = 100,
    as_json: JsonOption = False,
) -> None:
    """List the targets by name, with what each waits for."""
    request = pb.ListTargetsRequest(page_size=limit)
    if status is not None:
        request.status = pb.Target.Status.Value(status.value)
    with connection.opened() as channel:
        answer = TargetServiceStub(channel).ListTargets(request, **connection.call())
    if as_json:
        print_json({"targets": [], **message_to_json(answer)})
        return
    table = Table("target", "status", Column("queued", justify="right"), "waits for", box=None)
    for target in answer.targets:
        name = pb.Target.Status.Name(target.status)
        standing = shown(name)
        standing.stylize(STYLES[name])
        table.add_row(shown(target.target), standing, str(target.queued), shown(target.waits_for))
    if answer.next_page_token:
        table.caption = f"the first {len(answer.targets)}; there are more"
    out.print(table)
