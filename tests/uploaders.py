"""Hosts and submitters of an engine that upload artifacts, and what readers get of them."""

import asyncio
from hashlib import sha256
from pathlib import Path

from taskyard_server.core.runs.artifacts import Part, Right
from taskyard_server.engine.artifacts import Uploaded
from taskyard_server.engine.engine import Engine
from taskyard_server.store.objects import Objects, ObjectsError
from tests.speakers import HOST, speaker

NAMESPACE = "default"
PART_BYTES = 65_536
"""The least that a part but the last may have."""


def objects_in(folder: Path) -> Objects:
    """Objects in a folder."""
    return Objects(f"file://{folder}")


def content(size: int, seed: int = 0) -> bytes:
    """Bytes of which no two parts are the same."""
    return b"".join(b"%015d\n" % (seed + index) for index in range(-(-size // 16)))[:size]


async def lease(engine: Engine) -> Right:
    """A task under a lease."""
    host = await speaker(engine)
    return Right(host.task_id, HOST, host.token)


async def send(
    engine: Engine,
    right: Right,
    name: str,
    data: bytes,
    offset: int = 0,
    of: bytes | None = None,
    size: int | None = None,
    media_type: str = "text/plain",
    namespace: str = NAMESPACE,
) -> Uploaded:
    """Upload a part; with what it is a part `of`, the last one."""
    part = Part(name, media_type, offset, data, size, None if of is None else sha256(of).digest())
    return await engine.artifacts.upload(namespace, right, part)


async def put(engine: Engine, right: Right, name: str, data: bytes, *, namespace: str = NAMESPACE) -> Uploaded:
    """Upload an artifact in parts."""
    offset = 0
    while offset + PART_BYTES < len(data):
        await send(engine, right, name, data[offset : offset + PART_BYTES], offset, namespace=namespace)
        offset += PART_BYTES
    return await send(engine, right, name, data[offset:], offset, of=data, namespace=namespace)


async def got(
    engine: Engine, task_id: str, name: str, start: int = 0, end: int | None = None, *, namespace: str = NAMESPACE
) -> bytes:
    """The bytes that a reader gets."""
    kept = await engine.artifacts.find(namespace, task_id, name)
    until = kept.artifact.size if end is None else end
    return b"".join([data async for data in engine.artifacts.read(kept, start, until)])


def files(folder: Path) -> list[str]:
    """The objects in a folder, without that of the yard."""
    return sorted(str(each.relative_to(folder)).partition("/")[2] for each in folder.rglob("*") if each.is_file())


class SlowObjects(Objects):
    """Objects whose writes wait until they may."""

    def __init__(self, url):
        super().__init__(url)
        self.is_writing, self.may_write = asyncio.Event(), asyncio.Event()

    async def put(self, path, data):
        self.is_writing.set()
        await self.may_write.wait()
        await super().put(path, data)


class FailingObjects(Objects):
    """Objects that can be away."""

    fails = False

    async def put(self, path, data):
        if self.fails:
            raise ObjectsError("away")
        await super().put(path, data)

    async def get(self, path, start, end):
        if self.fails:
            raise ObjectsError("away")
        return await super().get(path, start, end)
