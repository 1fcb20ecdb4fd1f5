"""Answers scrapes over HTTP, in threads: with a token where one is set, and with TLS where the server has certificates.

Probes of supervisors are answered at the same port, and need no token (docs/rules.md, Health).

Scrapes are few. What calls more often, or slowly, is cut off before it costs much.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from socketserver import ThreadingMixIn
from threading import BoundedSemaphore, Thread
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app

from taskyard_server.access.authentication import bearer_in
from taskyard_server.access.tokens import digest_of
from taskyard_server.net.certificates import CertificateFiles, Certificates

MAX_CONNECTIONS: Final = 32
"""Connections at once; further ones are closed."""
SILENCE_SECS: Final = 10
"""How long a caller may say nothing, or not read."""
LONGEST_SECS: Final = 30.0
"""How long a caller may take in all, who says a little every so often: it takes a connection from others."""
UNAUTHORIZED: Final = "401 Unauthorized"
UNAVAILABLE: Final = "503 Service Unavailable"

Start = Callable[..., Any]
Wsgi = Callable[[dict[str, Any], Start], Iterable[bytes]]


class MetricsServer:
    """A listener at HOST:PORT until `stop`. `token` may change; None lets everybody scrape.

    `probes` answer at their paths: None where all is well, else what is not.
    """

    def __init__(
        self,
        address: str,
        registry: CollectorRegistry,
        token: str | None = None,
        certificates: CertificateFiles | None = None,
        probes: Mapping[str, Callable[[], str | None]] | None = None,
    ) -> None:
        """Listen. Raises `OSError` if that is not possible."""
        self.token = token
        self._probes = probes or {}
        host, _, port = address.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        self._scrape: Wsgi = make_wsgi_app(registry)
        self._server = _server(host, int(port), certificates)
        self._server.set_app(self._answer)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Listen no longer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    def _answer(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        probe = self._probes.get(environ.get("PATH_INFO", ""))
        if probe is not None:
            return _answer_of(probe(), environ, start)
        token = self.token
        if token is not None and not _brings(environ.get("HTTP_AUTHORIZATION", ""), token):
            start(UNAUTHORIZED, [("WWW-Authenticate", "Bearer"), ("Content-Length", "0")])
            return [b""]
        return self._scrape(environ, start)


def _answer_of(obstacle: str | None, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
    """As the gateway answers the same question."""
    answer = {"status": "ok"} if obstacle is None else {"code": "unavailable", "error": obstacle, "retryable": True}
    body = json.dumps(answer, separators=(",", ":")).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start("200 OK" if obstacle is None else UNAVAILABLE, headers)
    return [] if environ.get("REQUEST_METHOD") == "HEAD" else [body]


def _brings(authorization: str, token: str) -> bool:
    """True if the header brings the token. Digests are compared, so that the time it takes tells nothing."""
    given = bearer_in(authorization)
    return given is not None and digest_of(given) == digest_of(token)


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_SECS

    def log_message(self, *_: Any) -> None:
        """Log nothing: a request line may hold anything."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    tls: _Tls | None = None

    def __init__(self, *args: Any) -> None:
        self._free = BoundedSemaphore(MAX_CONNECTIONS)
        self._open: dict[socket.socket, float] = {}
        super().__init__(*args)

    def server_bind(self) -> None:
        """Bind. The name of the machine, which the base class looks up, may take long to find and is not needed."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "", self.server_address[1]
        self.setup_environ()

    def get_request(self) -> tuple[Any, Any]:
        """A connection, whose TLS handshake is made by the thread that serves it."""
        connection, address = self.socket.accept()
        if self.tls is not None:
            try:
                connection = self.tls.context().wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            except OSError:
                connection.close()
                raise
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._open[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._open.pop(request, None)
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.pop(request, None)
            self._free.release()

    def service_actions(self) -> None:
        """Cut off who takes too long. It is called twice a second."""
        latest = time.monotonic() - LONGEST_SECS
        for connection, since in list(self._open.items()):
            if since < latest:
                with contextlib.suppress(OSError):
                    # That of TLS would take the encryption from a thread that is using it.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of callers that go away, or shake hands badly: they would fill the log."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _Tls:
    """Makes a new context when the certificate has changed. Used by the one thread that accepts."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._made_of: Certificates | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        current = self._files.current
        if self._context is None or current is not self._made_of:
            self._made_of = current
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.load_cert_chain(self._files.cert, self._files.key)
            except OSError:
                # They are being replaced again. The next change is noticed like this one.
                if self._context is None:
                    raise
            else:
                self._context = context
        return self._context


def _server(host: str, port: int, certificates: CertificateFiles | None) -> _Server:
    family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    kind = _ServerV6 if family == socket.AF_INET6 else _Server
    server = kind((host, port), _Handler)
    if certificates is not None:
        server.tls = _Tls(certificates)
    return server
