"""`taskyard replicas`: list the servers that share the store of one, and let them take namespaces or not."""

from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer
from google.protobuf import json_format
from google.protobuf.message import Message
from rich.text import Text

from taskyard.v1 import admin_pb2 as pb
from taskyard.v1.admin_pb2_grpc import AdminServiceStub

from .connection import Connection, with_connection_to_server
from .console import out
from .failure import Misuse
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .server import local_time, shown, time_ago

app = typer.Typer()

NONE: Final = "this server shares its store with no others"
STYLES: Final = {"alive": "green", "drains": "yellow", "dead": "red"}

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of a replica, or its instance.")]


@app.callback(invoke_without_command=True)
@with_output
@with_connection_to_server
def replicas(
    context: typer.Context,
    connection: Connection,
    as_json: bool = False,
) -> None:
    """List the replicas that share the store of the server, those too that died within the last day."""
    if context.invoked_subcommand is not None:
        sources = [context.get_parameter_source(name) for name in context.params]
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise Misuse(f"give options after {context.invoked_subcommand}")
        return
    with connection.opened() as channel:
        answer = AdminServiceStub(channel).ListReplicas(pb.ListReplicasRequest(), **connection.call())
    if as_json:
        _print_json(answer)
    elif not answer.HasField("format_level"):
        out.print(NONE)
    else:
        _table(answer.replicas, answer.format_level).print()


@app.command()
@with_output
@with_connection_to_server
def drain(name: NameArgument, connection: Connection, as_json: bool = False) -> None:
    """Let a replica give its namespaces to the others, and take none, until it is resumed or ends."""
    with connection.opened() as channel:
        request = pb.DrainReplicaRequest(replica=name)
        answer = AdminServiceStub(channel).DrainReplica(request, **connection.call())
    _tell(answer, "drains", as_json)


@app.command()
@with_output
@with_connection_to_server
def resume(name: NameArgument, connection: Connection, as_json: bool = False) -> None:
    """Let a replica take namespaces again."""
    with connection.opened() as channel:
        request = pb.ResumeReplicaRequest(replica=name)
        answer = AdminServiceStub(channel).ResumeReplica(request, **connection.call())
    _tell(answer, "takes namespaces", as_json)


def _tell(answer: pb.DrainReplicaResponse | pb.ResumeReplicaResponse, what: str, as_json: bool) -> None:
    if as_json:
        _print_json(answer)
        return
    for replica in answer.replicas:
        namespaces = "1 namespace" if replica.namespaces == 1 else f"{replica.namespaces} namespaces"
        out.print(shown(f"{replica.name} {what}, and owns {namespaces}"))


def _table(found: Iterable[pb.Replica], level: int) -> ListingTable:
    heads = ("name", "status", number("namespaces"), Head("address", 1), Head("version", 3), Head("level", 2))
    table = ListingTable(*heads, Head("started", 5), Head("renewed", 4), Head("instance", 6))
    for replica in found:
        own = str(replica.format_level)
        table.add(
            shown(replica.name + (" (this one)" if replica.answering else "")),
            _status(replica),
            str(replica.namespaces),
            shown(replica.address),
            shown(replica.version),
            own if replica.format_level == level else f"{own} ({level} in force)",
            local_time(replica.started_at),
            time_ago(replica.renewed_at),
            shown(replica.instance),
        )
    return table


def _status(replica: pb.Replica) -> Text:
    if replica.HasField("died_at"):
        return Text(f"dead, {time_ago(replica.died_at)}", STYLES["dead"])
    status = "drains" if replica.draining else "alive"
    return Text(status, STYLES[status])


def _print_json(answer: Message) -> None:
    """Print an answer as REST does: zeros included."""
    fields: dict[str, Any] = json_format.MessageToDict(answer, always_print_fields_with_no_presence=True)
    print_data(fields)
