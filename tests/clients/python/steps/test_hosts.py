"""Hosts that record steps over breaks, restarts and cancelled handlers, and fetch those of earlier attempts once."""

import asyncio
from datetime import timedelta

import pytest

from taskyard import Host, LeaseLost, NotFound, Retry, TaskState, Unavailable
from taskyard_server.core.errors import Unavailable as Away
from taskyard_server.store.objects import MEMORY, Objects
from tests.clients.python.steps import stepping
from tests.waiting import LIMIT_SECS, until


@pytest.fixture
async def server(open_server):
    """A server that keeps artifacts, too."""
    return await open_server(objects=Objects(MEMORY))


async def finished(client, **fields):
    """The result of a task of the action `work`."""
    async with asyncio.timeout(LIMIT_SECS):
        return await (await client.submit("work", **fields)).result()


def once(server, do):
    """Have this done once a step is kept, before the first answer is sent."""

    async def answering():
        server.steps.answering = None
        await do()

    server.steps.answering = answering


def again():
    """The end of an attempt that is followed by another one at once."""
    return Retry(after=timedelta(0))


async def test_the_steps_of_earlier_attempts_are_fetched_once_and_only_if_there_are_any(server, client, begin):
    async def work(task):
        if task.attempt == 1:
            await task.step("a", lambda: 1)
            await task.step("b", lambda: 2)
            assert server.steps.fetches == 0
            raise again()
        if task.attempt == 2:
            assert server.steps.fetches == 0
            raise again()
        return await asyncio.gather(*(task.step(name, lambda: "new") for name in ("a", "c", "b")))

    begin(server, work)
    assert await finished(client) == [1, "new", 2]
    assert (server.steps.fetches, server.steps.recorded) == (1, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("handler", "runs_in"),
    [(stepping.awaited, "loop"), (stepping.plainly, "thread"), (stepping.plainly, "process")],
)
async def test_a_record_whose_answer_is_lost_is_sent_again(server, client, wire, begin, tmp_path, handler, runs_in):
    async def cut():
        wire.cut()

    once(server, cut)
    begin(wire, handler, runs_in)
    params = {"folder": str(tmp_path), "size": 3_000_000}
    handle = await client.submit("work", params=params, retry_policy=stepping.AGAIN)
    assert await handle.result() == [{"a": [1, None]}, 3_000_000]
    assert server.steps.recorded == ["first", "first", "second"]
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"first": "x", "second": "x"}


@pytest.mark.parametrize(
    ("handler", "runs_in"),
    [
        (stepping.talks_async, "loop"),
        (stepping.talks, "thread"),
        (stepping.talks, "process"),
        (stepping.talks_async, "process"),
    ],
)
async def test_what_a_step_says_is_kept_before_the_step_is(server, client, begin, handler, runs_in):
    kept = []

    async def look():
        (task,) = [each async for each in client.list()]
        kept.extend([chunk async for chunk in client.output(task.id, follow=False)])

    once(server, look)
    begin(server, handler, runs_in)
    assert await finished(client) is None
    assert len(kept) == stepping.CHUNKS


async def test_what_a_step_has_said_on_a_stream_that_breaks_is_kept_before_it_too(client, wire, begin):
    said = asyncio.Event()

    async def talk(task):
        await task.emit("one")
        wire.cut()
        await task.emit("two")
        said.set()

    async def work(task):
        await task.step("talk", talk, task)

    begin(wire, work)
    handle = await client.submit("work")
    await said.wait()
    assert await handle.result() is None
    assert [chunk.data async for chunk in handle.output()] == ["one", "two"]


async def test_a_record_goes_on_when_the_server_serves_again(server, client, begin):
    restarting = []

    async def restart():
        await server.stop()
        await server.start()

    async def restart_soon():
        restarting.append(asyncio.create_task(restart()))
        await asyncio.Event().wait()

    once(server, restart_soon)
    done = []
    begin(server, lambda task: task.step("it", lambda: done.append(1)).value, "thread")
    assert await finished(client) is None
    await restarting[0]
    assert (done, server.steps.recorded) == ([1], ["it", "it"])


async def test_work_that_is_done_when_its_handler_gives_up_is_recorded_all_the_same(server, client, begin):
    kept, goes_on = asyncio.Event(), asyncio.Event()

    async def wait():
        kept.set()
        await goes_on.wait()

    async def work(task):
        step = asyncio.ensure_future(_awaited(task.step("it", lambda: "first")))
        await kept.wait()
        step.cancel()
        await asyncio.wait({step})
        assert step.cancelled()
        asyncio.get_running_loop().call_soon(goes_on.set)
        return await task.step("it", lambda: "second" * 100_000)

    once(server, wait)
    begin(server, work)
    assert await finished(client) == "first"
    assert server.steps.recorded == ["it"]


async def test_a_task_that_is_paused_while_a_step_is_recorded_has_it_in_its_next_run(server, client, begin):
    kept, ended = asyncio.Event(), asyncio.Event()

    async def wait():
        kept.set()
        await ended.wait()

    async def work(task):
        try:
            return await task.step("it", lambda: task.fencing_token) == task.fencing_token
        finally:
            ended.set()

    once(server, wait)
    begin(server, work)
    handle = await client.submit("work")
    await asyncio.wait_for(kept.wait(), LIMIT_SECS)
    await client.pause(handle.id)
    assert (await handle.task()).state is TaskState.PAUSED
    await client.resume(handle.id)
    assert await handle.result() is False
    assert server.steps.recorded == ["it"]


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
async def test_a_lease_that_was_lost_meanwhile_is_raised_and_nothing_is_recorded(server, client, begin, runs_in):
    loop, raised = asyncio.get_running_loop(), []

    async def lose(task):
        await client.cancel(task.id)

    def loses(task):
        asyncio.run_coroutine_threadsafe(lose(task), loop).result(LIMIT_SECS)

    async def awaits(task):
        # It is cancelled, too, as soon as its host knows.
        step = asyncio.ensure_future(_awaited(task.step("it", loses, task)))
        await asyncio.shield(_noted(step))

    async def _noted(step):
        await asyncio.wait({step})
        raised.append(step.exception())

    def plainly(task):
        try:
            task.step("it", loses, task)
        except Exception as error:
            raised.append(error)

    begin(server, awaits if runs_in == "loop" else plainly, runs_in)
    handle = await client.submit("work")
    await until(lambda: raised)
    assert isinstance(raised[0], (LeaseLost, NotFound))
    assert await handle.steps() == ()


async def test_a_thousand_steps_and_no_more(server, client, begin):
    async def work(task):
        for first in range(0, 1000, 100):
            await asyncio.gather(*(task.step(str(each), lambda: None) for each in range(first, first + 100)))
        await task.step("one more", lambda: None)

    begin(server, work)
    handle = await client.submit("work")
    ended = await handle.wait()
    assert "a task has at most 1000 steps" in ended.error
    assert ended.steps == 1000


async def test_a_host_of_another_process_goes_on(server, client, begin, tmp_path):
    host = Host(server.address, "other", machine_figures=False)
    host.action("work")(stepping.awaited)
    running = asyncio.create_task(host.run())
    handle = await client.submit("work", params={"folder": str(tmp_path)}, hold=True)
    await client.resume(handle.id)
    assert (await handle.wait()).state is TaskState.FAILED
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    done = []

    async def work(task):
        return await task.step("first", lambda: done.append(1))

    begin(server, work)
    await client.resume(handle.id)
    assert await client.handle(handle.id).result() == {"a": [1, None]}
    assert done == []


async def _awaited(work):
    return await work


@pytest.mark.parametrize("runs_in", ["thread", "process"])
async def test_what_is_no_artifact_is_up_to_the_server(open_server, open_client, begin, tmp_path, runs_in):
    server = await open_server(objects=Objects(MEMORY), max_payload_bytes=2_000)
    begin(server, stepping.large, runs_in)
    params = {"folder": str(tmp_path), "size": 3_000}
    handle = await open_client(server).submit("work", params=params, retry_policy=stepping.AGAIN)
    assert await handle.result() == 3_000
    assert [each.size_bytes for each in (await handle.task()).artifacts] == [3_002]


async def test_what_was_kept_first_is_the_result_also_if_its_answer_never_came(server, client, begin, monkeypatch):
    monkeypatch.setattr("taskyard.hosting.artifacts.PATIENCE_SECS", 0.0)

    async def away():
        raise Away("the store does not answer")

    async def work(task):
        with pytest.raises(Unavailable):
            await task.step("it", lambda: "first" * 100_000)
        return await task.step("it", lambda: "second")

    once(server, away)
    begin(server, work)
    assert await finished(client) == "first" * 100_000
    assert (server.steps.recorded, server.steps.fetches) == (["it"], 1)
