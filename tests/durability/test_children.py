"""kill -9 while runs submit children by name: no name has two, none is lost, and later runs have what they made.

A host without a stream runs parents and children. Each run of a parent submits all its children anew, waits for their
ends, then for longer than results are kept, and hands back what the children made. Some of its runs end half-way. One
child has params that are an artifact of it, other ones in each run: it has those that its reference names.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from hashlib import sha256
from pathlib import Path

import grpc
import pytest
from google.api.httpbody_pb2 import HttpBody

from taskyard.v1 import artifact_pb2, artifact_pb2_grpc, child_pb2, child_pb2_grpc, lease_pb2, step_pb2, task_pb2
from taskyard.v1.wait_pb2 import EndOfTasks, NewWait
from tests.uploaders import PART_BYTES, content

from .test_output import SEED, killed, repeated
from .test_parks import Programs
from .trials import SETTINGS, yard_in

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

NAMES = ("a", "b", "c")
LARGE = "c"
"""The name of the child whose params are an artifact."""
KEPT_SECS = 1
"""Results are kept for so long, but those of children, as long as their parents live."""
SHORT = {**SETTINGS, "scheduler": {**SETTINGS["scheduler"], "resultTTLSec": KEPT_SECS}}
RELEASED_SHARE = 0.3
CUT_SHARE = 0.3
"""Of the calls that submit a large child, these are the last of their run."""


class Parents(Programs):
    """Tasks that have children. `children` are those that the server has acknowledged, `made` are their results."""

    def __init__(self, channel: grpc.aio.Channel, chance: random.Random) -> None:
        super().__init__(channel, chance)
        self._children = child_pb2_grpc.ChildServiceStub(channel)
        self._artifacts = artifact_pb2_grpc.ArtifactServiceStub(channel)
        self.large = 0
        self.children: dict[tuple[str, str], str] = {}
        self.made: dict[str, str] = {}
        self.repeated = 0

    async def _run(self, leased: lease_pb2.ClaimTaskResponse) -> None:
        if leased.task.action == "part":
            await self._make(leased)
            return
        under = {"host_id": "h", "task_id": leased.task_id, "fencing_token": leased.fencing_token}
        ids = [await self._submit_child(under, name) for name in NAMES if name != LARGE]
        large = await self._submit_large(under)
        ids.append(large)
        if not large or self._chance.random() < RELEASED_SHARE:
            release = lease_pb2.ReleaseTaskRequest(**under)
            await repeated(lambda: self._leases.ReleaseTask(release, timeout=5))
            return
        fetch = step_pb2.FetchStepsRequest(**under)
        steps = [step.name for step in (await repeated(lambda: self._steps.FetchSteps(fetch, timeout=5))).steps]
        if "ends" not in steps:
            for each in ids:
                if each not in self.made:
                    await self._park(under, NewWait(name=f"end of {each}", ends=EndOfTasks(task_ids=[each])))
                    return
            await self._park(under, NewWait(name="ends", sleep_secs=KEPT_SECS * 1.5))
            return
        done = lease_pb2.CompleteTaskRequest(**under)
        done.result.string_value = " ".join([await self._result_of(under, name) for name in NAMES])
        await repeated(lambda: self._leases.CompleteTask(done, timeout=5))

    async def _make(self, leased: lease_pb2.ClaimTaskResponse) -> None:
        """Complete a child with a word of its own. The large one must have the params that it refers to."""
        if leased.task.child_name == LARGE:
            (artifact,) = leased.task.artifacts
            read = artifact_pb2.ReadArtifactRequest(task_id=leased.task_id, name=artifact.name)
            data = await repeated(lambda: self._read(read))
            assert sha256(data).hexdigest() == artifact.sha256 == leased.task.params["sha256"]
            self.large += 1
        done = lease_pb2.CompleteTaskRequest(host_id="h", task_id=leased.task_id, fencing_token=leased.fencing_token)
        done.result.string_value = self.made.setdefault(leased.task_id, f"{self._chance.random()}")
        await repeated(lambda: self._leases.CompleteTask(done, timeout=5))

    async def _read(self, request: artifact_pb2.ReadArtifactRequest) -> bytes:
        return b"".join([body.data async for body in self._artifacts.ReadArtifact(request, timeout=5)])

    async def _submit_large(self, under: dict[str, object]) -> str:
        """Submit the large child held, put its params, and let it go; or return nothing, and do no more of it."""
        data = content(PART_BYTES + self._chance.randrange(PART_BYTES), seed=self._chance.randrange(1 << 30))
        request = child_pb2.SubmitChildRequest(name=LARGE, **under)
        request.child.action = "part"
        request.child.hold = True
        request.child.params["sha256"] = sha256(data).hexdigest()
        answer = await self._sent(request)
        if answer.held:
            if self._chance.random() < CUT_SHARE:
                return ""
            while not await self._put(under, data):
                if self._chance.random() < CUT_SHARE:
                    return ""
            request.child.hold = False
            await self._sent(request)
        return answer.task_id

    async def _put(self, under: dict[str, object], data: bytes) -> bool:
        """Put the params of the large child. False if that has to begin anew, or is cut off."""
        for offset in (0, PART_BYTES):
            part = artifact_pb2.UploadArtifactRequest(name="params.json", child=LARGE, offset=offset, **under)
            part.content.CopyFrom(HttpBody(data=data[offset : offset + PART_BYTES]))
            part.sha256 = sha256(data).hexdigest() if offset else ""
            try:
                await repeated(lambda part=part: self._artifacts.UploadArtifact(part, timeout=5))
            except grpc.aio.AioRpcError as error:
                if "offset: must be" not in str(error.details()):
                    raise
                return False
            if self._chance.random() < CUT_SHARE:
                return False
        return True

    async def _submit_child(self, under: dict[str, object], name: str) -> str:
        request = child_pb2.SubmitChildRequest(name=name, **under)
        request.child.action = "part"
        return (await self._sent(request)).task_id

    async def _sent(self, request: child_pb2.SubmitChildRequest) -> child_pb2.SubmitChildResponse:
        answer = await repeated(lambda: self._children.SubmitChild(request, timeout=5))
        known = self.children.setdefault((request.task_id, request.name), answer.task_id)
        assert answer.task_id == known
        self.repeated += answer.repeated
        return answer

    async def _result_of(self, under: dict[str, object], name: str) -> str:
        request = child_pb2.FetchChildRequest(name=name, **under)
        found = (await repeated(lambda: self._children.FetchChild(request, timeout=5))).child
        assert found.task_id == self.children[str(under["task_id"]), name]
        assert found.result.string_value == self.made[found.task_id]
        return found.result.string_value

    async def all_of(self, action: str) -> list[task_pb2.Task]:
        """All tasks of an action, also those that have left memory."""
        request = task_pb2.ListTasksRequest(action=action, history=True, page_size=1_000)
        found: list[task_pb2.Task] = []
        while True:
            page = await repeated(lambda: self._tasks.ListTasks(request, timeout=5))
            found += page.tasks
            if not page.next_page_token:
                return found
            request.page_token = page.next_page_token

    async def count(self, is_over: asyncio.Event) -> None:
        """Count which parents are done until all are."""
        while not is_over.is_set() or self.done < len(self.submitted):
            await asyncio.sleep(0.1)
            self.done = sum([task.state == task_pb2.Task.State.done for task in await self.all_of("run")])


async def test_kills_lose_no_child_and_submit_none_twice(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    options = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200))
    async with yard_in(tmp_path, settings=SHORT) as yard, grpc.aio.insecure_channel(yard.grpc, options) as channel:
        parents, is_over = Parents(channel, chance), asyncio.Event()
        running = [asyncio.create_task(part(is_over)) for part in (parents.submit, parents.work, parents.count)]
        await killed(yard, chance)
        is_over.set()
        await asyncio.gather(*running)
        assert len(parents.submitted) > 20
        assert parents.repeated > len(parents.submitted)
        assert parents.large >= len(parents.submitted)
        submitted = Counter((task.parent_id, task.child_name) for task in await parents.all_of("part"))
        assert submitted == dict.fromkeys(parents.children, 1)
        assert len(submitted) == len(NAMES) * len(parents.submitted)
        for task in await parents.all_of("run"):
            its = [parents.made[parents.children[task.task_id, name]] for name in NAMES]
            assert task.result.string_value == " ".join(its)
        await yard.check_store()
