"""`taskyard token create | list | show | revoke` and `taskyard whoami`: who may call, and who one is.

The first four ask the server of this machine by its admin socket, where no credential is needed, unless a server or a
credential is named: so the first admin is made, and a new one where all tokens are lost.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from google.protobuf import json_format
from google.protobuf.message import Message

from taskyard.v1 import access_pb2
from taskyard.v1 import token_pb2 as pb
from taskyard.v1.token_pb2_grpc import TokenServiceStub
from taskyard_server.access.grants import Role
from taskyard_server.net.admin_address import address_of, is_served

from .connection import Connection, to_socket, with_connection_to_server
from .console import out
from .failure import Failure, Misuse
from .listing import Head, ListingTable
from .output_form import print_data, with_output
from .server import UNIT_SECS, fields_table, filled, given, local_time, shown
from .settings_options import ConfigOption, StoreOption
from .store.choice import admin_socket_in

app = typer.Typer(help="Make, show and revoke the tokens that calls come with.", no_args_is_help=True)

DURATION: Final = re.compile(r"([0-9]+)([smhd])")
MOST_SECS: Final = 2**32 - 1
ROLES: Final = ", ".join(role.word for role in Role)

TokenArgument = Annotated[str, typer.Argument(metavar="ID", help="The token's id, tok_...")]


def _patterns(what: str, default: str = "") -> Any:
    return typer.Option(metavar="PATTERN", help=f"{what}; * at the end is any rest. Repeatable.", show_default=default)


@app.command()
@with_output
@with_connection_to_server
def create(
    connection: Connection,
    name: Annotated[
        str | None, typer.Argument(help="Whom or what it is for.", show_default="the word of the role")
    ] = None,
    role: Annotated[str | None, typer.Option(help=f"What it may do: {ROLES}.")] = None,
    namespace: Annotated[list[str] | None, _patterns("A namespace in which it holds", "default")] = None,
    agent: Annotated[list[str] | None, _patterns("An agent in whose name it submits")] = None,
    host: Annotated[list[str] | None, _patterns("A host in whose name it works")] = None,
    project: Annotated[list[str] | None, _patterns("A project that its hosts may serve", "all")] = None,
    action: Annotated[list[str] | None, _patterns("An action that its hosts may run", "all")] = None,
    payloads: Annotated[bool, typer.Option("--payloads", help="Let a viewer see params and results.")] = False,
    expires: Annotated[
        str | None, typer.Option(metavar="DURATION", help="When it ends: 12h, 30d.", show_default="never")
    ] = None,
    admin: Annotated[bool, typer.Option("--admin", help="The same as --role admin.")] = False,
    as_json: bool = False,
    config_file: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Make a token, and print its secret, which is never shown again."""
    if admin and role not in (None, Role.ADMIN.word):
        raise Misuse("--admin: is --role admin; give one of them")
    word = Role.ADMIN.word if admin else role
    if word is None:
        raise Misuse("give --role or --admin")
    if word not in [each.word for each in Role]:
        raise Misuse(f"--role: must be among {ROLES}")
    if namespace is None and word != Role.ADMIN.word:
        namespace = ["default"]
    grant = {
        "role": word,
        "namespaces": namespace,
        "agents": agent,
        "hosts": host,
        "projects": project,
        "actions": action,
        "payloads": payloads or None,
    }
    fields = {"name": word if name is None else name, "grants": [given(grant)], "ttlSecs": _seconds(expires)}
    request = filled(pb.CreateTokenRequest(), given(fields))
    with _service(connection, config_file, store) as (service, call):
        answer: pb.CreateTokenResponse = service.CreateToken(request, **call)
    if as_json:
        _print_json(answer)
        return
    token = answer.token
    end = f"until {local_time(token.expires_at)}" if token.HasField("expires_at") else "until it is revoked"
    text = f"{token.token_id} ({token.name}): {_words(token.grants)}, {end}. Its secret is shown this once:"
    print(shown(text).plain, file=sys.stderr)
    print(answer.secret)


@app.command("list")
@with_output
@with_connection_to_server
def list_tokens(
    connection: Connection,
    ended: Annotated[bool, typer.Option("--ended", help="Show those, too, that ended in the last 30 days.")] = False,
    as_json: bool = False,
    config_file: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """List the tokens, oldest first, without their secrets."""
    found, request = pb.ListTokensResponse(), pb.ListTokensRequest(include_ended=ended)
    with _service(connection, config_file, store) as (service, call):
        while True:
            page: pb.ListTokensResponse = service.ListTokens(request, **call)
            found.tokens.extend(page.tokens)
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
    if as_json:
        _print_json(found)
        return
    table = ListingTable("id", "name", Head("may", 1), Head("created", 4), Head("last used", 3), Head("ends", 2))
    for token in found.tokens:
        end = (
            f"revoked {local_time(token.revoked_at)}" if token.HasField("revoked_at") else local_time(token.expires_at)
        )
        texts = token.token_id, token.name, _words(token.grants)
        table.add(*map(shown, texts), local_time(token.created_at), local_time(token.last_used_at), end)
    table.print()


@app.command()
@with_output
@with_connection_to_server
def show(
    connection: Connection,
    token_id: TokenArgument,
    as_json: bool = False,
    config_file: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """Show one token, without its secret."""
    with _service(connection, config_file, store) as (service, call):
        answer: pb.GetTokenResponse = service.GetToken(pb.GetTokenRequest(token_id=token_id), **call)
    if as_json:
        _print_json(answer)
        return
    token = answer.token
    fields = {
        "id": token.token_id,
        "name": token.name,
        "may": _words(token.grants),
        "created": local_time(token.created_at),
        "created by": token.created_by,
        "last used": local_time(token.last_used_at),
        "expires": local_time(token.expires_at),
        "revoked": local_time(token.revoked_at),
    }
    out.print(fields_table({field: value for field, value in fields.items() if value}))


@app.command()
@with_output
@with_connection_to_server
def revoke(
    connection: Connection,
    token_id: TokenArgument,
    as_json: bool = False,
    config_file: ConfigOption = None,
    store: StoreOption = None,
) -> None:
    """End a token, at once and for good."""
    request = pb.RevokeTokenRequest(token_id=token_id)
    with _service(connection, config_file, store) as (service, call):
        answer: pb.RevokeTokenResponse = service.RevokeToken(request, **call)
    if as_json:
        _print_json(answer)
    else:
        out.print(shown(f"{answer.token.token_id} ({answer.token.name}) is revoked"))


@with_output
@with_connection_to_server
def whoami(connection: Connection, as_json: bool = False) -> None:
    """Show who the server takes one for."""
    with connection.opened() as channel:
        answer: pb.WhoAmIResponse = TokenServiceStub(channel).WhoAmI(pb.WhoAmIRequest(), **connection.call())
    if as_json:
        _print_json(answer)
        return
    fields = {
        "name": answer.name,
        "by": answer.credential if answer.credential.startswith(answer.kind) else f"{answer.kind} {answer.credential}",
        "may": _words(answer.grants),
        "expires": local_time(answer.expires_at),
        "authentication": "on" if answer.authentication else "off: anyone who reaches the server is admin",
    }
    out.print(fields_table({field: value for field, value in fields.items() if value}))


# Which server


@contextmanager
def _service(connection: Connection, config_file: Path | None, store: str | None) -> Iterator[Any]:
    """The service of the server that is meant, and the arguments of its calls; every error is one line."""
    reached = _reached(connection, config_file, store)
    with reached.opened() as channel:
        yield TokenServiceStub(channel), reached.call()


def _reached(connection: Connection, config_file: Path | None, store: str | None) -> Connection:
    names_a_store = store is not None or config_file is not None
    if connection.is_given and names_a_store:
        raise Misuse("give --server, or --store and --config, not both")
    if connection.is_named and not names_a_store:
        return connection
    try:
        admin, shown_store = admin_socket_in(config_file, store)
    except Failure:
        if names_a_store:
            raise
        return connection
    if is_served(admin):
        return to_socket(address_of(admin))
    if names_a_store:
        raise Failure(f"no server runs on {shown_store}")
    return connection


# How it is shown


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    match = DURATION.fullmatch(text)
    secs = int(match[1]) * UNIT_SECS[match[2]] if match else 0
    if not 1 <= secs <= MOST_SECS:
        raise Misuse("--expires: must be a duration such as 12h or 30d")
    return secs


def _words(grants: Any) -> str:
    return "; ".join(map(_grant_words, grants))


def _grant_words(grant: pb.Grant) -> str:
    """`agent ann, bob in default`."""
    words = access_pb2.Role.Name(grant.role)
    if names := [*grant.agents, *grant.hosts]:
        words += f" {', '.join(names)}"
    for what, listed in (("projects", grant.projects), ("actions", grant.actions)):
        if list(listed) not in ([], ["*"]):
            words += f", {what} {', '.join(listed)}"
    if grant.payloads:
        words += " with payloads"
    return f"{words} in {', '.join(grant.namespaces)}" if grant.namespaces else words


def _print_json(answer: Message) -> None:
    """Print an answer as REST does: zeros included."""
    fields: dict[str, Any] = json_format.MessageToDict(answer, always_print_fields_with_no_presence=True)
    print_data(fields)
