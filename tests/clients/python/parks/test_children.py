"""Children of handlers: submitted once over all runs, waited for without a slot, their results handed on."""

import asyncio
from datetime import timedelta

import pytest

from taskyard import BadRequest, ChildFailed, RetryPolicy, StepKind, TaskState
from taskyard.testing import running_task
from tests import waiting
from tests.clients.python.parks import family
from tests.clients.python.parks.test_parks import EVERYWHERE as _EVERYWHERE

TWICE = RetryPolicy(max_attempts=2, first_delay=timedelta(0))
WAYS = [(family.awaited if runs_in == "loop" else family.plainly, runs_in) for _, runs_in in _EVERYWHERE]


@pytest.mark.parametrize(("handler", "runs_in"), [*WAYS[:3], (family.awaited, "process")])
async def test_a_parent_has_the_results_of_its_children_on_one_slot(yard, handler, runs_in):
    yard.host(family.host_of(handler, runs_in))
    task = await yard.client.submit("work")
    assert await task.result() == ["a/0", "a/1", "b/0", "b/1"]
    children = [each async for each in yard.client.list() if each.child_name]
    assert [(each.child_name, each.parent_id, each.agent_id) for each in children] == [
        (f"page-{name}", task.id, (await task.task()).agent_id) for name in "ab"
    ]
    assert all(each.on_parent_end == "cancel" for each in children)
    assert {step.kind for step in await task.steps()} == {StepKind.ENDS}
    assert (await task.task()).attempts == ()


@pytest.mark.parametrize("runs_in", ["loop", "thread"])
async def test_four_parents_on_four_slots_have_the_results_of_sixteen_children(yard, runs_in):
    yard.host(family.host_of(family.awaited if runs_in == "loop" else family.plainly, runs_in, slots=4))
    parents = [await yard.client.submit("work", params={"names": "abcd"}) for _ in range(4)]
    found = [f"{name}/{number}" for name in "abcd" for number in range(2)]
    assert [await parent.result() for parent in parents] == [found] * 4
    children = [each async for each in yard.client.list() if each.child_name]
    assert [(len(children), each.state) for each in children] == [(16, TaskState.DONE)] * 16


async def test_a_later_attempt_finds_its_children_again(yard):
    ids = []

    async def work(task):
        child = await task.child("one", "part", params={"n": 7})
        ids.append(child.id)
        if len(ids) == 1:
            raise RuntimeError("broken")
        return [repr(child) == f"Child('one', {child.id!r})", await child.result(), await child.result()]

    yard.host({"work": work, "part": lambda task: task.params["n"]}, slots=2)
    task = await yard.client.submit("work", retry=TWICE)
    await yard.advance(seconds=1)
    assert await task.result() == [True, 7, 7]
    assert len(set(ids)) == 1


async def test_a_child_that_failed_is_an_error_with_its_name(yard):
    async def work(task):
        child = await task.child("one", "part")
        with pytest.raises(ChildFailed, match=r"the child 'one' .* is failed: RuntimeError: broken") as failed:
            await child.result()
        return [failed.value.name, failed.value.id == child.id, failed.value.state]

    def part(_):
        raise RuntimeError("broken")

    yard.host({"work": work, "part": part})
    assert await (await yard.client.submit("work")).result() == ["one", True, "failed"]


async def test_a_result_that_takes_too_long_is_a_timeout(yard):
    async def work(task):
        child = await task.child("one", "part", hold=True)
        with pytest.raises(TimeoutError, match="have not ended in time"):
            await child.result(timeout=timedelta(seconds=30))
        return "went on"

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await yard.advance(seconds=30)
    assert await task.result() == "went on"


async def test_a_child_is_awaited_by_many_at_once_and_again_after_a_timeout(yard):
    timeouts = []

    async def work(task):
        child = await task.child("one", "part", hold=True)
        try:
            return await asyncio.gather(child.result(timeout=30), child.result(timeout=60))
        except TimeoutError as error:
            timeouts.append(error)
            return await asyncio.gather(child.result(), child.result(timeout=300))

    yard.host({"work": work, "part": lambda _: 7})
    task = await yard.client.submit("work")
    await yard.advance(seconds=30)
    await waiting.until(lambda: timeouts)
    (child,) = [each async for each in yard.client.list() if each.child_name]
    await yard.client.resume(child.id)
    assert await task.result() == [7, 7]


async def test_a_join_that_took_too_long_is_not_joined_again_under_its_name(yard):
    async def work(task):
        child = await task.child("one", "part", hold=True)
        with pytest.raises(TimeoutError):
            await task.join([child], timeout=30)
        with pytest.raises(ValueError, match="names must differ"):
            await task.join([child], timeout=30)
        return "went on"

    yard.host({"work": work})
    task = await yard.client.submit("work")
    await yard.advance(seconds=30)
    assert await task.result() == "went on"


async def test_children_end_with_their_parent_unless_told_otherwise(yard):
    async def work(task):
        await task.child("one", "part", hold=True)
        await task.child("two", "part", hold=True, on_parent_end="keep")

    yard.host({"work": work})
    assert await (await yard.client.submit("work")).result() is None
    await yard.advance()
    states = {each.child_name: each.state async for each in yard.client.list() if each.child_name}
    assert states == {"one": TaskState.CANCELLED, "two": TaskState.PENDING}


async def test_the_results_of_children_are_handed_on_to_another_child(yard):
    async def work(task):
        parts = [await task.child(name, "part", params={"n": n}) for n, name in enumerate("ab")]
        summed = await task.child("sum", "sum", inputs={part.name: part for part in parts}, after=parts)
        return await summed.result()

    yard.host({"work": work, "part": lambda task: task.params["n"] + 1, "sum": add}, slots=1)
    assert await (await yard.client.submit("work")).result() == 3


def add(_task, *, a: int, b: int) -> int:
    return a + b


async def test_what_is_no_child_is_an_error_of_the_handler(yard):
    async def work(task):
        with pytest.raises(BadRequest, match="name: must have 1 to 128"):
            await task.child("a/b", "part")
        with pytest.raises(BadRequest, match="the name of a child is its key"):
            await task.child("one", "part", unique_key="k")
        with pytest.raises(TypeError, match="takes params="):
            task.child("one", "part", {"n": 1})
        with pytest.raises(TypeError, match="urgent"):
            task.child("one", "part", urgent=True)
        return "went on"

    yard.host({"work": work})
    assert await (await yard.client.submit("work")).result() == "went on"


@pytest.mark.parametrize("handler", [family.awaited, family.plainly])
async def test_a_unit_test_gives_the_results_of_children(handler):
    task = running_task()
    assert (await task.run(handler)).is_parked
    assert {name: (new.action, new.params) for name, new in task.children.items()} == {
        f"page-{name}": ("crawl", {"url": name}) for name in "ab"
    }
    results = {"page-a": {"urls": ["x"]}, "page-b": {"urls": ["y"]}}
    outcome = await running_task(children=results, came=["join"]).run(handler)
    assert outcome.result == ["x", "y"]


async def test_a_unit_test_lets_a_child_fail():
    async def work(task):
        return await (await task.child("one", "part")).result()

    outcome = await running_task(children={"one": RuntimeError("broken")}).run(work)
    assert "the child 'one' (tsk_one) is failed: broken" in outcome.error
