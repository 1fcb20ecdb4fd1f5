"""Steps in unit tests, which need no server: they are recorded, and those of an earlier attempt are given."""

import asyncio
from dataclasses import dataclass

import pytest

from taskyard import Retry
from taskyard.testing import running_task


@dataclass
class Page:
    """A result."""

    url: str


async def fetch(url: str) -> Page:
    return Page(url)


async def reads(task):
    page = await task.step("fetch", fetch, "a.example")
    return [page.url, await task.step("length", len, page.url)]


def reads_plainly(task):
    url = task.step("url", lambda: "a.example").value
    return [url, task.step("length", len, url).value]


async def test_they_are_recorded_as_json():
    task = running_task()
    assert await reads(task) == ["a.example", 9]
    assert task.steps == {"fetch": {"url": "a.example"}, "length": 9}


def test_also_those_of_a_plain_function():
    task = running_task()
    assert reads_plainly(task) == ["a.example", 9]
    assert task.steps == {"url": "a.example", "length": 9}


async def test_what_an_earlier_attempt_has_done_is_not_done_again():
    task = running_task(attempt=2, steps={"fetch": Page("b.example"), "length": 1})
    assert await reads(task) == ["b.example", 1]
    assert task.task.steps == 2
    task = running_task()
    task.steps["fetch"] = {"url": "c.example"}
    assert (await task.run(reads)).result == ["c.example", 9]


async def test_each_run_of_a_handler_begins_from_its_start():
    called = []

    async def fails_once(task):
        await task.step("it", called.append, 1)
        if len(called) == 1 and task.outcome is None:
            raise Retry
        return "done"

    task = running_task()
    assert (await task.run(fails_once)).retry_after is not None
    assert (await task.run(fails_once)).result == "done"
    assert (called, task.steps) == ([1], {"it": None})


async def test_a_name_that_is_used_twice_is_an_error():
    async def twice(task):
        await asyncio.gather(task.step("it", fetch, "a"), task.step("it", fetch, "b"))

    assert "step 'it': this run has a step of this name already" in (await running_task().run(twice)).error


async def test_steps_of_lambdas_that_return_a_coroutine_are_awaited():
    task = running_task()
    assert await task.step("it", lambda: _text()) == "text"
    assert task.steps == {"it": "text"}


async def _text():
    return "text"


def test_an_async_function_of_a_plain_handler_is_an_error():
    with pytest.raises(TypeError, match="takes an async handler"):
        running_task().step("it", fetch, "a")
