"""Inputs of tasks, the results of others, as clients submit and show them (docs/rules.md, Inputs)."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from taskyard import Action, Client, NewTask, NotFound, Submitted, SyncClient, Task, TaskState
from tests.clients.python.conftest import Server
from tests.waiting import until

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FIRST = Submitted("tsk_1", TaskState.QUEUED, 1, NOW)

count = Action[list[int], int]("count")


def test_ids_acceptances_and_tasks_are_named_by_their_ids() -> None:
    done = Task("tsk_2", "ann", "click", TaskState.DONE, NOW)
    task = NewTask("report", inputs={"a": "tsk_0", "b": FIRST, "c": done})
    assert dict(task.to_message("ann", "key").inputs) == {"a": "tsk_0", "b": "tsk_1", "c": "tsk_2"}
    assert not NewTask("report").to_message("ann", "key").inputs


def test_in_a_batch_tasks_that_stand_before_are_named_by_their_place() -> None:
    one, two = NewTask("click"), NewTask("click")
    task = NewTask("report", after=[one], inputs={"old": "tsk_0", "two": two, "one": one})
    message = task.to_batch_message("key", before=[one, two])
    assert (dict(message.inputs), dict(message.input_indexes)) == ({"old": "tsk_0"}, {"two": 1, "one": 0})
    assert (list(message.after), list(message.after_indexes)) == ([], [0])


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ("tsk_1", r"inputs: is a dict of tasks by name, not 'tsk_1' \(str\)"),
        (["tsk_1"], r"inputs: is a dict of tasks by name, not \['tsk_1'\] \(list\)"),
        ({5: "tsk_1"}, r"inputs: is a dict of tasks by name, 5 \(int\) is no name"),
        ({5: NewTask("fetch")}, r"inputs: is a dict of tasks by name, 5 \(int\) is no name"),
        ({"page": 5}, r"inputs\.page: takes ids, handles and tasks, not 5 \(int\)"),
    ],
)
async def test_anything_else_is_refused_before_it_is_sent(client: Client, inputs: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        await client.submit("report", inputs=inputs)
    with pytest.raises(TypeError, match=problem):
        client.map("report", [{}], inputs=inputs)
    with pytest.raises(TypeError, match=problem):
        await client.submit_batch([NewTask("report", inputs=inputs)])


async def test_a_new_task_is_no_input_outside_of_its_batch(client: Client) -> None:
    first = NewTask("fetch")
    with pytest.raises(
        ValueError, match=r"inputs\.page: 'fetch' was not submitted; a NewTask is for tasks of the same"
    ):
        await client.submit("report", inputs={"page": first})
    with pytest.raises(ValueError, match=r"inputs\.page: 'fetch' does not stand in the batch before the task"):
        await client.submit_batch([NewTask("report", inputs={"page": first}), first])
    with pytest.raises(ValueError, match=r"inputs\.page: 'fetch' stands several times in the batch"):
        await client.submit_batch([first, first, NewTask("report", inputs={"page": first})])
    assert [task async for task in client.list()] == []


def test_a_schedule_has_no_inputs() -> None:
    with pytest.raises(ValueError, match="inputs: is for a single task"):
        NewTask("report", inputs={"page": "tsk_1"}).to_template("ann")


async def test_every_call_that_submits_takes_inputs_and_the_task_shows_them(server: Server, client: Client) -> None:
    page = await client.submit("fetch")
    by_name = await client.submit("report", inputs={"page": page})
    typed = await client.submit(count, [1], inputs={"page": await page.task(), "other": page.id})
    assert (await by_name.task()).inputs == {"page": page.id}
    assert (await typed.task()).inputs == {"page": page.id, "other": page.id}
    assert (await typed.task()).state is TaskState.PENDING
    assert (await page.task()).inputs == {}
    async with client.map(count, [[1], [2]], inputs={"page": page}):

        async def mapped() -> list[dict[str, str]]:
            tasks = [task async for task in client.list(states=["pending"], newest_first=True)]
            return [task.inputs for task in tasks][:2] if len(tasks) == 4 else []

        assert await until(mapped) == [{"page": page.id}] * 2
    first = NewTask("fetch")
    batch = await client.submit_batch([first, NewTask("report", inputs={"new": first, "old": page})])
    assert (await client.get(batch.task_ids[1])).inputs == {"new": batch.task_ids[0], "old": page.id}

    def blocking() -> bool:
        with SyncClient(server.address, agent_id="ann") as sync_client:
            first = sync_client.submit("fetch")
            return sync_client.submit("report", inputs={"page": first}).task().inputs == {"page": first.id}

    assert await asyncio.to_thread(blocking)


async def test_an_input_must_be_known(client: Client) -> None:
    with pytest.raises(NotFound, match="inputs: task tsk_0 not found"):
        await client.submit("report", inputs={"page": "tsk_0"})
