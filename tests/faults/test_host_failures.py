"""Hosts are killed, suspended and cut off at work: no task is lost or ends twice, and every overlap is explained.

Real processes and sockets. `SEED` chooses who is hit when, `TASKS` how many tasks there are.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.struct_pb2 import Value

from taskyard import Client, EventKind, NewTask, TaskEvent, TaskState
from taskyard.v1.lease_pb2 import ClaimTaskRequest, CompleteTaskRequest
from taskyard.v1.lease_pb2_grpc import LeaseServiceStub
from taskyard.v1.runtime_host_pb2 import RegisterHostRequest
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceStub
from tests.waiting import LIMIT_SECS

from .fleet import GRACE_SECS, LEASE_SECS, Fleet, Worker

pytestmark = [pytest.mark.gate("fleets of processes"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
TASKS = int(os.environ.get("TASKS", "2500"))
HOSTS, SLOTS = 20, 10
LATE = Value(string_value="late")
SECS = 0.8
"""The mean duration of a task. All tasks together keep the fleet busy for a quarter of a minute."""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path)
    await fleet.start_server()
    try:
        yield fleet
    finally:
        await fleet.stop()


class Journal:
    """The events that a watch showed, by task."""

    def __init__(self) -> None:
        self.events: dict[str, list[TaskEvent]] = defaultdict(list)
        self.ended: set[str] = set()
        self.all_ended = asyncio.Event()

    async def follow(self, client: Client, count: int) -> None:
        async for event in client.watch(include_current=True):
            if event.kind in (EventKind.CURRENT, EventKind.SUBMITTED, EventKind.CHANGED):
                self.events[event.task.id].append(event)
                if event.task.state.ended:
                    self.ended.add(event.task.id)
                    if len(self.ended) == count:
                        self.all_ended.set()


async def inject_faults(fleet: Fleet, chance: random.Random) -> dict[str, int]:
    """Kill, suspend or cut off one host after the other, until cancelled. Returns how often each was done."""
    faults = {"kill": 0, "stop": 0, "cut": 0}
    suspended: set[asyncio.Task[None]] = set()

    async def suspend(worker: Worker) -> None:
        process = worker.process
        worker.send(signal.SIGSTOP)
        try:
            await asyncio.sleep(LEASE_SECS + chance.uniform(0.2, 1.5))
        finally:
            if worker.process is process and process is not None and process.returncode is None:
                worker.send(signal.SIGCONT)

    try:
        while True:
            await asyncio.sleep(chance.uniform(0.1, 0.5))
            worker = chance.choice(fleet.workers)
            fault = chance.choice(("kill", "stop", "cut", "cut"))
            if fault == "cut":
                faults["cut"] += worker.cutter.cut() > 0
            elif fault == "stop":
                faults["stop"] += 1
                suspended.add(asyncio.create_task(suspend(worker)))
            else:
                faults["kill"] += 1
                await worker.kill()
                await worker.start()
    except asyncio.CancelledError:
        for task in suspended:
            task.cancel()
        await asyncio.gather(*suspended, return_exceptions=True)
    return faults


async def report_too_late(address: str) -> int:
    """Report under leases that are never renewed, until cancelled. Returns how many reports were refused."""
    refused = 0
    async with grpc.aio.insecure_channel(address) as channel:
        leases = LeaseServiceStub(channel)
        await RuntimeHostServiceStub(channel).RegisterHost(RegisterHostRequest(host_id="late"))
        try:
            while True:
                claim = await leases.ClaimTask(ClaimTaskRequest(host_id="late", lease_secs=1, wait_ms=1000))
                if not claim.claimed:
                    continue
                await asyncio.sleep(1.5)
                report = CompleteTaskRequest(
                    host_id="late", task_id=claim.task_id, fencing_token=claim.fencing_token, result=LATE
                )
                with pytest.raises(grpc.aio.AioRpcError, match="lease lost"):
                    await leases.CompleteTask(report)
                refused += 1
        except asyncio.CancelledError:
            return refused


@pytest.mark.timeout(300)
async def test_under_kills_stops_and_cuts_every_task_ends_once_and_nearly_all_are_done(fleet: Fleet) -> None:
    chance = random.Random(SEED)
    journal = Journal()
    async with Client(fleet.address, agent_id="ann") as client:
        await fleet.start_workers(HOSTS, SLOTS)
        following = asyncio.create_task(journal.follow(client, TASKS))
        new = [NewTask("work", params={"secs": chance.uniform(0, 2 * SECS)}) for _ in range(TASKS)]
        submitted = await asyncio.gather(*(client.submit(task) for task in new))
        injecting = asyncio.create_task(inject_faults(fleet, chance))
        reporting_late = asyncio.create_task(report_too_late(fleet.address))
        async with asyncio.timeout(200):
            await journal.all_ended.wait()
        injecting.cancel()
        reporting_late.cancel()
        faults, refused = await injecting, await reporting_late
        # Suspended hosts go on now and report late.
        await asyncio.sleep(LEASE_SECS)
        tasks = {task.id: task async for task in client.list()}
        stats = await client.stats()
        following.cancel()

    assert {task.id for task in submitted} == tasks.keys() == journal.events.keys()
    assert all(task.state.ended for task in tasks.values())
    for task_id, events in journal.events.items():
        assert_one_end(task_id, events)
    done = sum(task.state is TaskState.DONE for task in tasks.values())
    assert done >= 0.99 * TASKS, f"only {done} of {TASKS} are done, seed {SEED}, faults {faults}"
    assert (stats.metrics.tasks_completed, stats.queue.total_inflight) == (done, 0)
    overlaps = count_overlaps(fleet.diaries(), journal)
    assert min(faults.values()) > 0
    assert 0 < refused <= stats.metrics.late_reports
    assert all(task.result != "late" for task in tasks.values())
    print(
        f"seed {SEED}: {done} of {TASKS} done, {faults}, {overlaps} overlaps, {stats.metrics.late_reports} late reports"
    )


def assert_one_end(task_id: str, events: list[TaskEvent]) -> None:
    """Assert that a task was queued before each lease, if the watch had begun by then, and ended once."""
    before = None
    states = [event.task.state for event in events]
    for state, event in zip(states, events, strict=True):
        if state is TaskState.ASSIGNED and event.kind is not EventKind.CURRENT:
            assert before is TaskState.QUEUED, f"{task_id} was leased while it was {before}: {states}"
        before = state
    assert sum(state.ended for state in states) == 1, f"{task_id} did not end once: {states}"
    assert states[-1].ended


def count_overlaps(diaries: list[dict[str, Any]], journal: Journal) -> int:
    """Count how often two hosts worked on one task at once, and assert that the older lease was lost before."""
    overlaps = 0
    working: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for entry in diaries:
        runs = working[entry["task"]]
        if entry["what"] != "start":
            runs.pop(entry["token"], None)
            continue
        for other in runs.values():
            overlaps += 1
            assert entry["token"] != other["token"], f"two starts under one lease: {entry}, {other}"
            # A host that is cut off may still begin what has just reached it, until that lease would have ended.
            since = other["at"] - 5 if entry["token"] > other["token"] else entry["at"] - LEASE_SECS
            lost_between = [
                event
                for event in journal.events[entry["task"]]
                if event.task.state is TaskState.QUEUED and since < event.at.timestamp() < entry["at"]
            ]
            assert lost_between, f"no lease of {entry['task']} was lost between {other} and {entry}"
        runs[entry["token"]] = entry
    return overlaps


async def test_the_work_of_a_killed_host_starts_on_another_host_long_before_its_leases_end(fleet: Fleet) -> None:
    long = 600
    async with Client(fleet.address, agent_id="ann") as client:
        await fleet.start_workers(1, SLOTS, lease_secs=long)
        (victim,) = fleet.workers
        submitted = await asyncio.gather(*(client.submit("work", params={"secs": 30}) for _ in range(SLOTS)))
        await running(client, SLOTS, "host-00")
        await fleet.start_workers(1, SLOTS, lease_secs=long)
        killed_at = time.time()
        await victim.kill()
        await running(client, SLOTS, "host-01")
    second = fleet.diaries()[SLOTS:]
    assert {entry["host"] for entry in second} == {"host-01"}
    assert {entry["task"] for entry in second} == {task.id for task in submitted}
    latest = max(entry["at"] for entry in second) - killed_at
    print(f"started on the other host {latest:.2f} s after the kill, with a grace of {GRACE_SECS} s")


async def running(client: Client, count: int, host_id: str) -> None:
    """Wait until the server shows this many tasks running on a host."""
    async with asyncio.timeout(LIMIT_SECS):
        while True:
            tasks = [task async for task in client.list(states=[TaskState.RUNNING])]
            if sum(task.host_id == host_id for task in tasks) == count:
                return
            await asyncio.sleep(0.05)
