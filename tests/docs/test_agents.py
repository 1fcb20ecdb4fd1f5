"""docs/use/agents.md: its program passes the tests that stand there, and what the page says of all programs is so."""

import asyncio
import re
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from taskyard import BadRequest, Host, TaskState
from taskyard.testing import Yard
from tests.waiting import until

PAGE = Path(__file__).parents[2] / "docs/use/agents.md"
FILES = re.compile(r"```python\n# (\w+)\.py\n(.*?)```", re.DOTALL)
MOST_LINES = 200


@pytest.fixture
def files(monkeypatch, tmp_path):
    """The files of the page as modules, by their names."""
    text = PAGE.read_text()
    found = FILES.findall(text)
    assert len(found) == text.count("```python")
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in found:
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.delitem(sys.modules, name, raising=False)
    modules = {name: __import__(name) for name, _ in found}
    yield modules
    for name in modules:
        del sys.modules[name]


async def parked(task, kind="answer"):
    """Wait until the task waits for a thing of the kind."""
    return await until(task.task, lambda found: found.park and found.park.waits[0].kind == kind)


def alone(handler, slots=1):
    """A host for one handler, whose action is `work`."""
    host = Host(host_id="host-1", slots=slots)
    host.action("work")(handler)
    return host


async def works(yard, handler, **fields):
    """A task of the handler, once nothing goes on by itself."""
    yard.host(alone(handler))
    task = await yard.client.submit("work", **fields)
    await yard.advance()
    return task


def test_the_page_is_short():
    assert PAGE.read_text().count("\n") < MOST_LINES


async def test_its_unit_tests_pass(files):
    tests = {name: test for name, test in vars(files["test_review"]).items() if name.startswith("test_")}
    assert len(tests) == 3
    for test in tests.values():
        if test.__code__.co_argcount:
            async with Yard() as yard:
                await test(yard)
        else:
            await test()


async def test_the_program_has_five_runs_and_no_attempt(yard, files):
    review = files["review"]
    runs = []

    async def counted(task):
        runs.append(task.attempt)
        return await review.review(task)

    yard.host({"review": counted, "read": review.read}, slots=4)
    task = await yard.client.submit("review", params={"urls": ["a", "missing"]})
    await parked(task)
    with pytest.raises(BadRequest):
        await task.answer("publish", {"publish": "perhaps"})
    await task.answer("publish", {"publish": True})
    await parked(task, "time")
    await yard.advance(timedelta(hours=8))
    await parked(task, "event")
    await yard.client.send_event("newsletter", {"number": 7})
    assert await task.result() == "7: words of a [page-1: ValueError: no such page]"
    assert (len(runs), (await task.task()).attempts) == (5, ())


@pytest.mark.parametrize(("waits", "expected"), [("join", 2), ("loop", 4), ("gather", 4)])
async def test_a_join_saves_runs(yard, waits, expected):
    runs, gates = [], [asyncio.Event() for _ in range(3)]

    async def work(task):
        runs.append(task)
        children = [await task.child(f"child-{n}", "child", params={"n": n}) for n in range(3)]
        if waits == "join":
            await task.join(children)
        if waits == "gather":
            return await asyncio.gather(*(child.result() for child in children))
        return [await child.result() for child in children]

    async def child(task):
        await gates[task.params["n"]].wait()
        return task.params["n"]

    yard.host({"work": work, "child": child}, slots=4)
    task = await yard.client.submit("work")
    for number, gate in enumerate(gates):
        await until(task.task, lambda found: found.state is TaskState.PARKED)
        begun = len(runs)
        gate.set()
        if waits != "join" and number < 2:
            await until(lambda: len(runs), lambda count, begun=begun: count > begun)
    assert await task.result() == [0, 1, 2]
    assert len(runs) == expected


async def test_a_default_deadline_stands_still_while_the_task_is_parked(yard):
    gates, reached = [asyncio.Event(), asyncio.Event()], [asyncio.Event(), asyncio.Event()]

    async def takes_long(number):
        reached[number].set()
        await gates[number].wait()

    async def work(task):
        await task.step("before", takes_long, 0)
        await task.ask("go-on", "Go on?")
        await task.step("after", takes_long, 1)

    yard.host(alone(work))
    task = await yard.client.submit("work")
    await reached[0].wait()
    await yard.advance(seconds=40, wait=False)
    gates[0].set()
    await parked(task)
    await yard.advance(days=3)
    await task.answer("go-on", "yes")
    await reached[1].wait()
    assert (await task.task()).state is TaskState.RUNNING
    await yard.advance(seconds=21, wait=False)
    assert (await task.task()).error == "deadline exceeded"


async def test_a_deadline_that_is_given_goes_on(yard):
    async def work(task):
        await task.ask("go-on", "Go on?")

    task = await works(yard, work, deadline=timedelta(hours=1))
    await yard.advance(timedelta(hours=1, seconds=1))
    assert ((await task.task()).state, (await task.task()).error) == (TaskState.FAILED, "deadline exceeded")


async def test_a_target_stays_taken(yard):
    async def work(task):
        await task.ask("go-on", "Go on?")

    task = await works(yard, work, target="page")
    other = await yard.client.submit("work", target="page")
    await yard.advance()
    assert (await other.task()).state is TaskState.QUEUED
    await task.answer("go-on", "yes")
    await parked(other)


async def test_tokens_are_counted_once_in_a_step_and_by_each_run_outside(yard):
    def use(task):
        task.tokens_used = 6

    async def outside(task):
        use(task)
        await task.ask("go-on", "Go on?")

    async def within(task):
        await task.step("use", use, task)
        await task.ask("go-on", "Go on?")

    yard.host({"outside": outside, "within": within})
    ended = []
    for action in ("outside", "within"):
        task = await yard.client.submit(action, token_limit=10)
        await parked(task)
        await task.answer("go-on", "yes")
        ended.append(await yard.until_ended(task))
    assert [(task.tokens_used, task.error) for task in ended] == [(12, "token limit exceeded"), (6, None)]


async def test_what_is_said_in_a_step_is_said_once(yard):
    async def work(task):
        await task.emit("again")
        await task.step("say", task.emit, "once")
        await task.ask("go-on", "Go on?")

    task = await works(yard, work)
    await task.answer("go-on", "yes")
    await task.result()
    assert [chunk.data async for chunk in task.output()] == ["again", "once", "again"]


async def test_of_a_sleep_and_an_event_the_first_begins_a_run_and_the_sleep_goes_on(yard):
    runs = []

    async def work(task):
        runs.append(task)
        await asyncio.gather(task.sleep(10), task.event("paid"))

    task = await works(yard, work)
    await yard.advance(seconds=5)
    await yard.client.send_event("paid")
    await until(lambda: len(runs), lambda count: count == 2)
    await parked(task, "time")
    await yard.advance(seconds=6)
    await task.result()


async def test_a_cancel_ends_the_tree(yard):
    began = asyncio.Event()

    async def top(task):
        await task.child("middle", "middle")
        await task.child("kept", "wait", on_parent_end="keep")
        await task.sleep(50)

    async def middle(task):
        await task.child("leaf", "leaf")
        await task.sleep(50)

    async def wait(task):
        await task.sleep(50)

    async def leaf(_task):
        began.set()
        await asyncio.Event().wait()

    yard.host({"top": top, "middle": middle, "wait": wait, "leaf": leaf}, slots=4)
    task = await yard.client.submit("top")
    await began.wait()
    await parked(task, "time")
    await task.cancel()
    states = {each.action: each.state async for each in yard.client.list() if each.action != "wait"}
    assert states == dict.fromkeys(["top", "middle", "leaf"], TaskState.CANCELLED)
    kept = [each async for each in yard.client.list(parent_id=task.id) if each.child_name == "kept"]
    assert [each.state for each in kept] != [TaskState.CANCELLED]
