"""What docs/use/from_temporal.md says of its examples, as tests of that project."""

import asyncio
from datetime import timedelta

import copies
import pytest

from taskyard import Action, TaskFailed, TaskState
from taskyard.testing import running_task

walk = Action[int, int]("walk", deadline=timedelta(hours=1))


async def hang(_task):
    await asyncio.Event().wait()


async def test_a_copy_that_hangs_is_tried_three_times(yard):
    yard.host({"copy": hang})
    submitted = await yard.client.submit(copies.copy, copies.Files(2))
    await yard.advance(minutes=9, wait=False)
    task = await yard.task(submitted)
    assert (task.state, task.code, len(task.attempts)) == ("failed", "timed_out", 3)


async def test_copying_goes_on_where_it_was():
    files = copies.Files(10)
    assert await copies.copy_files(files, running_task(files, checkpoint={"done": 7})) == 3


async def test_an_action_without_a_policy_is_not_repeated(yard):
    yard.host({"walk": hang})
    yard.fail_next(walk, "down")
    with pytest.raises(TaskFailed) as caught:
        await yard.client.run(walk, 1)
    assert caught.value.attempts == 1


async def test_too_many_fail_for_good(yard):
    yard.host(copies.host)
    task = await yard.until_ended(await yard.client.submit(copies.copy, copies.Files(2000)))
    assert (task.state, task.code, len(task.attempts)) == ("failed", "too_many", 1)


async def test_a_handler_that_reports_nothing_keeps_its_task_and_is_reached_by_a_cancel(yard):
    told = asyncio.Event()

    async def wait(_task):
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    yard.host({"walk": wait})
    handle = await yard.client.submit(walk, 5)
    await yard.advance(minutes=30, wait=False)
    assert (await handle.task()).state == TaskState.RUNNING
    await handle.cancel()
    await told.wait()


async def test_a_program_has_four_runs_and_its_children_end_with_it(yard):
    runs, both = [], asyncio.Barrier(3)

    async def copy(_task):
        await both.wait()
        await asyncio.Event().wait()

    async def copy_all(task):
        runs.append(task)
        return await copies.copy_all(task)

    yard.host({"copy": copy, "copy_all": copy_all}, slots=2)
    handle = await yard.client.submit("copy_all", params={"counts": [1, 2]})
    await yard.advance()
    await handle.answer("agree", True)
    await yard.advance()
    await yard.advance(hours=8, wait=False)
    await both.wait()
    assert len(runs) == 3
    await handle.cancel()
    assert [task.state async for task in yard.client.list(parent_id=handle.id)] == ["cancelled"] * 2


async def test_a_program_goes_on_once_its_children_have_ended(yard):
    runs = []

    async def copy_all(task):
        runs.append(task)
        return await copies.copy_all(task)

    yard.host({"copy": copies.copy_files, "copy_all": copy_all})
    handle = await yard.client.submit("copy_all", params={"counts": [1, 2]})
    await yard.advance()
    await handle.answer("agree", True)
    await yard.until_ended(handle)
    assert len(runs) == 4


async def test_a_no_copies_nothing(yard):
    yard.host(copies.host)
    handle = await yard.client.submit("copy_all", params={"counts": [1, 2]})
    await yard.advance()
    await handle.answer("agree", False)
    assert await handle.result() == 0


async def test_a_host_that_dies_costs_a_task_without_a_policy_nothing_but_time(yard):
    began = asyncio.Event()

    async def go(task):
        if task.attempt == 1:
            began.set()
            await asyncio.Event().wait()
        return 0

    yard.host({"walk": go})
    submitted = await yard.client.submit(walk, 1)
    await began.wait()
    yard.host({"walk": go})
    await yard.lose("host-1")
    at = yard.now
    assert (await yard.until_ended(submitted)).state == "done"
    assert yard.now - at < timedelta(seconds=10)


async def test_a_limit_holds_for_each_key(yard):
    await yard.client.limits.put("api*", max_inflight=1)
    yard.host({"walk": hang}, slots=5)
    for key in ("api-1", "api-1", "api-2"):
        await yard.client.submit("walk", concurrency_keys=[key], deadline=timedelta(hours=1))
    await yard.advance(seconds=1, wait=False)
    assert [task.state async for task in yard.client.list()] == ["running", "queued", "running"]


async def test_agents_have_shares_by_their_weights(yard):
    await yard.client.agents.put("shop", 3)
    for agent_id in ("shop", "blog"):
        for _ in range(8):
            await yard.client.submit("walk", agent_id=agent_id, deadline=timedelta(hours=1))
    yard.host({"walk": hang}, slots=8)
    await yard.advance(seconds=1, wait=False)
    running = [task.agent_id async for task in yard.client.list(states=["running"])]
    assert (running.count("shop"), running.count("blog")) == (6, 2)
