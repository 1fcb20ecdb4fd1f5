"""TLS of the gRPC server of `taskyard up` (section `tls`)."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.certificates import Authority, Leaf
from tests.ports import free_port
from tests.waiting import LIMIT_SECS

AUTHORITY = Authority()
TOKEN = "x" * 24
BEARER = (("authorization", f"Bearer {TOKEN}"),)
SECS = 20.0


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    cert, key = AUTHORITY.leaf().write(tmp_path, "server")
    return {"cert": str(cert), "key": str(key)}


def trusting(leaf: Leaf | None = None) -> grpc.ChannelCredentials:
    if leaf is None:
        return grpc.ssl_channel_credentials(AUTHORITY.cert)
    return grpc.ssl_channel_credentials(AUTHORITY.cert, leaf.key, leaf.cert)


async def submit(port: int, credentials: grpc.ChannelCredentials | None, **options: Any) -> str:
    """Submit a task over a new connection; its id."""
    address, own = f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]
    channel = (
        grpc.aio.insecure_channel(address, own)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, own)
    )
    async with channel:
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click")
        answer = await task_pb2_grpc.TaskServiceStub(channel).SubmitTask(
            request, metadata=BEARER, timeout=SECS, **options
        )
        return str(answer.task_id)


async def test_calls_are_served_by_tls_and_not_without(up: Any, tls: dict[str, str]) -> None:
    server = await up({"tls": tls}, credentials=trusting(), TASKYARD_ADMIN_TOKEN=TOKEN)
    assert await submit(server.grpc_port, trusting())
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await submit(server.grpc_port, None)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_with_client_ca_every_client_needs_a_certificate_of_it(
    up: Any, tls: dict[str, str], tmp_path: Path
) -> None:
    ours, theirs = (each.leaf(uris=["spiffe://taskyard/host/h1"]) for each in (AUTHORITY, Authority()))
    config = {"tls": tls | {"clientCa": str(AUTHORITY.write(tmp_path))}}
    server = await up(config, credentials=trusting(ours), TASKYARD_ADMIN_TOKEN=TOKEN)
    assert await submit(server.grpc_port, trusting(ours))
    for credentials in (trusting(), trusting(theirs)):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await submit(server.grpc_port, credentials)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_new_certificate_is_in_force_for_new_connections_and_old_ones_live_on(
    up: Any, tls: dict[str, str], tmp_path: Path
) -> None:
    server = await up({"tls": tls}, credentials=trusting(), TASKYARD_ADMIN_TOKEN=TOKEN)
    other = Authority()
    other.leaf().write(tmp_path, "server")
    await server.logged("certificate_replaced", section="tls")
    assert await submit(server.grpc_port, grpc.ssl_channel_credentials(other.cert))
    with pytest.raises(grpc.aio.AioRpcError):
        await submit(server.grpc_port, trusting())
    assert await server.health() == "SERVING"
    assert server.noise == []


async def test_files_that_do_not_fit_together_change_nothing_and_are_one_line(
    up: Any, tls: dict[str, str], tmp_path: Path
) -> None:
    server = await up({"tls": tls}, credentials=trusting(), TASKYARD_ADMIN_TOKEN=TOKEN)
    (tmp_path / "server.pem").write_bytes(Authority().leaf().cert)
    (line,) = await server.logged("certificate_not_replaced")
    assert line["error"] == f"tls.key: {tls['key']}: does not belong to the certificate in {tls['cert']}"
    assert await submit(server.grpc_port, trusting())


@pytest.mark.gate("waits out the time of a handshake")
async def test_a_caller_that_never_shakes_hands_is_cut_off_and_holds_up_nobody(up: Any, tls: dict[str, str]) -> None:
    server = await up({"tls": tls}, credentials=trusting(), TASKYARD_ADMIN_TOKEN=TOKEN)
    silent = [await asyncio.open_connection("127.0.0.1", server.grpc_port) for _ in range(50)]
    assert await submit(server.grpc_port, trusting())
    for reader, writer in silent:
        async with asyncio.timeout(LIMIT_SECS):
            assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"key": None}, "tls.key: is missing; tls needs cert and key"),
        ({"cert": "/nowhere/cert.pem"}, "tls.cert: /nowhere/cert.pem: no such file or directory"),
    ],
)
def test_unusable_files_are_one_line_and_exit_code_1(
    refused: Any, tls: dict[str, str], change: dict[str, str | None], error: str
) -> None:
    settings = {name: path for name, path in (tls | change).items() if path is not None}
    flags = {f"TASKYARD_TLS__{name.upper()}": path for name, path in settings.items()}
    refusal = refused(None, "--grpc", f"127.0.0.1:{free_port()}", **flags)
    assert (refusal.exit_code, refusal.errors, refusal.others) == (1, [error], [])
