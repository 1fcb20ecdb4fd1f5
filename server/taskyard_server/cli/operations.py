"""`taskyard operations list | get | wait | cancel`: what is done to many tasks at once."""

from typing import Annotated

import typer
from google.protobuf import json_format

from taskyard.v1 import operation_pb2 as pb
from taskyard.v1.operation_pb2_grpc import OperationServiceStub
from taskyard_server.conversion.payload import message_to_json

from .bulk import summary, wait_for_end
from .connection import Connection, with_connection
from .console import out
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .server import local_time

app = typer.Typer(help="Show and cancel what is done to many tasks at once.", no_args_is_help=True)

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The operation's id.")]


@app.command("list")
@with_output
@with_connection
def list_operations(
    connection: Connection,
    limit: Annotated[int, typer.Option(help="The most operations to show.", min=1, max=1000)] = 100,
    as_json: bool = False,
) -> None:
    """List the operations that are at work or ended within the hour, the newest first."""
    with connection.opened() as channel:
        request = pb.ListOperationsRequest(page_size=limit)
        answer = OperationServiceStub(channel).ListOperations(request, **connection.call())
    if as_json:
        print_data({"operations": [], **message_to_json(answer, zeros=True)})
        return
    counted = number("matched", 2), number("done"), number("skipped", 4), number("failed", 3)
    table = ListingTable("operation", "what", "status", *counted, Head("begun", 1), Head("which", 5))
    for each in answer.operations:
        counts = (each.matched, each.done, each.skipped, each.failed)
        texts = (
            each.operation_id,
            pb.Operation.Kind.Name(each.kind),
            pb.Operation.Status.Value.Name(each.status),
            *map(str, counts),
            local_time(each.created_at),
            _filter_text(each),
        )
        table.add(*texts)
    if answer.next_page_token:
        table.note = f"the newest {len(answer.operations)}; there are more"
    table.print()


@app.command()
@with_output
@with_connection
def get(operation_id: IdArgument, connection: Connection, as_json: bool = False) -> None:
    """Show one operation."""
    with connection.opened() as channel:
        request = pb.GetOperationRequest(operation_id=operation_id)
        answer = OperationServiceStub(channel).GetOperation(request, **connection.call())
    _show(answer.operation, as_json)


@app.command()
@with_output
@with_connection
def wait(operation_id: IdArgument, connection: Connection, as_json: bool = False) -> None:
    """Wait until an operation has ended."""
    with connection.opened() as channel:
        stub = OperationServiceStub(channel)
        request = pb.GetOperationRequest(operation_id=operation_id)
        answer = stub.GetOperation(request, **connection.call())
        _show(wait_for_end(stub, connection, answer.operation), as_json)


@app.command()
@with_output
@with_connection
def cancel(operation_id: IdArgument, connection: Connection, as_json: bool = False) -> None:
    """End an operation where it stands; what it has done stays."""
    with connection.opened() as channel:
        request = pb.CancelOperationRequest(operation_id=operation_id)
        answer = OperationServiceStub(channel).CancelOperation(request, **connection.call())
    _show(answer.operation, as_json)


def _show(operation: pb.Operation, as_json: bool) -> None:
    if as_json:
        print_data({"operation": message_to_json(operation, zeros=True)})
    else:
        out.print(summary(operation), markup=False)


def _filter_text(operation: pb.Operation) -> str:
    if not operation.HasField("filter"):
        return "all"
    fields = json_format.MessageToDict(operation.filter)
    return ", ".join(f"{name}: {value}" for name, value in fields.items())
