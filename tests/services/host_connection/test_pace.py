"""A host that sends very many messages is read more slowly. It loses neither a message nor a lease by that."""

import asyncio

import pytest

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.access.limits import Rate
from taskyard_server.services import host_reading
from tests.services.host_streams import held_lease, run_loop


class ByTheClock:
    """asyncio for what reads messages, with the time of a clock."""

    def __init__(self, clock):
        self._clock, self._began_at = clock, clock()

    def __getattr__(self, name):
        return getattr(asyncio, name)

    def get_running_loop(self):
        return self

    def time(self):
        # Tests move the clock by much more than this; seconds since the epoch are not as fine as a rate.
        return round(self._clock() - self._began_at, 3)

    async def sleep(self, secs):
        now = self.time()
        while self.time() == now or self.time() < now + secs - 0.001:  # noqa: ASYNC110
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def pace(monkeypatch, clock):
    """Ten messages at once, and ten a second by the clock of the server."""
    monkeypatch.setattr(host_reading, "asyncio", ByTheClock(clock))
    monkeypatch.setattr(host_reading, "PACE", Rate(per_sec=10, burst=10))
    monkeypatch.setattr(host_reading, "PACED_MESSAGES", 2)


async def beat(stream, *leases, times):
    """Send heartbeats without waiting for their acknowledgements."""
    for sequence in range(1, times + 1):
        message = pb.Heartbeat(sequence=sequence, leases=map(held_lease, leases))
        await stream.call.write(pb.ConnectRequest(heartbeat=message))


async def acknowledged(stream, until):
    """Read up to the acknowledgement of the heartbeat with this number."""
    while (ack := await stream.receive("heartbeat_ack")).sequence < until:
        assert not ack.lost
    assert ack.sequence == until


async def acknowledged_in_time(server, stream, until):
    """The same while time passes."""
    reading = asyncio.create_task(acknowledged(stream, until))
    while not reading.done():
        await run_loop(200)
        await server.advance(0.25)
    await reading


async def test_messages_above_the_pace_wait_and_are_all_answered(server):
    stream = await server.connect()
    await beat(stream, times=30)
    # The pace is looked at after two messages, and the first ten pass.
    await acknowledged(stream, until=12)
    following = asyncio.create_task(stream.receive("heartbeat_ack"))
    await run_loop(100)
    assert not following.done()
    await server.advance(1.0)
    assert (await following).sequence == 13
    await acknowledged_in_time(server, stream, until=30)


async def test_a_host_that_sends_too_much_keeps_its_leases(server):
    stream = await server.connect(credit=1)
    await server.submit()
    (assignment,) = (await stream.receive("assignments")).assignments
    await stream.report_one(assignment, started=True)
    await beat(stream, assignment, times=200)
    await acknowledged_in_time(server, stream, until=200)
    assert len(await server.live_leases()) == 1


async def test_another_host_is_read_meanwhile(server):
    fast, slow = await server.connect("fast"), await server.connect("slow")
    await beat(fast, times=100)
    await slow.heartbeat()


async def test_a_host_that_is_read_slowly_may_leave(server):
    stream = await server.connect()
    await beat(stream, times=100)
    stream.call.cancel()
    while server.leftovers():
        await run_loop()
