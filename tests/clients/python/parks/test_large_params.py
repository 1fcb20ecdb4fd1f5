"""Children whose params are too large for a message: they have the value, wherever a run of their parent is cut off."""

import asyncio
from functools import partial
from hashlib import sha256

import pytest

from taskyard import TaskState, TooLarge
from taskyard.hosting import artifacts, children
from taskyard.hosting.artifacts import HostArtifacts
from taskyard.testing import Yard
from tests.clients.python.parks import family
from tests.clients.python.parks.test_children import TWICE

TEXT = "ä" * 1_000_000
"""2 MB, which come in two parts."""
CALLS = 4
"""Held, the two parts, let go; the last is for a child that is not to be held on."""
CUTS = [*[(calls, False) for calls in range(1, CALLS + 1)], *[(calls, True) for calls in range(1, CALLS)]]


def hash_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def part(task) -> list:
    return [task.params["run"], hash_of(task.params["text"])]


async def children_of(yard):
    return [each async for each in yard.client.list() if each.child_name]


@pytest.fixture
def cut_off(monkeypatch):
    """Have the runs of parents break down after so many calls about children, whose answers they never see."""
    left = [0]
    repeated = HostArtifacts.repeated

    def broken(self, call, *done):
        answer = repeated(self, call, *done)
        if isinstance(call, partial) and call.func in (children._submit, artifacts._upload):
            left[0] -= 1
            if left[0] == 0:
                raise ConnectionError("cut off")
        return answer

    monkeypatch.setattr(HostArtifacts, "repeated", broken)
    return partial(left.__setitem__, 0)


@pytest.mark.parametrize(
    ("handler", "runs_in"),
    [(family.large_awaited, "loop"), (family.large_plainly, "thread"), (family.large_awaited, "process")],
)
async def test_a_child_has_the_value_that_its_parent_gave_it(yard, handler, runs_in):
    yard.host(family.host_of(handler, runs_in))
    task = await yard.client.submit("work", params={"size": 2_000_000})
    assert await task.result() == [2_000_002, 2_000_002]
    (child,) = await children_of(yard)
    assert [each.name for each in child.artifacts] == ["params.json", "result.json"]
    assert (child.artifacts[0].attempt, child.hold) == (None, False)


@pytest.mark.parametrize(("calls", "is_held"), CUTS)
async def test_wherever_a_run_is_cut_off_the_next_one_makes_up_for_it(yard, cut_off, calls, is_held):
    async def work(task):
        child = await task.child("one", "part", params={"run": task.attempt, "text": TEXT}, hold=is_held)
        return await child.result()

    yard.host({"work": work, "part": part})
    cut_off(calls)
    task = await yard.client.submit("work", retry=TWICE)
    await yard.advance(seconds=1)
    (child,) = await children_of(yard)
    if is_held:
        assert (child.state, child.hold, len(child.artifacts)) == (TaskState.PENDING, True, 1)
        await yard.client.resume(child.id)
    assert await task.result() == [1 if calls == CALLS else 2, hash_of(TEXT)]
    assert len(await children_of(yard)) == 1


async def test_a_run_that_comes_after_one_that_was_cut_off_may_have_smaller_params(yard, cut_off):
    async def work(task):
        text = TEXT if task.attempt == 1 else "small"
        return await (await task.child("one", "part", params={"run": task.attempt, "text": text})).result()

    yard.host({"work": work, "part": part})
    cut_off(1)
    task = await yard.client.submit("work", retry=TWICE)
    await yard.advance(seconds=1)
    assert await task.result() == [2, hash_of("small")]


async def test_a_child_that_waits_for_others_is_found_and_gets_nothing_anew(yard):
    async def work(task):
        first = await task.child("first", "first", hold=True)
        fields = {"params": {"run": task.attempt, "text": TEXT}, "after": [first]}
        child = await task.child("one", "part", **fields)
        assert (await task.child("one", "part", **fields)).id == child.id
        return await child.result()

    yard.host({"work": work, "part": part, "first": lambda _: None})
    task = await yard.client.submit("work")
    await yard.advance()
    first = next(each for each in await children_of(yard) if each.child_name == "first")
    await yard.client.resume(first.id)
    assert await task.result() == [1, hash_of(TEXT)]


async def test_a_child_that_is_submitted_twice_at_once_is_one(yard):
    async def work(task):
        params = {"run": task.attempt, "text": TEXT}
        first, second = await asyncio.gather(*[task.child("one", "part", params=params) for _ in range(2)])
        assert first.id == second.id
        return await first.result()

    yard.host({"work": work, "part": part}, slots=2)
    assert await (await yard.client.submit("work")).result() == [1, hash_of(TEXT)]


@pytest.mark.parametrize("is_known", [True, False], ids=["told", "not told"])
async def test_the_limit_is_that_of_the_server(monkeypatch, is_known):
    if not is_known:
        # As of another replica, to which the host was connected.
        limit = property(lambda _: 262_144, lambda *_: None)
        monkeypatch.setattr(HostArtifacts, "max_payload_bytes", limit, raising=False)

    async def work(task):
        texts = ["x" * size for size in (9_000, 11_000)]
        its = [await task.child(f"{len(text)}", "part", params={"run": 0, "text": text}) for text in texts]
        return [await each.result() for each in its]

    async with Yard(settings={"scheduler": {"maxPayloadBytes": 10_000}}) as yard:
        yard.host({"work": work, "part": part})
        task = await yard.client.submit("work")
        assert await task.result() == [[0, hash_of("x" * 9_000)], [0, hash_of("x" * 11_000)]]
        assert {each.child_name: len(each.artifacts) for each in await children_of(yard)} == {"9000": 0, "11000": 1}


async def test_params_that_are_too_large_for_an_artifact_are_an_error_and_smaller_ones_take_their_place():
    refusals = []

    async def work(task):
        try:
            await task.child("one", "part", params={"run": 1, "text": TEXT})
        except TooLarge as error:
            refusals.append(error.reason)
        return await (await task.child("one", "part", params={"run": 2, "text": "small"})).result()

    async with Yard(settings={"scheduler": {"maxArtifactBytes": 1_000_000}}) as yard:
        yard.host({"work": work, "part": part})
        assert await (await yard.client.submit("work")).result() == [2, hash_of("small")]
        assert refusals == ["content: the artifacts of a task may have 1000000 bytes in all"]
