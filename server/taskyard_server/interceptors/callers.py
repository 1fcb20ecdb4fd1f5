"""Who calls, and how: read from the metadata of a call, once."""

from __future__ import annotations

import re
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

import grpc

from taskyard_server.access.authentication import Credentials
from taskyard_server.access.certificates import forwarded_uris, read_certificate
from taskyard_server.access.grants import EVERYTHING, Access
from taskyard_server.access.limits import CallBucket
from taskyard_server.conversion.page_tokens import Listing, Seal
from taskyard_server.conversion.trace_context import TRACEPARENT
from taskyard_server.core.errors import BadRequest

from .head import HEAD_KEY
from .request_target import TARGET_KEY

NAMESPACE_KEY: Final = "taskyard-namespace"
REST_KEY: Final = "x-taskyard-rest"
TRACE_KEY: Final = "traceparent"
AUTHORIZATION_KEY: Final = "authorization"
FORWARDED_CERTIFICATE_KEY: Final = "x-forwarded-client-cert"
FORWARDED_FOR_KEY: Final = "x-forwarded-for"
IGNORED_FIELDS_KEY: Final = "x-taskyard-ignored-fields"
"""Fields of a REST body that the gateway passes on to nobody (gateway/strict_json.lua)."""
MAX_IGNORED_CHARS: Final = 500
DEFAULT_NAMESPACE: Final = "default"
NAMESPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
GATEWAY_PEER: Final = "unix:"
"""The peer of calls that came through the gateway beside the server, whose socket nobody else can open."""
CERTIFICATE_KEY: Final = "x509_pem_cert"

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class Call(NamedTuple):
    """Who calls, and how. `target` is the path and query of a REST call as they came; `is_head` tells HEAD from GET.

    `seal` is for what must tell its holder nothing; None where authentication is off. Each message of a stream is taken
    from `pace`, where the calls of its principal are limited.
    """

    namespace: str = DEFAULT_NAMESPACE
    by_rest: bool = False
    traceparent: str | None = None
    target: str | None = None
    is_head: bool = False
    access: Access = EVERYTHING
    seal: Seal | None = None
    pace: CallBucket | None = None

    def listing(self, kind: str, *filters: object) -> Listing:
        """A listing of the caller's namespace, whose page tokens hold for callers of the same scope."""
        if self.seal is None:
            return Listing(kind, self.namespace, *filters)
        return Listing(kind, self.namespace, *filters, seal=self.seal, scope=self.access.scope)


def check_namespace(name: str, where: str) -> None:
    """Raise `BadRequest` for a name that no namespace has."""
    if not NAMESPACE.fullmatch(name):
        raise BadRequest(f"{where}: must be 1 to 63 letters, digits, dots, dashes or underscores")


ANYBODY: Final = Call()
"""A call that says nothing of itself, as most do where authentication is off."""

_current: ContextVar[Call] = ContextVar("call")
_headers: ContextVar[Headers] = ContextVar("headers")
_is_carried: ContextVar[bool] = ContextVar("is_carried", default=False)


def current_call() -> Call:
    """The call that is being served."""
    return _current.get()


def set_current_call(call: Call) -> None:
    """Make this the call that is being served."""
    _current.set(call)


def current_headers() -> Headers:
    """The metadata of the call that is being served."""
    return _headers.get()


def set_current_headers(headers: Headers) -> None:
    """Make these the metadata of the call that is being served. grpc reads them anew for everybody who asks it."""
    _headers.set(headers)


def believe_caller() -> None:
    """Note that the call that is being served came from the gateway of another replica, by its certificate."""
    _is_carried.set(True)


def is_by_gateway(context: Context) -> bool:
    """True if a call came by a gateway, so that what it says of its caller is believed."""
    return context.peer() == GATEWAY_PEER or _is_carried.get()


class Headers(NamedTuple):
    """The metadata of a call that count. `is_anybody` says that none of them is set but for what `access` reads."""

    namespace: str
    by_rest: bool
    traceparent: str | None
    target: str | None
    is_head: bool
    authorization: str | None
    certificate: str | None
    forwarded_for: str | None
    ignored_fields: str | None = None

    def call(self, access: Access = EVERYTHING, seal: Seal | None = None, pace: CallBucket | None = None) -> Call:
        """The call that these began. Raises `BadRequest` for a malformed namespace."""
        namespace = self.namespace
        if namespace != DEFAULT_NAMESPACE:
            check_namespace(namespace, NAMESPACE_KEY)
        is_plain = namespace == DEFAULT_NAMESPACE and not self.by_rest and self.traceparent is None
        if is_plain and access is EVERYTHING and seal is None:
            return ANYBODY
        return Call(namespace, self.by_rest, self.traceparent, self.target, self.is_head, access, seal, pace)


def read_headers(metadata: Any) -> Headers:
    """The parts of a call's metadata that count."""
    by_rest, traceparent, target, is_head = False, None, None, False
    namespace: str | None = None
    authorization = certificate = forwarded_for = ignored_fields = None
    for key, value in metadata or ():
        if key == NAMESPACE_KEY:
            # Two are read as the gateway reads them (gateway/carrier.lua), and are then malformed.
            namespace = str(value) if namespace is None else f"{namespace},{value!s}"
        elif key == REST_KEY:
            by_rest = True
        elif key == AUTHORIZATION_KEY:
            # Two of them could be read in two ways.
            authorization = str(value) if authorization is None else ""
        elif key == TRACE_KEY and TRACEPARENT.fullmatch(str(value)):
            traceparent = str(value)
        elif key == TARGET_KEY:
            target = str(value)
        elif key == HEAD_KEY:
            is_head = True
        elif key == FORWARDED_CERTIFICATE_KEY:
            # A second one is not the gateway's.
            certificate = str(value) if certificate is None else ""
        elif key == FORWARDED_FOR_KEY:
            forwarded_for = str(value)
        elif key == IGNORED_FIELDS_KEY:
            ignored_fields = str(value)[:MAX_IGNORED_CHARS]
    if namespace is None:
        namespace = DEFAULT_NAMESPACE
    return Headers(
        namespace, by_rest, traceparent, target, is_head, authorization, certificate, forwarded_for, ignored_fields
    )


def authorization_in(metadata: Any) -> str | None:
    """The `authorization` among the metadata of a call; "" where there are two, which could be read in two ways."""
    found: str | None = None
    for key, value in metadata or ():
        if key == AUTHORIZATION_KEY:
            found = str(value) if found is None else ""
    return found


def credentials_of(headers: Headers, context: Context) -> Credentials:
    """The credentials of a call. Certificates count only where no `authorization` came."""
    if headers.authorization is not None:
        return Credentials(headers.authorization)
    if is_by_gateway(context):
        return Credentials(None, forwarded_uris(headers.certificate))
    # Not `peer_identities`: they do not tell a URI from a DNS name, nor from the common name of a certificate without
    # either, and end at a NUL.
    certificates: Any = context.auth_context().get(CERTIFICATE_KEY, ())
    if not certificates:
        return Credentials()
    known = read_certificate(certificates[0])
    return Credentials(None, known.uris, known.valid_until)


def address_of(headers: Headers, context: Context) -> str:
    """Where a call came from, without the port."""
    if is_by_gateway(context):
        return (headers.forwarded_for or "").rpartition(",")[2].strip() or "gateway"
    peer = context.peer()
    return unquote(peer.partition(":")[2].rpartition(":")[0]).strip("[]") or peer
