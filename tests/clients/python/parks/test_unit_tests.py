"""Unit tests of handlers that park, which need no server: the answers are given, and what is waited for is seen."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import pytest

from taskyard import Parked, WaitFor
from taskyard.testing import running_task


@dataclass
class Decision:
    """An answer."""

    go: bool


async def deploys(task):
    said = await task.ask("deploy", "Deploy?", type=Decision)
    await task.sleep(timedelta(minutes=1))
    await task.join(["tsk_1"], name="children")
    return said.go


def deploys_plainly(task):
    said = task.ask("deploy", "Deploy?", type=Decision).value
    task.sleep(timedelta(minutes=1))
    task.join(["tsk_1"], name="children")
    return said.go


@pytest.mark.parametrize("handler", [deploys, deploys_plainly])
async def test_a_handler_is_seen_as_parked_until_it_has_what_it_waits_for(handler):
    task = running_task()
    outcome = await task.run(handler)
    (wait,) = outcome.waits
    assert (outcome.is_parked, wait.kind, wait.name, wait.question.text) == (True, WaitFor.ANSWER, "deploy", "Deploy?")
    assert wait.question.schema["$defs"]["Decision"]["required"] == ["go"]
    task.answers["deploy"] = Decision(go=True)
    assert [(wait.kind, wait.name) for wait in (await task.run(handler)).waits] == [(WaitFor.TIME, "sleep")]
    task.came.add("sleep")
    assert [wait.task_ids for wait in (await task.run(handler)).waits] == [("tsk_1",)]
    task.came.add("children")
    assert (await task.run(handler)).result is True


async def test_all_can_be_there_from_the_start():
    task = running_task(answers={"deploy": {"go": False}}, came=["sleep", "children"])
    assert await deploys(task) is False


def test_also_for_a_plain_function():
    task = running_task(answers={"deploy": {"go": False}}, came=["sleep", "children"])
    assert deploys_plainly(task) is False


async def test_a_handler_that_is_called_directly_raises():
    task = running_task()
    with pytest.raises(Parked):
        await deploys(task)
    assert [wait.name for wait in task.waits] == ["deploy"]


def test_a_plain_one_too():
    task = running_task()
    with pytest.raises(Parked):
        deploys_plainly(task)
    assert [wait.name for wait in task.waits] == ["deploy"]


async def test_several_waits_are_seen_together():
    async def work(task):
        return await asyncio.gather(task.ask("a", "A?"), task.ask("b", "B?"), task.step("it", str, 1))

    task = running_task(answers={"a": 1})
    assert [wait.name for wait in (await task.run(work)).waits] == ["b"]
    del task.answers["a"]
    assert [wait.name for wait in (await task.run(work)).waits] == ["a", "b"]
    assert task.steps == {"it": "1"}


async def test_an_answer_that_does_not_fit_is_an_error():
    outcome = await running_task(answers={"deploy": {}}).run(deploys)
    assert "ask 'deploy': the answer does not fit: object missing required field `go`" in outcome.error


async def test_an_event_is_waited_for_and_read():
    async def handler(task):
        return await task.event("paid", timeout=60)

    task = running_task()
    outcome = await task.run(handler)
    assert outcome.is_parked
    (wait,) = outcome.waits
    assert (wait.kind, wait.name, wait.event) == (WaitFor.EVENT, "paid", "paid")
    task.events["paid"] = {"amount": 7}
    assert (await task.run(handler)).result == {"amount": 7}
    assert (await running_task(events={"paid": [1]}).run(handler)).result == [1]
