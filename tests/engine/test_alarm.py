"""The timer of an engine: what arrived during a stall of the process is read before anything comes due."""

import asyncio
import time

from taskyard_server.engine.alarm import CATCH_UP_SECS, MAX_CATCH_UPS, STALL_SECS, Alarm


class Rings:
    """An alarm on the machine's clock, and the times at which it rang."""

    def __init__(self):
        self.times = []
        self.rung = asyncio.Event()
        self.alarm = Alarm(time.monotonic, self.ring, lambda: 0)

    def ring(self):
        self.times.append(time.monotonic())
        self.rung.set()

    async def stall(self, secs):
        """Let the process stand still, and then read what is there."""
        time.sleep(secs)  # noqa: ASYNC251
        for _ in range(3):
            await asyncio.sleep(0)

    async def first(self):
        await self.rung.wait()
        return self.times[0]


async def test_after_a_stall_it_rings_a_little_later():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 0.01)
    await rings.stall(2 * STALL_SECS)
    stalled_until = time.monotonic()
    assert rings.times == []
    assert await rings.first() >= stalled_until + 0.9 * CATCH_UP_SECS


async def test_a_stall_that_ends_just_after_the_time_is_noticed():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 1.5 * STALL_SECS)
    await rings.stall(2 * STALL_SECS)
    stalled_until = time.monotonic()
    assert await rings.first() >= stalled_until + 0.9 * CATCH_UP_SECS


async def test_between_a_stall_and_a_ring_there_is_time_to_read():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 2.5 * STALL_SECS)
    await rings.stall(2.4 * STALL_SECS)
    stalled_until = time.monotonic()
    assert await rings.first() >= stalled_until + 0.9 * STALL_SECS


async def test_a_second_stall_during_the_delay_begins_another_one():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 0.01)
    await rings.stall(2 * STALL_SECS)
    await rings.stall(CATCH_UP_SECS + 2 * STALL_SECS)
    stalled_until = time.monotonic()
    assert rings.times == []
    assert await rings.first() >= stalled_until + 0.9 * CATCH_UP_SECS


async def test_a_process_that_is_always_late_rings_all_the_same(monkeypatch):
    monkeypatch.setattr("taskyard_server.engine.alarm.CATCH_UP_SECS", 0.0)
    rings = Rings()
    rings.alarm.set(time.monotonic())
    for _ in range(MAX_CATCH_UPS + 2):
        if rings.times:
            break
        await rings.stall(1.2 * STALL_SECS)
    assert len(rings.times) == 1


async def test_a_time_that_is_set_during_the_delay_does_not_end_it():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 0.01)
    await rings.stall(2 * STALL_SECS)
    stalled_until = time.monotonic()
    rings.alarm.set(time.monotonic())
    assert await rings.first() >= stalled_until + 0.9 * CATCH_UP_SECS
