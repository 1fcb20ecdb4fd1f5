"""How commands reach a server: the options that say where it is and who calls, the channel, and errors in one line.

An option is a parameter of `connection`, and stands nowhere else.
"""

import os
from contextlib import AbstractContextManager
from typing import Annotated, Any, Final

import grpc
import typer

from taskyard.connection.credentials import AT_THE_TERMINAL, Credentials, find_credentials
from taskyard_server.access.token_text import PREFIX, is_whole

from .failure import Failure, Misuse
from .several_servers import opened_channel
from .shared_options import with_options

TIMEOUT_SECS: Final = 30
PANEL: Final = "Connection"


class Connection:
    """How a command reaches its server, and who calls.

    `is_named` says that options or variables name either; `is_given` that an option names the server.
    """

    def __init__(self, credentials: Credentials, is_named: bool = True, is_given: bool = False) -> None:
        self.credentials = credentials
        self.is_named = is_named
        self.is_given = is_given

    def opened(self) -> AbstractContextManager[grpc.Channel]:
        """A channel on which every error is one line."""
        return opened_channel(self.credentials)

    def call(self, timeout_secs: float | None = TIMEOUT_SECS) -> dict[str, Any]:
        """The arguments of every call beside its request."""
        return {"timeout": timeout_secs, "metadata": self.credentials.metadata()}


def to_socket(address: str) -> Connection:
    """How to reach a socket of this machine, which needs no credentials."""
    return Connection(Credentials(address, spelling=AT_THE_TERMINAL))


def connected(address: str) -> Any:
    """A channel to a socket of this machine."""
    return to_socket(address).opened()


def _option(words: str, variable: str = "", *names: str, **rest: Any) -> Any:
    # The variables are read by the SDK, in its order: a profile that is asked for goes before them.
    help_text = f"{words} [{variable}]" if variable else words
    return typer.Option(*names, help=help_text, rich_help_panel=PANEL, **rest)


def connection(
    server: Annotated[
        str | None,
        _option(
            "The gRPC server, HOST:PORT or https://HOST:PORT; or several, separated by commas, of which any will do.",
            "TASKYARD_SERVER, TASKYARD_ADDRESS",
            show_default="127.0.0.1:50051",
        ),
    ] = None,
    namespace: Annotated[
        str | None, _option("The namespace to act in.", "TASKYARD_NAMESPACE", show_default="default")
    ] = None,
    token_file: Annotated[
        str | None,
        _option(
            "A file with a token, in place of TASKYARD_TOKEN. There is no --token, since the list of processes would "
            "show it to everybody.",
            "TASKYARD_TOKEN_FILE",
        ),
    ] = None,
    ca: Annotated[str | None, _option("A file with the authority of the server's certificate.", "TASKYARD_CA")] = None,
    cert: Annotated[str | None, _option("A file with a client certificate.", "TASKYARD_CERT")] = None,
    key: Annotated[str | None, _option("The file with its key.", "TASKYARD_KEY")] = None,
    profile: Annotated[str | None, _option("A profile of ~/.config/taskyard/config.toml.", "TASKYARD_PROFILE")] = None,
    insecure: Annotated[bool, _option("Send a token in the clear to another machine.", "", "--insecure")] = False,
) -> Connection:
    """How to reach the server that these options, the environment or a profile name. Raises `Misuse` for mistakes."""
    environment = dict(os.environ)
    if named := environment.get("TASKYARD_SERVER"):
        environment["TASKYARD_ADDRESS"] = named
    try:
        found = find_credentials(
            server,
            namespace,
            token_file=token_file,
            ca=ca,
            cert=cert,
            key=key,
            profile=profile,
            insecure=insecure,
            environment=environment,
            spelling=AT_THE_TERMINAL,
        )
    except ValueError as error:
        raise Misuse(str(error)) from None
    _check_whole(found)
    is_given = server is not None or profile is not None
    is_named = is_given or "TASKYARD_ADDRESS" in environment or found.token is not None or found.tls is not None
    return Connection(found, is_named, is_given)


def _check_whole(found: Credentials) -> None:
    """Tell a token of which a part is missing from one that the server does not know. Raises `Failure`."""
    token = found.token
    if token is not None and token.current().startswith(PREFIX) and not is_whole(token.current()):
        raise Failure(f"{token.origin} is no whole token: characters of it are missing or mistyped")


with_connection: Final = with_options("connection", connection)
"""Give a command the options, in the place of its parameter `connection`."""
with_connection_to_server: Final = with_options("connection", connection, without=("namespace",))
"""The same without `--namespace`."""
