"""`examples/agent_program.py` as its reader runs it, and its host killed by SIGKILL between any two of its messages.

After a kill another host goes on: each step and part is done once, but for what was under way, a person is asked once,
and what the program says is whole. `POINTS` is how many points are tried, 0 for all of them, `PARTS` how many parts.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
import pytest

from taskyard import Client, StepKind, TaskHandle, TaskState
from tests.environment import without_settings
from tests.waiting import until

from . import program_host
from .trials import SETTINGS, yard_in
from .yard import Yard

pytestmark = [pytest.mark.gate("whole processes that are killed"), pytest.mark.long]

POINTS = int(os.environ.get("POINTS", "8"))
PARTS = int(os.environ.get("PARTS", "3"))
SLOTS = 4
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([program_host.__name__, "taskyard.hosting.host_run", "taskyard.client"])


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with yard_in(tmp_path, settings=SETTINGS) as serving:
        yield serving


class Trial:
    """The program in one yard, again and again, and the person who answers it by REST."""

    def __init__(self, yard: Yard, client: Client, rest: httpx.AsyncClient) -> None:
        self._yard = yard
        self._client = client
        self._rest = rest
        self._asked: Counter[str] = Counter()
        self._hosts: list[BaseProcess] = []

    async def play(self, last: int) -> int:
        """Run the program with a host that ends itself after `last` messages; how many the first host passed."""
        notes = self._yard.folder / f"notes-{last}"
        task = await self._client.submit("study", params={"topic": "tides", "parts": PARTS}, token_limit=500)
        passed = FORKS.RawArray("d", 2)
        self._begin(last, passed, notes)
        await until(lambda: self._has_ended(task, notes))
        self.end()
        made = Counter(await asyncio.to_thread(_lines, notes))
        await self._check(task, made, datetime.fromtimestamp(passed[1], UTC))
        return int(passed[0])

    def _begin(self, last: int, passed: Any, notes: Path) -> None:
        host = FORKS.Process(target=program_host.run, args=(self._yard.grpc, last, passed, str(notes)))
        host.start()
        self._hosts.append(host)

    def end(self) -> None:
        """End all hosts that still live."""
        for host in self._hosts:
            host.kill()
            host.join()
        self._hosts.clear()

    async def _has_ended(self, task: TaskHandle, notes: Path) -> bool:
        """Answer what is open, and begin another host if there is none; True once the program has ended."""
        if not self._hosts[-1].is_alive():
            self._begin(0, FORKS.RawArray("d", 2), notes)
        for asked in (await self._rest.get("/questions")).json()["questions"]:
            self._asked[asked["taskId"]] += 1
            path = f"/tasks/{asked['taskId']}/questions/{asked['questionId']}:answer"
            assert (await self._rest.post(path, json={"answer": "yes"})).is_success
        return (await task.task()).state.ended

    async def _check(self, handle: TaskHandle, made: Counter[str], killed_at: datetime) -> None:
        task, said = await handle.task(), await _said(handle)
        assert (task.state, task.result) == (TaskState.DONE, f"published {PARTS * 100_000:,} characters"), task
        assert self._asked[task.id] == 1
        # What has ended when it is asked for is no step.
        steps = [step for step in await handle.steps() if step.kind is not StepKind.ENDS]
        assert [step.name for step in steps] == ["outline", "summary", "publish"]
        assert all(step.result in said[step.attempt] for step in steps[:2])
        kept = {step.result: step.recorded_at for step in steps[:2]}
        children = [each async for each in self._client.list(parent_id=task.id)]
        names = [f"part-{number}" for number in range(PARTS)]
        assert sorted([each.child_name or "" for each in children]) == sorted(["report", *names])
        for child in children:
            assert child.state is TaskState.DONE
            if child.action == "part":
                assert child.result in list((await _said(self._client.handle(child.id))).values())[-1]
                kept[child.result] = child.completed_at
        assert kept.keys() == made.keys()
        again = [each for each, times in made.items() if times > 1]
        assert len(again) <= SLOTS
        assert all(made[each] == 2 and killed_at < kept[each] for each in again)


def _lines(notes: Path) -> list[str]:
    return notes.read_text().splitlines()


async def _said(handle: TaskHandle) -> dict[int, str]:
    """What a task has said in each attempt. Its chunks are numbered without a gap."""
    said: dict[int, str] = {}
    chunks = [chunk async for chunk in handle.output(follow=False)]
    assert [chunk.sequence for chunk in chunks] == list(range(1, len(chunks) + 1))
    for chunk in chunks:
        said[chunk.attempt] = said.get(chunk.attempt, "") + str(chunk.data)
    return said


@pytest.mark.timeout(3_600 if POINTS == 0 else 120)
async def test_a_host_may_be_killed_between_any_two_messages(yard: Yard) -> None:
    async with Client(yard.grpc, agent_id="ann") as client, httpx.AsyncClient(base_url=yard.rest) as rest:
        trial = Trial(yard, client, rest)
        try:
            count = await trial.play(0)
            assert count > 4 * PARTS
            every = 1 if POINTS == 0 else max(1, count // POINTS)
            for last in range(1, count + 1, every):
                await trial.play(last)
        finally:
            trial.end()
    await yard.check_store()


async def test_a_reader_runs_it_and_answers(yard: Yard, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(program_host.code_at(yard.grpc))
    running = await asyncio.create_subprocess_exec(
        sys.executable, str(program), env=without_settings(), stdout=asyncio.subprocess.PIPE
    )
    async with httpx.AsyncClient(base_url=yard.rest) as rest:

        async def answered() -> bool:
            asked = (await rest.get("/questions")).json()["questions"]
            return (
                bool(asked)
                and (
                    await rest.post(f"/tasks/{asked[0]['taskId']}/questions/publish:answer", json={"answer": "yes"})
                ).is_success
            )

        await until(answered)
    said, _ = await running.communicate()
    first, *rest_of_it = said.decode().splitlines()
    assert first.startswith("To answer it: taskyard answer tsk_")
    assert rest_of_it == [
        "This is what is known of tides. ",
        "This is what is known of 20 parts in 2,000,000 characters. ",
        "published 2,000,000 characters",
    ]
