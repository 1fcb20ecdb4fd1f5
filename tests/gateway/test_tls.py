"""TLS of the gateway: what it takes, what it tells the server of client certificates, and new files (gatewayTls)."""

import asyncio
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard_server.access.certificates import forwarded_uris
from taskyard_server.gateway.envoy_config import GatewayError
from taskyard_server.gateway.gateway import Gateway
from taskyard_server.net.certificates import CertificateFiles
from tests.certificates import Authority, Leaf
from tests.gateway.gateways import SECS
from tests.waiting import until

REFUSED = (httpx.TransportError, ssl.SSLError)
HOST = "spiffe://taskyard/host/h1"


class Tasks(task_pb2_grpc.TaskServiceServicer):
    """Answers a task whose error is the metadata of the call."""

    async def GetTask(self, request: task_pb2.GetTaskRequest, context: Any) -> task_pb2.Task:  # noqa: N802
        sent = [(key, str(value)) for key, value in context.invocation_metadata()]
        return task_pb2.Task(task_id=request.task_id, error=json.dumps(sent))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def files(tmp_path: Path, authority: Authority) -> CertificateFiles:
    """The gateway's certificate, and the authority of client certificates, which it is also signed by."""
    cert, key = authority.leaf().write(tmp_path, "server")
    return CertificateFiles("gatewayTls", cert, key, authority.write(tmp_path))


@pytest.fixture
async def gateway(files: CertificateFiles) -> AsyncIterator[Gateway]:
    server = grpc.aio.server()
    task_pb2_grpc.add_TaskServiceServicer_to_server(Tasks(), server)
    gateway = Gateway("127.0.0.1:0", certificates=files)
    server.add_insecure_port(gateway.make_server_socket())
    await server.start()
    await gateway.start()
    yield gateway
    await gateway.stop()
    await server.stop(None)


def trusting(authority: Authority, leaf: Leaf | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """What a client trusts, and its own certificate."""
    context = ssl.create_default_context(cadata=authority.cert.decode())
    if leaf is not None:
        assert folder is not None
        context.load_cert_chain(*leaf.write(folder, "client"))
    return context


def client(gateway: Gateway, context: ssl.SSLContext) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=f"https://{gateway.address}", verify=context, timeout=SECS, trust_env=False)


async def seen(gateway: Gateway, context: ssl.SSLContext, headers: dict[str, str] | None = None) -> dict[str, str]:
    """What the server sees of a call by REST."""
    async with client(gateway, context) as http:
        return dict(json.loads((await http.get("/tasks/tsk_1", headers=headers)).json()["error"]))


async def test_a_call_without_a_client_certificate_is_served_and_has_no_header_of_one(
    gateway: Gateway, authority: Authority
) -> None:
    sent = {"x-forwarded-client-cert": f"URI={HOST}", "X-Forwarded-For": "192.0.2.1"}
    metadata = await seen(gateway, trusting(authority), sent)
    assert "x-forwarded-client-cert" not in metadata
    assert metadata["x-forwarded-for"] == "127.0.0.1"


async def test_the_server_sees_the_uris_of_a_client_certificate_and_none_that_the_caller_sends(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    leaf = authority.leaf(uris=[HOST, "spiffe://taskyard/host/h2"])
    sent = {"x-forwarded-client-cert": "URI=spiffe://taskyard/admin"}
    metadata = await seen(gateway, trusting(authority, leaf, tmp_path), sent)
    fields = metadata["x-forwarded-client-cert"].split(";")
    assert [field for field in fields if field.startswith("URI=")] == [
        f"URI={HOST}",
        "URI=spiffe://taskyard/host/h2",
    ]
    assert not any("admin" in field for field in fields)


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://elsewhere/x;URI=spiffe://taskyard/admin",
        "spiffe://elsewhere/x,URI=spiffe://taskyard/admin",
        'spiffe://elsewhere/x";URI="spiffe://taskyard/admin',
        "spiffe://elsewhere/x%3BURI=spiffe://taskyard/admin",
        "spiffe://elsewhere/x%2CURI%3Dspiffe://taskyard/admin",
    ],
)
async def test_a_uri_cannot_pass_for_two(gateway: Gateway, authority: Authority, tmp_path: Path, uri: str) -> None:
    """Whoever may choose a part of the URI that an authority signs chooses no second one."""
    leaf = authority.leaf(uris=[uri])
    try:
        metadata = await seen(gateway, trusting(authority, leaf, tmp_path))
    except REFUSED:
        return
    assert "spiffe://taskyard/admin" not in forwarded_uris(metadata.get("x-forwarded-client-cert"))


@pytest.mark.parametrize(
    "headers",
    [
        b"x-forwarded-client-cert: URI=spiffe://taskyard/admin\r\nx-forwarded-client-cert: URI=spiffe://taskyard/admin",
        b"X-Forwarded-Client-Cert: URI=spiffe://taskyard/admin\r\nX-FORWARDED-FOR: 192.0.2.1",
        b"x_forwarded_client_cert: URI=spiffe://taskyard/admin\r\nx_forwarded_for: 192.0.2.1",
        b"x-forwarded-for: 192.0.2.1\r\nx-forwarded-for: 192.0.2.2, 192.0.2.3",
        b"connection: x-forwarded-client-cert\r\nx-forwarded-client-cert: URI=spiffe://taskyard/admin",
        b"forwarded: for=192.0.2.1\r\nx-real-ip: 192.0.2.1\r\nx-envoy-external-address: 192.0.2.1",
    ],
)
async def test_no_spelling_of_a_header_passes_for_the_gateways_own(
    gateway: Gateway, authority: Authority, headers: bytes
) -> None:
    host, _, port = gateway.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), ssl=trusting(authority))
    writer.write(b"GET /tasks/x HTTP/1.1\r\nhost: localhost\r\n" + headers + b"\r\n\r\n")
    async with asyncio.timeout(SECS):
        body = (await reader.readuntil(b"}")).partition(b"\r\n\r\n")[2]
    writer.close()
    metadata = json.loads(json.loads(body)["error"])
    assert [value for key, value in metadata if key == "x-forwarded-for"] == ["127.0.0.1"]
    assert not [key for key, _ in metadata if "client-cert" in key or "client_cert" in key or "_" in key]
    assert "192.0.2" not in "".join(value for key, value in metadata if key.startswith("x-envoy"))


@pytest.mark.parametrize(
    "leaf",
    [
        lambda _: Authority().leaf(uris=[HOST]),
        lambda authority: authority.leaf(uris=[HOST], valid_until=-timedelta(hours=1)),
        lambda authority: authority.leaf(uris=[HOST], valid_from=timedelta(hours=1)),
    ],
    ids=["of another authority", "expired", "not yet valid"],
)
async def test_a_client_certificate_that_does_not_hold_is_refused_in_the_handshake(
    gateway: Gateway, authority: Authority, tmp_path: Path, leaf: Any
) -> None:
    with pytest.raises(REFUSED):
        await seen(gateway, trusting(authority, leaf(authority), tmp_path))


async def test_grpc_is_served_on_the_same_port_with_tls(gateway: Gateway, authority: Authority) -> None:
    leaf = authority.leaf(uris=[HOST])
    credentials = grpc.ssl_channel_credentials(authority.cert, leaf.key, leaf.cert)
    async with grpc.aio.secure_channel(gateway.address, credentials) as channel:
        task = await task_pb2_grpc.TaskServiceStub(channel).GetTask(task_pb2.GetTaskRequest(task_id="x"), timeout=SECS)
    assert f"URI={HOST}" in dict(json.loads(task.error))["x-forwarded-client-cert"]


async def test_nothing_is_served_without_tls(gateway: Gateway) -> None:
    async with httpx.AsyncClient(base_url=f"http://{gateway.address}", timeout=SECS, trust_env=False) as http:
        with pytest.raises(httpx.TransportError):
            await http.get("/tasks/tsk_1")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
async def test_versions_of_tls_before_1_2_are_refused(
    gateway: Gateway, authority: Authority, version: ssl.TLSVersion
) -> None:
    context = trusting(authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with pytest.raises(ssl.SSLError, match="alert protocol version"):
        await tls(gateway, context)


async def test_both_protocols_are_offered_http2_first(gateway: Gateway, authority: Authority) -> None:
    for offered, chosen in ((["http/1.1", "h2"], "h2"), (["http/1.1"], "http/1.1"), ([], None)):
        context = trusting(authority)
        if offered:
            context.set_alpn_protocols(offered)
        assert (await tls(gateway, context)).selected_alpn_protocol() == chosen


async def tls(gateway: Gateway, context: ssl.SSLContext) -> ssl.SSLObject:
    """A handshake."""
    host, _, port = gateway.address.rpartition(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    found: ssl.SSLObject = writer.get_extra_info("ssl_object")
    writer.close()
    return found


async def serial(gateway: Gateway, authority: Authority) -> int:
    """The serial number of the certificate that a new connection gets."""
    certificate = (await tls(gateway, trusting(authority))).getpeercert()
    assert certificate is not None
    return int(str(certificate["serialNumber"]), 16)


async def until_serial(gateway: Gateway, authority: Authority, wanted: int) -> None:
    """Wait until new connections get the certificate with this serial number."""
    # Only a handshake tells.
    await until(lambda: serial(gateway, authority), lambda number: number == wanted)


async def test_new_files_are_in_force_for_new_connections(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    for rename in (True, False, True):
        leaf = authority.leaf()
        if rename:
            leaf.write(tmp_path, "server")
        else:
            (tmp_path / "server.pem").write_bytes(leaf.cert)
            (tmp_path / "server.key").write_bytes(leaf.key)
        await until_serial(gateway, authority, leaf.serial)


async def test_files_that_do_not_fit_together_change_nothing_until_they_do(
    gateway: Gateway, authority: Authority, files: CertificateFiles, tmp_path: Path
) -> None:
    before, leaf = await serial(gateway, authority), authority.leaf()
    (tmp_path / "server.pem").write_bytes(leaf.cert)
    await asyncio.sleep(1.2)
    assert await serial(gateway, authority) == before
    (tmp_path / "server.key").write_bytes(leaf.key)
    await until_serial(gateway, authority, leaf.serial)
    assert files.current.cert == leaf.cert


async def test_a_new_authority_of_clients_is_in_force_and_the_old_one_is_not(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    other = Authority()
    other.write(tmp_path)
    old, new = (trusting(authority, each.leaf(uris=[HOST]), tmp_path) for each in (authority, other))
    await until(lambda: seen(gateway, new), lambda _: True, despite=REFUSED)
    with pytest.raises(REFUSED):
        await seen(gateway, old)


async def test_a_restarted_gateway_has_the_new_certificate(
    gateway: Gateway, authority: Authority, tmp_path: Path
) -> None:
    leaf = authority.leaf()
    leaf.write(tmp_path, "server")
    await until_serial(gateway, authority, leaf.serial)
    assert gateway.pid is not None
    os.kill(gateway.pid, signal.SIGKILL)
    assert await until(lambda: serial(gateway, authority), despite=(OSError,)) == leaf.serial


async def test_files_that_cannot_be_used_are_one_line_and_leave_nothing_behind(
    files: CertificateFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "t"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    files.key.unlink()
    with pytest.raises(GatewayError, match=rf"^gatewayTls\.key: {files.key}: no such file or directory$"):
        await Gateway("127.0.0.1:0", certificates=files).start()
    assert list(folder.iterdir()) == []


async def test_no_key_is_copied(
    files: CertificateFiles, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("t")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    gateway = Gateway("127.0.0.1:0", certificates=files)
    await gateway.start()
    try:
        written = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
        page = {"console.html", "console.html.gz"}
        assert {path.name for path in written} == {"envoy.yaml", "server.yaml", "clients.yaml", "in-use", *page}
        assert not any(b"PRIVATE" in path.read_bytes() for path in written)
    finally:
        await gateway.stop()
