"""What runs leave behind, over replicas that are killed, stopped, cut off and slowed down: nothing is lost or doubled.

A host says chunks and uploads artifacts under one lease, another one is handed results; readers follow meanwhile, by
gRPC and by server-sent events (tests/durability/test_output.py and its neighbours). `SEED` and `MINUTES` are as in
`test_misfortunes.py`.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import grpc
import httpx
import pytest

from taskyard.v1 import task_pb2
from tests.durability.test_artifacts import Uploader, read
from tests.durability.test_inputs import Line
from tests.durability.test_output import Host, follow, follow_events
from tests.waiting import until

from .cluster import Cluster
from .misfortunes import KINDS, Misfortunes
from .trial import settings

pytestmark = [pytest.mark.gate("three servers and PostgreSQL"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
MINUTES = float(os.environ.get("MINUTES", "0.15"))
OPTIONS = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200))


@pytest.mark.timeout(300 + 90 * MINUTES)
async def test_nothing_that_runs_leave_behind_is_lost_or_doubled(tmp_path: Path) -> None:
    given, chance, is_over = settings(), random.Random(SEED), asyncio.Event()
    given["store"]["artifacts"] = (tmp_path / "artifacts").as_uri()
    given["scheduler"] = {**given["scheduler"], "resultTTLSec": 1}
    cluster = Cluster(tmp_path, given)
    try:
        await cluster.start()
        async with grpc.aio.insecure_channel(cluster.grpc, OPTIONS) as channel:
            host, line = Host(channel), Line(channel)
            await host.begin()
            uploader = Uploader(channel, host, chance)
            readers = [
                asyncio.create_task(follow(channel, host.task_id)),
                asyncio.create_task(follow_events(cluster.rest, host.task_id)),
            ]
            reading = asyncio.create_task(read(cluster.rest, host.task_id, is_over))
            work = [line.submit(is_over), line.work(is_over), uploader.run(is_over)]
            working = [asyncio.create_task(each) for each in work]
            is_silent = asyncio.Event()
            talking = asyncio.create_task(host.talk(chance, is_silent))
            await Misfortunes(cluster, random.Random(SEED)).go_on(60 * MINUTES, lambda: None, KINDS)
            is_over.set()
            await asyncio.gather(*working)
            is_silent.set()
            await talking
            assert await reading
            for reader in readers:
                assert await reader == host.said
            assert await follow(channel, host.task_id) == host.said
            async with httpx.AsyncClient(base_url=cluster.rest) as client:
                for name, data in uploader.put.items():
                    path = f"/tasks/{host.task_id}/artifacts/{name}"
                    answer = await until(lambda path=path: client.get(path), lambda answer: answer.status_code != 503)
                    assert answer.content == data
            for task_id in line.submitted:
                assert (await line.state(task_id)).state == task_pb2.Task.State.done
            assert line.used == len(line.submitted) > 0
            await cluster.check_store()
    finally:
        await cluster.stop()
