"""kill -9 in the middle of uploads: each artifact that was acknowledged is there with its bytes, and no other is told.

A host without a stream uploads artifacts of a few names, part after part, each again until it is acknowledged; where a
server that was started anew has less of one, the upload begins anew. Readers get a whole one at any time, by its hash.
"""

from __future__ import annotations

import asyncio
import os
import random
from hashlib import sha256
from pathlib import Path

import grpc
import httpx
import pytest
from google.api.httpbody_pb2 import HttpBody

from taskyard.v1 import artifact_pb2, artifact_pb2_grpc
from tests.uploaders import PART_BYTES, content
from tests.waiting import until

from .test_output import Host, killed, repeated
from .trials import yard_in

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
NAMES = ("a", "b", "c")


class Uploader:
    """What a host has put, by name, and how often an upload had to begin anew."""

    def __init__(self, channel: grpc.aio.Channel, host: Host, chance: random.Random) -> None:
        self._stub = artifact_pb2_grpc.ArtifactServiceStub(channel)
        self._host, self._chance = host, chance
        self.put: dict[str, bytes] = {}
        self.count = 0

    async def run(self, is_over: asyncio.Event) -> None:
        """Upload one artifact after the other until it is over."""
        while not is_over.is_set():
            name, size = self._chance.choice(NAMES), self._chance.randrange(5 * PART_BYTES)
            data = content(size, seed=self.count << 20)
            while not await self._upload(name, data):
                pass
            self.put[name] = data
            self.count += 1

    async def _upload(self, name: str, data: bytes) -> bool:
        """Upload one; False if it has to begin anew."""
        for offset in range(0, max(len(data), 1), PART_BYTES):
            part, is_last = data[offset : offset + PART_BYTES], offset + PART_BYTES >= len(data)
            request = artifact_pb2.UploadArtifactRequest(
                host_id="h",
                task_id=self._host.task_id,
                fencing_token=self._host.token,
                name=name,
                offset=offset,
                sha256=sha256(data).hexdigest() if is_last else "",
                content=HttpBody(data=part, content_type="text/plain"),
            )
            try:
                answer = await repeated(lambda request=request: self._stub.UploadArtifact(request, timeout=5))
            except grpc.aio.AioRpcError as error:
                if "offset: must be" not in str(error.details()):
                    raise
                return False
            assert answer.received_bytes == offset + len(part)
        return True


async def read(rest: str, task_id: str, is_over: asyncio.Event) -> int:
    """Read artifacts until it is over; how many were whole, which each is that is told to be."""
    whole, chance = 0, random.Random(SEED)
    async with httpx.AsyncClient(base_url=rest, timeout=30) as client:
        while not is_over.is_set():
            try:
                answer = await client.get(f"/tasks/{task_id}/artifacts/{chance.choice(NAMES)}")
            except httpx.HTTPError:
                # A server that was killed, or an artifact that was replaced, in the middle.
                await asyncio.sleep(0.05)
                continue
            assert answer.status_code in (200, 404, 503), answer.text
            if answer.status_code == 200:
                assert answer.headers["etag"] == f'"{sha256(answer.content).hexdigest()}"'
                whole += 1
    return whole


async def test_kills_lose_and_mix_no_artifact(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200))
    async with yard_in(tmp_path) as yard, grpc.aio.insecure_channel(yard.grpc, options) as channel:
        host, is_over = Host(channel), asyncio.Event()
        await host.begin()
        uploader = Uploader(channel, host, chance)
        uploading = asyncio.create_task(uploader.run(is_over))
        reading = asyncio.create_task(read(yard.rest, host.task_id, is_over))
        await killed(yard, chance)
        is_over.set()
        await uploading
        assert await reading
        async with httpx.AsyncClient(base_url=yard.rest) as client:
            for name, data in uploader.put.items():
                path = f"/tasks/{host.task_id}/artifacts/{name}"
                answer = await until(lambda path=path: client.get(path), lambda answer: answer.status_code != 503)
                assert answer.content == data
        await yard.check_store()
