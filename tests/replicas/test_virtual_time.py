"""The time that tests make: it jumps, the same seed makes the same history, and processes stand still and die."""

import asyncio
import time as machine

import pytest

from tests.replicas.virtual_time import Process, Stuck, VirtualTime


def test_hours_pass_at_once():
    time = VirtualTime()
    began_at = machine.monotonic()
    time.run(time.process("a"), asyncio.sleep(36_000.0))
    assert time.now == 36_000.0
    assert machine.monotonic() - began_at < 1


def test_timers_of_all_processes_come_in_their_order():
    time = VirtualTime()
    told: list[str] = []

    async def tell(secs: float, word: str) -> None:
        await asyncio.sleep(secs)
        told.append(f"{word} {asyncio.get_running_loop().time()}")

    for name, secs in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        time.process(name).create_task(tell(secs, name))
    time.run_for(2.5)
    assert told == ["b 1.0", "c 2.0"]
    assert time.now == 2.5


def story(seed: int) -> list[str]:
    """What several processes do that all have something to do at the same time."""
    time = VirtualTime(seed)
    told: list[str] = []

    async def talk() -> None:
        for number in range(5):
            told.append(f"{asyncio.get_running_loop()} {number}")
            await asyncio.sleep(number % 2)

    for name in "abc":
        time.process(name).create_task(talk())
    time.run_for(10.0)
    return told


def test_a_seed_says_who_goes_first():
    assert story(3) == story(3)
    assert len({tuple(story(seed)) for seed in range(10)}) > 5


def test_what_comes_for_a_process_that_stands_still_is_waiting_when_it_goes_on():
    time = VirtualTime()
    process = time.process("a")
    at: list[float] = []
    process.call_later(1.0, lambda: at.append(process.time()))
    time.run_for(0.5)
    process.stands_still = True
    process.call_soon_threadsafe(lambda: at.append(process.time()))
    time.run_for(60.0)
    assert at == []
    process.stands_still = False
    time.run_for(0.0)
    assert at == [60.5, 60.5]


def test_who_is_killed_does_nothing_any_more():
    time = VirtualTime()
    process = time.process("a")
    told: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1.0)
        finally:
            told.append("the end")

    process.create_task(work())
    time.run_for(0.5)
    time.kill(process)
    process.call_soon_threadsafe(told.append, "a call")
    time.run_for(5.0)
    assert told == []


def test_processes_call_each_other():
    time = VirtualTime()
    server, client = time.process("server"), time.process("client")

    def call(process: Process) -> asyncio.Future[float]:
        answer = process.create_future()
        server.call_later(0.5, lambda: process.call_soon_threadsafe(answer.set_result, server.time()))
        return answer

    async def ask() -> float:
        return await asyncio.wait_for(call(client), 1.0)

    assert time.run(client, ask()) == 0.5


def test_an_exception_that_nobody_handles_ends_the_test():
    time = VirtualTime()
    process = time.process("a")
    process.call_later(1.0, lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        time.run_for(2.0)


def test_what_never_comes_and_what_never_ends_is_told():
    time = VirtualTime()
    process = time.process("a")

    async def spin() -> None:
        while True:  # noqa: ASYNC110 - that is what is tested
            await asyncio.sleep(0)

    with pytest.raises(Stuck):
        time.run(process, asyncio.Event().wait())
    with pytest.raises(Stuck):
        time.run(process, spin())


def test_cancelled_timers_are_forgotten():
    time = VirtualTime()
    process = time.process("a")

    async def work() -> None:
        for _ in range(1000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0.01)

    time.run(process, work())
    assert len(process._scheduled) < 300
    assert time.now < 11
