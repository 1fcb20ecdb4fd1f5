"""The meaning of errors that come of a missing or wrong token, certificate or encryption.

gRPC says "Connection refused" or "Socket closed" where a server demands encryption or a certificate, and a server does
not know where a token came from.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Final

from taskyard.errors import TaskyardError, Unauthenticated, Unavailable

from .credentials import NOTHING, Credentials

CONNECTING: Final = re.compile(r"failed to connect|name resolution|DNS resolution|domain name", re.IGNORECASE)
OTHER_NAME: Final = re.compile("is not in peer certificate|Hostname Verification Check failed")
"""The words of grpcio 1.75, and those of 1.85."""
CLOSED: Final = re.compile(
    r"Socket closed|reset by peer|Broken pipe|SETTINGS frame|http1|Endpoint closing|End of TCP|EOF|ALERT",
    re.IGNORECASE,
)
PROBE_SECS: Final = 0.2
PROBE_AGAIN_SECS: Final = 1.0
"""During an outage thousands of calls may fail a second."""


def explained(error: TaskyardError, credentials: Credentials, address: str) -> TaskyardError:
    """Say in an error what the caller can do about it.

    Args:
        error: The error of a call.
        credentials: How the caller has reached the server.
        address: The address of that server.

    Returns:
        The error, with another text if it is about credentials or the connection. What gRPC said is then in its
        details as `raw`.
    """
    text = error.reason
    if isinstance(error, Unauthenticated):
        text = f"{error.reason} (tried: {credentials.tried})"
        if credentials.tried == NOTHING:
            given = credentials.spelling.given
            ways = f"TASKYARD_TOKEN, {given('token_file')} or {given('profile')}"
            text = (
                f"{error.reason} (tried: nothing; give a token by {ways}, or a client certificate by {given('cert')})"
            )
    elif isinstance(error, Unavailable) and CONNECTING.search(error.reason):
        text = _connection_problem(error.reason, credentials, address)
        error.details["raw"] = error.reason
    error.reason = text
    error.args = (text,)
    return error


def unreached(credentials: Credentials, address: str) -> Unavailable:
    """Make the error of a call that was given up before there was a connection.

    Args:
        credentials: How the caller has tried to reach the server.
        address: The address of that server.

    Returns:
        The error.
    """
    error = Unavailable(_connection_problem("", credentials, address))
    error.details["raw"] = "not connected in time"
    return error


def _connection_problem(raw: str, credentials: Credentials, address: str) -> str:
    """Why there is no connection, in one line."""
    problem = _known_problem(raw, credentials, address)
    if len(credentials.addresses) == 1:
        return problem or f"no server answers at {address}"
    tried = ", ".join(credentials.addresses)
    return f"{problem} (tried: {tried})" if problem else f"no server answers at any of {tried}"


def _known_problem(raw: str, credentials: Credentials, address: str) -> str:
    """The meaning of gRPC's words, empty if there is none. The rules go from the surest sign to the weakest."""
    tls, server, given = credentials.tls, f"the server at {address}", credentials.spelling.given
    if "WRONG_VERSION_NUMBER" in raw or "HTTP_REQUEST" in raw:
        return f"{server} does not speak TLS: leave out https:// and {given('ca')}, {given('cert')}, or have it use TLS"
    if "CERTIFICATE_VERIFY_FAILED" in raw:
        if "expired" in raw or "not yet valid" in raw:
            why = "certificate has expired" if "expired" in raw else "certificate is not yet valid"
            return f"the certificate of {server} is not valid now: {why}"
        trusted = tls.ca if tls is not None and tls.ca else "an authority that this system trusts"
        return (
            f"the certificate of {server} is not signed by {trusted}: give the file of its authority by {given('ca')}"
        )
    if OTHER_NAME.search(raw):
        return f"the certificate of {server} is for other names: use one of those in the address"
    if CLOSED.search(raw) or ("refused" in raw and _is_answered_on_localhost(address)):
        if not credentials.is_encrypted:
            return (
                f"{server} closed the connection before it answered: if it demands TLS, use "
                f"{credentials.address_with_tls} or {given('ca')}"
            )
        if tls is None or not tls.cert:
            return (
                f"{server} closed the connection before it answered: if it demands a client certificate, give "
                f"{given('cert')} and {given('key')}"
            )
        return (
            f"{server} closed the connection before it answered: it may not accept the client certificate {tls.cert}, "
            "which may be expired or of an authority that it does not know"
        )
    if "resol" in raw or "domain name" in raw:
        return f"no server answers at {address}: its name cannot be resolved"
    return ""


def _is_answered_on_localhost(address: str) -> bool:
    """True if somebody listens there although gRPC says that the connection was refused.

    It tells what happened with the last address of a name: `localhost` has two, of which servers often have one.
    """
    host, _, port = address.rpartition(":")
    if host != "localhost":
        return False
    probed_at, is_answered = _probes.get(port, (-PROBE_AGAIN_SECS, False))
    if time.monotonic() - probed_at < PROBE_AGAIN_SECS:
        return is_answered
    try:
        socket.create_connection((host, int(port)), PROBE_SECS).close()
    except (OSError, ValueError):
        is_answered = False
    else:
        is_answered = True
    _probes[port] = (time.monotonic(), is_answered)
    return is_answered


_probes: dict[str, tuple[float, bool]] = {}
"""When each port of localhost was probed last, and whether somebody answered."""
