"""`taskyard hosts | drain`: list the runtime hosts, and tell one to leave."""

from typing import Annotated, Any

import typer
from google.protobuf import json_format
from google.protobuf.message import Message
from rich.text import Text

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub

from . import completed
from .connection import Connection, with_connection
from .console import out
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .server import shown, time_ago

STYLES = {"alive": "green", "idle": "cyan", "busy": "yellow", "dead": "red"}


@with_output
@with_connection
def hosts(
    connection: Connection,
    as_json: bool = False,
) -> None:
    """List the runtime hosts."""
    found = pb.ListHostsResponse()
    with connection.opened() as channel:
        stub = RuntimeHostServiceStub(channel)
        request = pb.ListHostsRequest()
        while True:
            page = stub.ListHosts(request, **connection.call())
            found.hosts.extend(page.hosts)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    if as_json:
        _print_json(found)
        return
    table = ListingTable(
        *("host", "status", number("leases"), number("slots", 4), number("seen", 3)),
        *(number("cpu", 5), number("memory", 6), Head("actions", 1), Head("capabilities", 2)),
    )
    for host in found.hosts:
        table.add(*_row(host))
    table.print()


@with_output
@with_connection
def drain(
    host_id: Annotated[str, typer.Argument(metavar="HOST", help="The host's id.", autocompletion=completed.hosts)],
    connection: Connection,
    as_json: bool = False,
) -> None:
    """Hand a host nothing new, and tell it to finish and leave."""
    with connection.opened() as channel:
        answer = RuntimeHostServiceStub(channel).DrainHost(pb.DrainHostRequest(host_id=host_id), **connection.call())
    if as_json:
        _print_json(answer)
    else:
        out.print(shown(f"{answer.host.id} drains, {answer.host.leases} leases are left"))


def _row(host: pb.RuntimeHost) -> tuple[Text, ...]:
    status = pb.RuntimeHost.Status.Name(host.status)
    machine = host.machine
    words = Text(status, STYLES.get(status, ""))
    if host.draining:
        words.append(", drains")
    if host.HasField("lost_at") and status != "dead":
        words.append(f", lost {time_ago(host.lost_at)}")
    elif not host.online and status != "dead":
        words.append(", offline")
    return (
        shown(host.id),
        words,
        Text(str(host.leases)),
        Text(str(host.slots) if host.HasField("slots") else ""),
        Text(time_ago(host.last_heartbeat_at)),
        Text(f"{machine.cpu_percent:.0f} %" if machine.HasField("cpu_percent") else ""),
        Text(f"{machine.memory_mb:.0f} MiB" if machine.HasField("memory_mb") else ""),
        shown(", ".join(host.actions)),
        shown(", ".join(host.capabilities)),
    )


def _print_json(answer: Message) -> None:
    """Print hosts as REST does: in snake_case, zeros included."""
    fields: dict[str, Any] = json_format.MessageToDict(
        answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    fields.pop("next_page_token", None)
    print_data(fields)
