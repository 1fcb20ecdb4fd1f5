"""Steps of handlers: what is recorded is not done again, and has the same result for every attempt."""

import asyncio
import threading

import pytest

from taskyard import Host, LeaseLost, NotFound
from tests.clients.python.steps import stepping
from tests.clients.python.steps.stepping import run
from tests.waiting import LIMIT_SECS


@pytest.mark.parametrize(
    ("handler", "runs_in"),
    [
        (stepping.awaited, "loop"),
        (stepping.plainly, "thread"),
        (stepping.plainly, "process"),
        (stepping.awaited, "process"),
    ],
)
async def test_a_step_of_an_earlier_attempt_is_not_done_again(yard, tmp_path, handler, runs_in):
    host = Host(host_id="host-1")
    host.action("work", runs_in=runs_in)(handler)
    yard.host(host)
    task = await yard.client.submit("work", params={"folder": str(tmp_path)}, retry_policy=stepping.AGAIN)
    await yard.until_ended(task)
    assert await task.result() == [{"a": [1, None]}, 1]
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"first": "x", "second": "x"}
    steps = await task.steps()
    assert [(each.name, each.result, each.run, each.attempt) for each in steps] == [
        ("first", {"a": [1, None]}, 1, 1),
        ("second", "x", 1, 2),
    ]
    assert (await task.task()).steps == 2


async def test_a_step_of_an_earlier_run_is_not_done_again(yard, tmp_path):
    yard.host({"work": stepping.awaited})
    task = await yard.client.submit("work", params={"folder": str(tmp_path)})
    await yard.until_ended(task)
    await yard.client.resume(task.id)
    await yard.until_ended(task)
    assert (tmp_path / "first").read_text() == "x"
    assert [(each.name, each.run) for each in await yard.client.steps(task.id)] == [("first", 1)]


async def test_a_step_of_a_worker_that_dies_is_not_done_again(yard, tmp_path):
    host = Host(host_id="host-1")
    host.action("work", runs_in="process")(stepping.dies)
    yard.host(host)
    task = await yard.client.submit("work", params={"folder": str(tmp_path)}, retry_policy=stepping.AGAIN)
    await yard.until_ended(task)
    assert await task.result() == "done"
    assert (tmp_path / "first").read_text() == "x"


# Names


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
async def test_a_name_that_is_used_twice_is_an_error(yard, runs_in):
    async def awaits(task):
        await task.step("it", lambda: 1)
        with pytest.raises(ValueError, match="step 'it': this run has a step of this name already"):
            await task.step("it", lambda: 2)
        return await task.step("other", lambda: 3)

    def plainly(task):
        assert task.step("it", lambda: 1).value == 1
        with pytest.raises(ValueError, match="step 'it': this run has a step of this name already"):
            task.step("it", lambda: 2)
        return task.step("other", lambda: 3).value

    assert await run(yard, awaits if runs_in == "loop" else plainly) == 3


async def test_also_of_two_at_once_and_of_one_that_was_recorded_before(yard):
    async def work(task):
        first = task.step("it", lambda: task.attempt)
        with pytest.raises(ValueError, match="this run has a step of this name already"):
            task.step("it", lambda: 2)
        value = await first
        if task.attempt == 1:
            raise RuntimeError("again")
        with pytest.raises(ValueError, match="this run has a step of this name already"):
            task.step("it", lambda: 2)
        return value

    assert await run(yard, work) == 1


@pytest.mark.parametrize("name", ["", " ", "x" * 257, "\ud800"])
async def test_a_name_that_is_none_is_an_error_before_the_work(yard, name):
    called = []

    async def work(task):
        with pytest.raises(ValueError, match="step: a name has from 1 to 256 characters"):
            task.step(name, called.append, 1)
        return await task.step("x" * 256, lambda: "fits")

    assert await run(yard, work) == "fits"
    assert called == []


async def test_names_decide_and_not_the_order(yard):
    done = []

    async def work(task):
        names = ["a", "b", "c"] if task.attempt == 1 else ["c", "new", "a", "b"]
        results = [await task.step(name, lambda name=name: done.append(name) or name.upper()) for name in names]
        if task.attempt == 1:
            raise RuntimeError("again")
        return results

    assert await run(yard, work) == ["C", "NEW", "A", "B"]
    assert done == ["a", "b", "c", "new"]


async def test_steps_run_at_once(yard):
    gate = threading.Barrier(3)

    def meets(number):
        gate.wait(LIMIT_SECS)
        return number

    async def work(task):
        return await asyncio.gather(*(task.step(f"{each}", meets, each) for each in range(3)))

    assert await run(yard, work) == [0, 1, 2]


async def test_the_names_of_parameters_are_free(yard):
    async def work(task):
        return await task.step("it", lambda name, function, self: [name, function, self], name=1, function=2, self=3)

    assert await run(yard, work) == [1, 2, 3]


# What goes wrong


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
async def test_an_exception_of_the_work_passes_through_and_nothing_is_recorded(yard, runs_in):
    tries = []

    def fails():
        tries.append(1)
        if len(tries) < 2:
            raise KeyError("it")
        return len(tries)

    async def awaits(task):
        with pytest.raises(KeyError):
            await task.step("it", fails)
        return await task.step("it", fails)

    def plainly(task):
        with pytest.raises(KeyError):
            task.step("it", fails)
        return task.step("it", fails).value

    assert await run(yard, awaits if runs_in == "loop" else plainly) == 2
    assert len(tries) == 2


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
async def test_a_stop_iteration_of_the_work_ends_it_all_the_same(yard, runs_in):
    async def awaits(task):
        with pytest.raises(RuntimeError, match="StopIteration"):
            await task.step("it", lambda: next(iter([])))

    def plainly(task):
        with pytest.raises(RuntimeError, match="StopIteration"):
            task.step("it", lambda: next(iter([])))

    await run(yard, awaits if runs_in == "loop" else plainly)


async def test_an_async_function_takes_an_async_handler(yard):
    async def fetch():
        return 1

    def work(task):
        for function in (fetch, lambda: fetch()):
            with pytest.raises(
                TypeError, match="step 'it': its function is an async one, which takes an async handler"
            ):
                task.step("it", function)
        return task.step("it", lambda: 2).value

    assert await run(yard, work) == 2


async def test_a_step_that_is_cancelled_in_its_work_is_not_recorded(yard):
    async def work(task):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await task.step("it", asyncio.Event().wait)
        return await task.step("it", lambda: "another")

    assert await run(yard, work) == "another"


async def test_under_a_lease_that_has_ended_nothing_is_recorded(yard):
    began, refused = asyncio.Event(), asyncio.Event()

    async def work(task):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            with pytest.raises((LeaseLost, NotFound)):
                await task.step("late", lambda: 1)
            refused.set()

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await began.wait()
    await task.cancel()
    await refused.wait()
    assert await task.steps() == ()


async def test_steps_of_a_task_that_is_unknown_are_not_found(yard):
    with pytest.raises(NotFound):
        await yard.client.steps("tsk_1")


# Times


async def test_a_step_tells_how_long_it_took_and_when_it_was_recorded(yard):
    async def work(task):
        await task.step("it", threading.Event().wait, 0.05)

    await run(yard, work)
    (task,) = [each async for each in yard.client.list()]
    (step,) = await yard.client.steps(task.id)
    assert step.duration.total_seconds() >= 0.05
    assert step.recorded_at == yard.now


def test_the_blocking_client_has_them(sync_yard):
    sync_yard.host({"work": lambda task: task.step("it", lambda: [1]).value})
    task = sync_yard.client.submit("work")
    assert sync_yard.until_ended(task).result == [1]
    (step,) = task.steps()
    assert (step,) == sync_yard.client.steps(task.id)
    assert (step.name, step.result, step.run, step.attempt) == ("it", [1], 1, 1)
