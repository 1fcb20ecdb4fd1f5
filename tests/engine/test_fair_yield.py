"""Large work is done in slices, and lets small work go first (docs/develop/design.md, A turn of the event loop)."""

import asyncio

import pytest

from taskyard_server.engine.fair_yield import ARRIVAL_PASSES, MAX_WAIT_SECS, PASSES, SLICE, WHOLE, FairYield
from taskyard_server.engine.pace import Busyness


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fair_yield(clock: Clock) -> FairYield:
    return FairYield(clock, Busyness(clock, worked=clock))


async def passes(count: int) -> None:
    """Let the event loop go round so many times."""
    for _ in range(count):
        await asyncio.sleep(0)


class Worker:
    """Somebody with large work, who notes each slice in `done`."""

    def __init__(self, fair_yield: FairYield, name: str, done: list[str], slices: int = 1, work: float = SLICE) -> None:
        self._fair_yield, self._name, self._done, self._work = fair_yield, name, done, work
        self.task = asyncio.create_task(self._run(slices))

    async def _run(self, slices: int) -> None:
        for _ in range(slices):
            await self._fair_yield.take(self._work)
            self._done.append(self._name)


async def test_large_work_alone_waits_for_nothing(fair_yield: FairYield) -> None:
    taking = fair_yield.take(WHOLE)
    with pytest.raises(StopIteration):
        taking.send(None)


async def test_a_pass_has_no_more_than_one_share_of_large_work(fair_yield: FairYield) -> None:
    done: list[str] = []
    for name in "abc":
        Worker(fair_yield, name, done, work=WHOLE)
    counts = []
    for _ in range(4):
        before = len(done)
        await passes(1)
        counts.append(len(done) - before)
    assert max(counts) == 1
    await passes(4)
    assert done == ["a", "b", "c"]


async def test_what_is_little_shares_a_pass(fair_yield: FairYield) -> None:
    done: list[str] = []
    for name in "abcd":
        Worker(fair_yield, name, done, work=WHOLE / 4)
    await passes(1)
    assert done == ["a", "b", "c", "d"]


async def test_those_with_several_slices_take_turns(fair_yield: FairYield) -> None:
    done: list[str] = []
    fair_yield.small_came()
    for name in "abc":
        Worker(fair_yield, name, done, slices=3)
    await passes(9 * (ARRIVAL_PASSES + 3))
    assert done == list("abcabcabc")


async def test_slices_are_smaller_while_small_work_comes(fair_yield: FairYield, clock: Clock) -> None:
    assert fair_yield.slice_size == WHOLE
    fair_yield.small_came()
    assert fair_yield.slice_size == SLICE
    clock.now += 10
    assert fair_yield.slice_size == WHOLE


async def test_large_work_waits_until_a_call_that_comes_is_through(fair_yield: FairYield) -> None:
    done: list[str] = []
    fair_yield.call_comes()
    Worker(fair_yield, "large", done)
    await passes(50)
    assert done == []
    fair_yield.call_came()
    await passes(PASSES)
    assert done == []
    await passes(3)
    assert done == ["large"]


async def test_a_call_that_ends_before_it_is_served_holds_nothing_up(fair_yield: FairYield, clock: Clock) -> None:
    done: list[str] = []
    fair_yield.call_comes()
    Worker(fair_yield, "first", done)
    Worker(fair_yield, "second", done)
    await passes(5)
    clock.now += 2 * MAX_WAIT_SECS
    await passes(3)
    assert done == ["first"]
    await passes(ARRIVAL_PASSES + 3)
    assert done == ["first", "second"]


async def test_large_work_goes_on_beside_calls_without_end(fair_yield: FairYield, clock: Clock) -> None:
    done: list[str] = []
    Worker(fair_yield, "large", done, slices=3)
    for _ in range(30):
        fair_yield.call_comes()
        clock.now += MAX_WAIT_SECS / 2
        await passes(1)
    assert done == ["large"] * 3


async def test_who_has_left_uses_up_no_turn(fair_yield: FairYield) -> None:
    done: list[str] = []
    fair_yield.call_comes()
    workers = [Worker(fair_yield, name, done) for name in "abc"]
    await passes(1)
    workers[0].task.cancel()
    fair_yield.call_came()
    await passes(PASSES + 2)
    assert done == ["b"]
