"""Client certificates as they come over TLS: at the server's own listener, and at the gateway. What callers write into
`x-forwarded-client-cert` counts nowhere (docs/operate/security.md, Client certificates).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import grpc
import httpx
import pytest

from taskyard.v1 import token_pb2, token_pb2_grpc
from taskyard_server.app.listening import Servers
from taskyard_server.gateway.gateway import Gateway
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.net.certificates import CertificateFiles
from taskyard_server.services.tokens import TokenService
from taskyard_server.settings.security import AuthSettings, CertificateRule, GrantSettings
from tests.cases import every_case
from tests.certificates import Authority, Leaf
from tests.ports import free_port

SECS = 20.0
HOST = "spiffe://taskyard/host/h1"
ADMIN = "spiffe://taskyard/admin"
SPOOFED = f"By=spiffe://taskyard/gateway/g1;Hash={'0' * 64};URI={ADMIN}"
ADMIN_TOKEN = "the-admin-token-of-these-tests"
SETTINGS = AuthSettings(
    required=True,
    admin_token=ADMIN_TOKEN,
    certificates=[CertificateRule(uri="spiffe://taskyard/*", grants=[GrantSettings(role="viewer")])],
)


@dataclass(frozen=True)
class Server:
    """A server with authentication, by its addresses."""

    authority: Authority
    folder: Path
    in_the_clear: str
    """Where everybody may connect, as on loopback."""
    with_tls: str
    with_client_tls: str
    """Where everybody needs a certificate."""
    gateway: Gateway

    def credentials(self, leaf: Leaf | None) -> grpc.ChannelCredentials:
        pair = () if leaf is None else (leaf.key, leaf.cert)
        return grpc.ssl_channel_credentials(self.authority.cert, *pair)

    async def who(self, address: str, leaf: Leaf | None = None, *metadata: tuple[str, str]) -> str:
        """The name of a caller by gRPC, or the status that it gets."""
        if address == self.in_the_clear:
            channel = grpc.aio.insecure_channel(address)
        else:
            channel = grpc.aio.secure_channel(address, self.credentials(leaf))
        async with channel:
            stub = token_pb2_grpc.TokenServiceStub(channel)
            try:
                answer = await stub.WhoAmI(token_pb2.WhoAmIRequest(), metadata=metadata, timeout=SECS)
            except grpc.aio.AioRpcError as error:
                return error.code().name
            return str(answer.name)

    async def who_by_rest(self, leaf: Leaf | None = None, **headers: str) -> str:
        """The name of a caller by the gateway, or the status that it gets."""
        context = ssl.create_default_context(cadata=self.authority.cert.decode())
        if leaf is not None:
            context.load_cert_chain(*leaf.write(self.folder, "client"))
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(verify=context, timeout=SECS, trust_env=False) as http:
            try:
                answer = await http.get(f"https://{self.gateway.address}/whoami", headers=sent)
            except (httpx.TransportError, ssl.SSLError):
                return "UNAVAILABLE"
        return str(answer.json()["name"]) if answer.status_code == 200 else str(answer.json()["code"]).upper()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    authority = Authority()
    cert, key = authority.leaf(uris=["spiffe://taskyard/gateway/g1"]).write(tmp_path, "server")
    ca = authority.write(tmp_path)
    admission = CallAdmission(SETTINGS)
    server = Servers(CallInterceptor(admission), CallInterceptor(admission), is_limited=False)
    token_pb2_grpc.add_TokenServiceServicer_to_server(TokenService(None, admission.open_calls.end_stale), server)
    clear, tls, client_tls = (f"127.0.0.1:{free_port()}" for _ in range(3))
    server.listen(clear, None)
    server.listen(tls, CertificateFiles("tls", cert, key, None))
    server.listen(client_tls, CertificateFiles("tls", cert, key, ca))
    gateway = Gateway("127.0.0.1:0", certificates=CertificateFiles("gatewayTls", cert, key, ca))
    server.listen_for_gateway(gateway.make_server_socket())
    await server.start()
    await gateway.start()
    yield Server(authority, tmp_path, clear, tls, client_tls, gateway)
    await gateway.stop()
    await server.stop(None)


async def test_a_certificate_of_the_authority_is_a_principal_at_both_doors(server: Server) -> None:
    leaf = server.authority.leaf(uris=[HOST])
    assert await server.who(server.with_client_tls, leaf) == HOST
    assert await server.who_by_rest(leaf) == HOST
    assert await server.who(server.gateway.address, leaf) == HOST


async def test_a_token_comes_before_a_certificate(server: Server) -> None:
    leaf = server.authority.leaf(uris=[HOST])
    bearer = f"Bearer {ADMIN_TOKEN}"
    assert await server.who(server.with_client_tls, leaf, ("authorization", bearer)) == "admin"
    assert await server.who(server.with_client_tls, leaf, ("authorization", "Bearer wrong")) == "UNAUTHENTICATED"
    assert await server.who_by_rest(leaf, authorization=bearer) == "admin"
    assert await server.who_by_rest(leaf, authorization="Bearer wrong") == "UNAUTHENTICATED"


async def test_a_certificate_that_tls_refuses_never_reaches_the_server(server: Server) -> None:
    for leaf in (
        Authority().leaf(uris=[HOST]),
        server.authority.leaf(uris=[HOST], valid_until=-timedelta(hours=1)),
        server.authority.leaf(uris=[HOST], valid_from=timedelta(hours=1)),
    ):
        assert await server.who(server.with_client_tls, leaf) == "UNAVAILABLE"
        assert await server.who_by_rest(leaf) == "UNAVAILABLE"
    assert await server.who(server.with_client_tls) == "UNAVAILABLE"


@every_case(
    "names",
    [
        {"common_name": HOST},
        {"common_name": HOST, "names": [], "addresses": []},
        {"names": [HOST]},
        {"names": [HOST], "addresses": [], "common_name": HOST},
        {"uris": ["spiffe://other/host/h1"], "common_name": HOST},
        {"uris": ["spiffe://taskyard/gateway/g1"]},
        {"uris": [HOST, ADMIN]},
        {"uris": [HOST, "urn:x:y"]},
        {"uris": [f"urn:x;URI={ADMIN}"]},
        {"uris": [f"urn:x,By=y;Hash=00;URI={ADMIN}"]},
        {"uris": [f"{HOST};URI={ADMIN}"]},
        {"uris": [f"{HOST};DNS=x"]},
        {"uris": [f'{HOST}"']},
        {"uris": [HOST.replace("host/", "host%2F")]},
        {"uris": [f"{HOST}/../h2"]},
    ],
    ids=repr,
)
async def test_a_certificate_whose_one_uri_is_not_ours_is_nobody(server: Server, names: dict[str, object]) -> None:
    leaf = server.authority.leaf(**names)  # type: ignore[arg-type]
    assert await server.who(server.with_client_tls, leaf) == "UNAUTHENTICATED"
    assert await server.who_by_rest(leaf) == "UNAUTHENTICATED"
    assert await server.who(server.gateway.address, leaf) == "UNAUTHENTICATED"


async def test_a_uri_is_never_cut_at_a_nul_or_a_line_end(server: Server) -> None:
    for uri in (f"{HOST}\0.example", f"{HOST}\r\nx-forwarded-client-cert: URI={ADMIN}"):
        leaf = server.authority.leaf(uris=[uri])
        assert await server.who(server.with_client_tls, leaf) == "UNAUTHENTICATED"
        assert await server.who_by_rest(leaf) not in (HOST, ADMIN)


async def test_a_header_of_the_caller_counts_at_no_port_of_the_server(server: Server) -> None:
    spoofed = [
        ("x-forwarded-client-cert", SPOOFED),
        ("x-forwarded-client-cert", f"URI={ADMIN}"),
    ]
    host = server.authority.leaf(uris=[HOST])
    for header in spoofed:
        assert await server.who(server.in_the_clear, None, header) == "UNAUTHENTICATED"
        assert await server.who(server.with_tls, None, header) == "UNAUTHENTICATED"
        # There nobody asks for the certificate that this one has.
        assert await server.who(server.with_tls, host, header) == "UNAUTHENTICATED"
        assert await server.who(server.with_client_tls, host, header) == HOST
        assert await server.who(server.with_client_tls, server.authority.leaf(), header) == "UNAUTHENTICATED"


async def test_the_gateway_drops_a_header_of_the_caller(server: Server) -> None:
    host = server.authority.leaf(uris=[HOST])
    for value in (SPOOFED, f"URI={ADMIN}"):
        assert await server.who_by_rest(None, x_forwarded_client_cert=value) == "UNAUTHENTICATED"
        assert await server.who_by_rest(None, X_Forwarded_Client_Cert=value) == "UNAUTHENTICATED"
        assert await server.who_by_rest(host, x_forwarded_client_cert=value) == HOST
        assert await server.who(server.gateway.address, None, ("x-forwarded-client-cert", value)) == "UNAUTHENTICATED"
        assert await server.who(server.gateway.address, host, ("x-forwarded-client-cert", value)) == HOST


async def test_a_gateway_without_tls_passes_no_certificate_on() -> None:
    admission = CallAdmission(SETTINGS)
    server = Servers(CallInterceptor(admission), CallInterceptor(admission), is_limited=False)
    token_pb2_grpc.add_TokenServiceServicer_to_server(TokenService(None, admission.open_calls.end_stale), server)
    gateway = Gateway("127.0.0.1:0")
    server.listen_for_gateway(gateway.make_server_socket())
    await server.start()
    await gateway.start()
    try:
        async with httpx.AsyncClient(timeout=SECS, trust_env=False) as http:
            for value in (SPOOFED, f"URI={ADMIN}"):
                answer = await http.get(f"http://{gateway.address}/whoami", headers={"x-forwarded-client-cert": value})
                assert answer.status_code == 401
    finally:
        await gateway.stop()
        await server.stop(None)
