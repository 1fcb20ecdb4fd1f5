"""The timer of an engine: after a stall, the process reads what has arrived before anything comes due."""

import asyncio
import time

from taskyard_server.engine.memory.alarm import CATCH_UP_SECS, MAX_CATCH_UPS, STALL_SECS, Alarm


class Rings:
    """An alarm on the clock of the machine, and the times at which it rang."""

    def __init__(self):
        self.times = []
        self.alarm = Alarm(time.monotonic, lambda: self.times.append(time.monotonic()), lambda: 0)

    async def stall(self, secs):
        """Stall the process, and then run what is pending."""
        time.sleep(secs)  # noqa: ASYNC251
        for _ in range(3):
            await asyncio.sleep(0)

    async def first(self):
        while not self.times:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return self.times[0]


async def test_the_alarm_rings_later_after_a_stall():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 0.01)
    await rings.stall(2 * STALL_SECS)
    stalled_until = time.monotonic()
    assert rings.times == []
    assert await rings.first() >= stalled_until + 0.9 * CATCH_UP_SECS


async def test_a_second_stall_during_the_delay_starts_another_delay():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 0.01)
    await rings.stall(2 * STALL_SECS)
    await rings.stall(CATCH_UP_SECS + 2 * STALL_SECS)
    stalled_until = time.monotonic()
    assert rings.times == []
    assert await rings.first() >= stalled_until + 0.9 * CATCH_UP_SECS


async def test_the_alarm_rings_also_in_a_process_that_is_always_late(monkeypatch):
    monkeypatch.setattr("taskyard_server.engine.memory.alarm.CATCH_UP_SECS", 0.0)
    rings = Rings()
    rings.alarm.set(time.monotonic())
    for _ in range(MAX_CATCH_UPS + 2):
        if rings.times:
            break
        await rings.stall(1.2 * STALL_SECS)
    assert len(rings.times) == 1


async def test_setting_a_time_during_the_delay_does_not_end_it():
    rings = Rings()
    rings.alarm.set(time.monotonic() + 0.01)
    await rings.stall(2 * STALL_SECS)
    stalled_until = time.monotonic()
    rings.alarm.set(time.monotonic())
    assert await rings.first() >= stalled_until + 0.9 * CATCH_UP_SECS
