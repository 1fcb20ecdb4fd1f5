"""The results of steps: the same for every attempt, in their types, of any size."""

import asyncio
import math
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskyard import FernetCodec, Host
from tests.clients.python.steps import stepping
from tests.clients.python.steps.stepping import run

MAX_INLINE_BYTES = 65_536


@dataclass
class Page:
    """A result."""

    url: str
    at: datetime
    size: int


PAGE = Page("a.example", datetime(2029, 1, 1, tzinfo=UTC), 2**60)


async def results_of(yard, function, codec=None):
    """What a step with this function returns at the first attempt, and what at the second, and how often it is done."""
    results, calls = [], []

    async def work(task):
        results.append(await task.step("it", function(calls)))
        if task.attempt == 1:
            raise RuntimeError("again")

    await run(yard, work, codec)
    return *results, len(calls)


def typed(calls):
    async def fetch() -> Page:
        calls.append(1)
        return PAGE

    return fetch


def typed_and_plain(calls):
    def fetch() -> Page:
        calls.append(1)
        return PAGE

    return fetch


def of_nothing(calls):
    def do() -> None:
        calls.append(1)

    return do


def of_a_lambda(calls):
    async def fetch(url) -> list[str]:
        calls.append(1)
        return [url]

    return lambda: fetch("a.example")


@pytest.mark.parametrize(
    ("function", "result"),
    [(typed, PAGE), (typed_and_plain, PAGE), (of_nothing, None), (of_a_lambda, ["a.example"])],
)
async def test_the_result_has_the_type_of_the_function_at_every_attempt(yard, function, result):
    assert await results_of(yard, function) == (result, result, 1)


@pytest.mark.parametrize(
    "value", [None, True, 0, 2**60, -(2**53), 1.5, "", "text", [], {}, {"a": [{"b": None}]}, [[[]]], "\x00ü"]
)
async def test_without_a_type_it_is_any_json(yard, value):
    first, second, count = await results_of(yard, lambda calls: lambda: calls.append(1) or value)
    assert first == second == value
    assert type(first) is type(second)
    assert count == 1


async def test_what_json_has_another_form_for_has_that_at_every_attempt(yard):
    assert await results_of(yard, lambda calls: lambda: calls.append(1) or (1, (2.0,))) == ([1, [2]], [1, [2]], 1)


def nested(levels):
    """Lists in lists."""
    value = 1
    for _ in range(levels):
        value = [value]
    return value


async def test_a_result_may_nest_as_deep_as_those_of_tasks(yard):
    value = nested(30)
    assert await results_of(yard, lambda calls: lambda: calls.append(1) or value) == (value, value, 1)


@pytest.mark.parametrize(
    "value",
    [PAGE, {1, 2}, b"bytes", {1: 2}, math.nan, [math.inf], object(), "\ud800", Path("x"), nested(31)],
    ids=["class", "set", "bytes", "key", "nan", "infinity", "object", "text", "path", "deep"],
)
async def test_what_is_no_json_and_has_no_type_is_an_error_at_once(yard, value):
    async def work(task):
        with pytest.raises(TypeError, match="step 'it': its result cannot be kept"):
            await task.step("it", lambda: value)
        return await task.step("it", lambda: "another")

    assert await run(yard, work) == "another"


async def test_what_does_not_fit_the_type_is_an_error_at_once(yard):
    def fetch() -> list[int]:
        return ["text"]

    async def work(task):
        with pytest.raises(TypeError, match=r"step 'it': its result cannot be kept: .*int"):
            await task.step("it", fetch)

    await run(yard, work)


async def test_a_type_that_cannot_be_kept_is_an_error_before_the_work(yard):
    called = []

    def connect() -> threading.Thread:
        called.append(1)
        return threading.current_thread()

    async def work(task):
        with pytest.raises(TypeError, match="step 'it': its result cannot be kept: Thread"):
            task.step("it", connect)

    await run(yard, work)
    assert called == []


async def test_what_was_recorded_and_does_not_fit_a_new_type_says_so(yard):
    def counts() -> int:
        return 1

    async def work(task):
        if task.attempt == 1:
            await task.step("it", lambda: "text")
            raise RuntimeError("again")
        with pytest.raises(ValueError, match="step 'it': its result does not fit: "):
            await task.step("it", counts)

    await run(yard, work)


async def test_a_codec_hides_it_from_all_who_have_it_not(yard):
    codec = FernetCodec(FernetCodec.new_key())
    assert await results_of(yard, typed, codec) == (PAGE, PAGE, 1)
    (task,) = [each async for each in yard.client.list()]
    (hidden,) = await yard.client.steps(task.id)
    assert (hidden.result, hidden.output.encoding) == (None, "fernet")
    (shown,) = await yard.open_client(codec=codec).steps(task.id)
    assert shown.result == {"url": "a.example", "at": "2029-01-01T00:00:00Z", "size": 2**60}


# Large results


@pytest.mark.parametrize("runs_in", ["thread", "process"])
@pytest.mark.parametrize("size", [MAX_INLINE_BYTES - 10, MAX_INLINE_BYTES, 3_000_000])
async def test_a_large_result_becomes_an_artifact_and_comes_back_as_a_value(yard, tmp_path, runs_in, size):
    host = Host(host_id="host-1")
    host.action("work", runs_in=runs_in)(stepping.large)
    yard.host(host)
    task = await yard.client.submit("work", params={"folder": str(tmp_path), "size": size}, retry_policy=stepping.AGAIN)
    ended = await yard.until_ended(task)
    assert ended.result == size
    assert (tmp_path / "long").read_text() == "x"
    (step,) = await task.steps()
    if size < MAX_INLINE_BYTES:
        assert (ended.artifacts, len(step.result)) == ((), size)
        return
    (artifact,) = ended.artifacts
    assert (artifact.name, artifact.size_bytes) == (step.result["$artifact"]["name"], size + 2)
    assert step.result["$artifact"]["href"] == f"/tasks/{task.id}/artifacts/{artifact.name}"


async def test_a_large_typed_result_comes_back_exactly(yard):
    def of(calls):
        def count() -> list[int]:
            calls.append(1)
            return [2**60 + each for each in range(20_000)]

        return count

    expected = [2**60 + each for each in range(20_000)]
    assert await results_of(yard, of) == (expected, expected, 1)


async def test_a_large_result_that_a_codec_has_made_comes_back(yard):
    codec = FernetCodec(FernetCodec.new_key())
    text = "x" * 300_000
    assert await results_of(yard, lambda calls: lambda: calls.append(1) or text, codec) == (text, text, 1)


@pytest.mark.parametrize("sizes", [[200_000] * 10 + [900] * 990, [60_000] * 100], ids=["many", "middling"])
async def test_a_task_may_have_many_steps_some_of_which_are_large(yard, sizes):
    done = []

    def does(size: int) -> str:
        done.append(size)
        return "x" * size

    async def work(task):
        for begin in range(0, len(sizes), 50):
            numbers = range(begin, begin + 50)
            await asyncio.gather(*(task.step(str(each), does, sizes[each]) for each in numbers))
        if task.attempt == 1:
            raise RuntimeError("again")
        return len(done)

    assert await run(yard, work) == len(sizes)


async def test_what_looks_like_a_reference_is_a_value(yard):
    value = {"$artifact": {"name": "page.png", "sizeBytes": 1, "sha256": "00"}}
    assert await results_of(yard, lambda calls: lambda: calls.append(1) or value) == (value, value, 1)
