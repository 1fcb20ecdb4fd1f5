"""The certificates of server and gateway are replaced under load, and no call fails."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.certificates import Authority, Leaf
from tests.gateway.control_plane import SECS, ControlPlane, control_plane
from tests.waiting import until

pytestmark = pytest.mark.long

AUTHORITY = Authority()
TOKEN = "x" * 24
BEARER = {"authorization": f"Bearer {TOKEN}"}
ROTATIONS = 4
KINDS = {f"{age} connection, {by}" for age in ("old", "new") for by in ("grpc", "rest", "REST")}


class Load:
    """Calls that never stop: over old connections and new ones, by gRPC and REST, with a watch that goes on."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._credentials = grpc.ssl_channel_credentials(AUTHORITY.cert)
        self._context = ssl.create_default_context(cadata=AUTHORITY.cert.decode())
        self.calls: dict[str, int] = {}
        self._over = asyncio.Event()

    def channel(self, port: str) -> grpc.aio.Channel:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
        return grpc.aio.secure_channel(f"127.0.0.1:{self._plane.ports[port]}", self._credentials, options)

    def http(self) -> httpx.AsyncClient:
        url = f"https://127.0.0.1:{self._plane.ports['rest']}"
        return httpx.AsyncClient(base_url=url, verify=self._context, timeout=SECS, trust_env=False, headers=BEARER)

    def count(self, kind: str) -> None:
        self.calls[kind] = self.calls.get(kind, 0) + 1

    async def has_come_round(self) -> None:
        """Once each kind of call was answered again."""
        before = dict(self.calls)
        await until(lambda: all(self.calls.get(kind, 0) > before.get(kind, 0) for kind in KINDS))

    async def submit(self, channel: grpc.aio.Channel, kind: str) -> None:
        stub = task_pb2_grpc.TaskServiceStub(channel)
        request = task_pb2.SubmitTaskRequest(agent_id="ann", action="click")
        await stub.SubmitTask(request, timeout=SECS, metadata=tuple(BEARER.items()))
        self.count(kind)

    async def get(self, http: httpx.AsyncClient, kind: str) -> None:
        (await http.get("/scheduler/stats")).raise_for_status()
        self.count(kind)

    async def over_one_connection(self, port: str) -> None:
        async with self.channel(port) as channel:
            while not self._over.is_set():
                await self.submit(channel, f"old connection, {port}")

    async def over_new_connections(self, port: str) -> None:
        while not self._over.is_set():
            async with self.channel(port) as channel:
                await self.submit(channel, f"new connection, {port}")

    async def by_rest(self) -> None:
        async with self.http() as kept:
            while not self._over.is_set():
                await self.get(kept, "old connection, REST")
                async with self.http() as new:
                    await self.get(new, "new connection, REST")

    async def watch(self) -> None:
        """A watch that began before the first rotation sees a task of after the last."""
        async with self.channel("grpc") as channel:
            stub = task_pb2_grpc.TaskServiceStub(channel)
            watching = stub.WatchTasks(task_pb2.WatchTasksRequest(), metadata=tuple(BEARER.items()))
            async for event in watching:
                self.count("watched")
                if self._over.is_set() and event is not None:
                    return

    async def run(self, change: Any) -> None:
        """Call while `change` runs. Raises what the first call that fails raises."""
        async with asyncio.TaskGroup() as group:
            for port in ("grpc", "rest"):
                group.create_task(self.over_one_connection(port))
                group.create_task(self.over_new_connections(port))
            group.create_task(self.by_rest())
            watching = group.create_task(self.watch())
            await change()
            self._over.set()
            async with self.channel("grpc") as channel:
                await self.submit(channel, "last")
            await watching


async def serial(port: int) -> int:
    """The serial number of the certificate that a new connection gets."""
    context = ssl.create_default_context(cadata=AUTHORITY.cert.decode())
    context.set_alpn_protocols(["h2"])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    certificate = writer.get_extra_info("peercert")
    writer.close()
    return int(certificate["serialNumber"], 16)


async def test_no_call_fails_while_both_certificates_are_replaced_again_and_again(tmp_path: Path) -> None:
    def put(leaf: Leaf, name: str) -> dict[str, str]:
        cert, key = leaf.write(tmp_path, name)
        return {"cert": str(cert), "key": str(key)}

    sections = {"tls": put(AUTHORITY.leaf(), "server"), "gatewayTls": put(AUTHORITY.leaf(), "gateway")}
    config = tmp_path / "taskyard.json"
    config.write_text(json.dumps(sections | {"scheduler": {"maxQueueSize": 10**6, "maxPerAgent": 10**6}}))

    async def rotate(plane: ControlPlane, load: Load) -> None:
        for _ in range(ROTATIONS):
            await load.has_come_round()
            leaves = {"grpc": AUTHORITY.leaf(), "rest": AUTHORITY.leaf()}
            put(leaves["grpc"], "server")
            put(leaves["rest"], "gateway")
            for port, leaf in leaves.items():
                # Only a handshake tells.
                await until(lambda port=port: serial(plane.ports[port]), lambda found, leaf=leaf: found == leaf.serial)

    with control_plane("--config", str(config), environment={"TASKYARD_ADMIN_TOKEN": TOKEN}) as plane:
        load = Load(plane)
        await load.run(lambda: rotate(plane, load))
    assert set(load.calls) == {
        *KINDS,
        "watched",
        "last",
    }
    assert all(load.calls[kind] >= ROTATIONS for kind in load.calls if kind != "last")
