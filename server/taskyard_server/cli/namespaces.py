"""`taskyard namespace list | create | show | limit | delete`: namespaces, and the limits of their own."""

import sys
from typing import Annotated, Any, Final

import typer
from google.protobuf import json_format
from google.protobuf.message import Message

from taskyard.v1 import namespace_pb2 as pb
from taskyard.v1.namespace_pb2_grpc import NamespaceServiceStub

from .connection import Connection, with_connection_to_server
from .console import out
from .failure import Failure, Misuse
from .listing import Head, ListingTable, number
from .output_form import print_data, with_output
from .server import fields_table, filled, local_time, shown

app = typer.Typer(help="Show, limit and delete namespaces.", no_args_is_help=True)

LIMITS: Final = {field.json_name: field.name for field in pb.NamespaceLimits.DESCRIPTOR.fields}
GIVE_BACK: Final = "default"
NOBODY: Final = "(none)"
COUNTS: Final = ("queued", "inflight", "paused", "parked", "hosts", "schedules", "retained")

NamespaceArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")]
LimitsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="LIMIT=NUMBER...", help=f"Limits of its own: {', '.join(LIMITS)}.")
]


@app.command("list")
@with_output
@with_connection_to_server
def list_namespaces(connection: Connection, as_json: bool = False) -> None:
    """List the namespaces that one may see, by name."""
    found, request = pb.ListNamespacesResponse(), pb.ListNamespacesRequest()
    with connection.opened() as channel:
        stub = NamespaceServiceStub(channel)
        while True:
            page = stub.ListNamespaces(request, **connection.call())
            found.namespaces.extend(page.namespaces)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    if as_json:
        _print_json(found)
        return
    has_owners = any(namespace.HasField("term") for namespace in found.namespaces)
    counted = (number(name, lesser) for lesser, name in enumerate(COUNTS))
    owners = (Head("owner", 20), number("term", 21)) if has_owners else ()
    table = ListingTable("namespace", *counted, Head("limits of its own", 10), *owners)
    for namespace in found.namespaces:
        totals = namespace.totals if namespace.HasField("totals") else None
        counts = ("" if totals is None else str(getattr(totals, name)) for name in COUNTS)
        owner = [namespace.owner or NOBODY, f"{namespace.term:.0f}"] if has_owners else []
        table.add(namespace.name, *counts, _words(namespace.limits), *owner)
    table.print()


@app.command()
@with_output
@with_connection_to_server
def create(
    connection: Connection, namespace: NamespaceArgument, limits: LimitsArgument = None, as_json: bool = False
) -> None:
    """Create a namespace, with limits of its own. Without any the first task makes it as well."""
    request = pb.CreateNamespaceRequest(namespace=namespace)
    given, given_back = _limits(limits)
    if given_back:
        raise Misuse(f"{given_back[0]}: a new namespace has the server's limits but for those that are given")
    request.limits.CopyFrom(filled(pb.NamespaceLimits(), given))
    with connection.opened() as channel:
        answer = NamespaceServiceStub(channel).CreateNamespace(request, **connection.call())
    _show(answer, as_json)


@app.command()
@with_output
@with_connection_to_server
def show(connection: Connection, namespace: NamespaceArgument, as_json: bool = False) -> None:
    """Show one namespace: what is in it, and the limits in force."""
    request = pb.GetNamespaceRequest(namespace=namespace)
    with connection.opened() as channel:
        answer = NamespaceServiceStub(channel).GetNamespace(request, **connection.call())
    _show(answer, as_json)


@app.command()
@with_output
@with_connection_to_server
def limit(
    connection: Connection, namespace: NamespaceArgument, limits: LimitsArgument = None, as_json: bool = False
) -> None:
    """Change limits of a namespace, at once. LIMIT=default removes one: the server's own limit applies again."""
    given, given_back = _limits(limits)
    if not given and not given_back:
        raise Misuse("give what is to change, such as maxInflight=50")
    request = pb.UpdateNamespaceRequest(namespace=namespace, limits=filled(pb.NamespaceLimits(), given))
    request.update_mask.paths.extend(f"limits.{LIMITS[name]}" for name in (*given, *given_back))
    with connection.opened() as channel:
        answer = NamespaceServiceStub(channel).UpdateNamespace(request, **connection.call())
    _show(answer, as_json)


@app.command()
@with_output
@with_connection_to_server
def delete(
    connection: Connection,
    namespace: NamespaceArgument,
    force: Annotated[bool, typer.Option("--force", help="Also with live tasks, online hosts or schedules.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for the name again.")] = False,
    as_json: bool = False,
) -> None:
    """Delete a namespace with everything in it: tasks, history, schedules."""
    if not yes and _asked(f"All that is in {namespace} will be gone. To delete it, type its name: ") != namespace:
        raise Failure(f"that is not {namespace}: nothing is deleted")
    request = pb.DeleteNamespaceRequest(namespace=namespace, force=force)
    with connection.opened() as channel:
        answer = NamespaceServiceStub(channel).DeleteNamespace(request, **connection.call())
    if as_json:
        _print_json(answer)
    else:
        out.print(shown(f"{namespace} is deleted"))


def _asked(question: str) -> str:
    # On standard error, so that what is printed remains the answer of the server.
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def _limits(words: list[str] | None) -> tuple[dict[str, Any], list[str]]:
    """The limits that are given, as JSON fields, and those that are given back. Raises `Failure`."""
    given: dict[str, Any] = {}
    given_back = []
    for word in words or ():
        name, equals, number = word.partition("=")
        if name not in LIMITS or not equals:
            raise Misuse(f"{word}: must be LIMIT=NUMBER, with one of {', '.join(LIMITS)}")
        if name in given or name in given_back:
            raise Misuse(f"{name}: is given more than once")
        if number == GIVE_BACK:
            given_back.append(name)
            continue
        try:
            given[name] = float(number) if "." in number else int(number)
        except ValueError:
            raise Misuse(f"{word}: must be a number, or {GIVE_BACK}") from None
    return given, given_back


def _words(limits: pb.NamespaceLimits) -> str:
    return ", ".join(f"{field.json_name}={value:g}" for field, value in limits.ListFields())


def _show(
    answer: pb.CreateNamespaceResponse | pb.GetNamespaceResponse | pb.UpdateNamespaceResponse, as_json: bool
) -> None:
    if as_json:
        _print_json(answer)
        return
    namespace = answer.namespace
    fields = {"name": namespace.name, "created": local_time(namespace.created_at), "owner": namespace.owner}
    if namespace.HasField("term"):
        fields |= {"owner": namespace.owner or NOBODY, "term": f"{namespace.term:.0f}"}
    fields |= {field.json_name: str(value) for field, value in namespace.totals.ListFields()}
    for field, value in namespace.effective_limits.ListFields():
        own = " (its own)" if namespace.limits.HasField(field.name) else ""  # type: ignore[arg-type]
        fields[field.json_name] = f"{value:g}{own}"
    out.print(fields_table({field: value for field, value in fields.items() if value}))


def _print_json(answer: Message) -> None:
    """Print an answer as REST does: zeros included."""
    fields: dict[str, Any] = json_format.MessageToDict(answer, always_print_fields_with_no_presence=True)
    print_data(fields)
