"""Heartbeats of a host: what they carry, when they are sent, and what their answers do."""

import asyncio
import threading

import pytest

from taskyard.hosting.heart import Heart
from taskyard.hosting.watch import Watch
from taskyard.v1.runtime_host_pb2 import HeartbeatAck, HeartbeatInterval, HeldLease, RuntimeHost
from tests.clients.python.host.gate import Gate
from tests.waiting import LIMIT_SECS

LONG_MS = 60_000
"""An interval that no test lives to see the end of."""


def held(message):
    return [(lease.task_id, lease.fencing_token) for lease in message.leases]


async def first_heartbeat_with_leases(stream):
    while not (heartbeat := await stream.heartbeat()).leases:
        pass
    return heartbeat


# What they carry


async def test_heartbeats_carry_leases_figures_and_a_sequence(server, make_host, work):
    host, gate = make_host(machine_figures=True), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t", token=4)
    await gate.entered.wait()
    heartbeat = await first_heartbeat_with_leases(stream)
    assert held(heartbeat) == [("t", 4)]
    assert heartbeat.machine.active_workers == 1
    assert not heartbeat.HasField("status")
    assert (await stream.heartbeat()).sequence == heartbeat.sequence + 1


async def test_a_lease_whose_outcome_was_not_answered_is_still_renewed(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.answers_reports = False
    stream.assign("t")
    await stream.reports(2)
    await stream.heartbeat()
    assert held(await stream.heartbeat()) == [("t", 1)]


async def test_a_draining_host_reports_itself_as_busy(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t")
    await gate.entered.wait()
    host.drain()
    while (heartbeat := await stream.heartbeat()).status != RuntimeHost.STATUS_BUSY:
        pass
    assert held(heartbeat) == [("t", 1)]


async def test_heartbeats_carry_the_tokens_that_a_handler_has_stated_without_a_report(server, make_host, work):
    host, go_on, stated = make_host(), asyncio.Event(), asyncio.Event()

    @host.action("click")
    async def click(task):
        if task.id == "silent":
            await asyncio.Event().wait()
        for task.tokens_used in (7, 12):
            stated.set()
            await go_on.wait()
        await asyncio.Event().wait()

    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t", "silent")
    await stated.wait()
    await stream.heartbeat()
    heartbeat = await stream.heartbeat()
    assert [(lease.task_id, lease.tokens_used) for lease in heartbeat.leases] == [("t", 7), ("silent", 0)]
    assert [lease.HasField("tokens_used") for lease in heartbeat.leases] == [True, False]
    go_on.set()
    while (await stream.heartbeat()).leases[0].tokens_used != 12:
        pass
    assert await stream.reports(2) == ["t started", "silent started"]
    assert stream.reported() == []


async def test_heartbeats_carry_the_tokens_that_a_plain_function_has_stated(server, make_host, work):
    host, go_on = make_host(), threading.Event()

    @host.action("click")
    def click(task):
        task.tokens_used = 5
        assert go_on.wait(10)

    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t")
    while not (heartbeat := await first_heartbeat_with_leases(stream)).leases[0].HasField("tokens_used"):
        pass
    assert heartbeat.leases[0].tokens_used == 5
    go_on.set()


@pytest.mark.parametrize("tokens", [-1, 2**32, "12", 1.5])
async def test_tokens_that_are_no_count_fail_their_task_and_break_no_heartbeat(server, make_host, work, tokens):
    host = make_host()

    @host.action("click")
    async def click(task):
        task.tokens_used = tokens

    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t")
    assert (await stream.report()).HasField("started")
    assert "tokens_used: must be " in (await stream.report()).failed.error
    await stream.heartbeat()


# When they are sent


async def test_a_changed_interval_counts_at_once_and_so_does_the_next_heartbeat(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=LONG_MS)
    stream.send(heartbeat_interval=HeartbeatInterval(heartbeat_interval_ms=20))
    assert [(await stream.heartbeat()).sequence for _ in range(3)] == [1, 2, 3]
    stream.send(heartbeat_interval=HeartbeatInterval(heartbeat_interval_ms=LONG_MS))
    # Until the host has read the change, heartbeats go on.
    before = await stream.heartbeats_within(0.3)
    assert await stream.heartbeats_within(0.3) == before


async def test_a_new_stream_has_the_interval_of_its_welcome(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=LONG_MS)
    stream.send(heartbeat_interval=HeartbeatInterval(heartbeat_interval_ms=20))
    await stream.heartbeat()
    stream.close()
    again = await server.welcomed(heartbeat_interval_ms=LONG_MS)
    await again.until_credit(10)
    assert await again.heartbeats_within(0.3) == 0


async def test_an_interval_of_zero_names_none(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=0)
    await stream.until_credit(10)
    assert await stream.heartbeats_within(0.3) == 0
    stream.send(heartbeat_interval=HeartbeatInterval(heartbeat_interval_ms=0))
    # As after any change, one heartbeat is due at once.
    await stream.heartbeat()
    assert await stream.heartbeats_within(0.3) == 0


async def test_no_interval_is_shorter_than_ten_milliseconds(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    began = asyncio.get_running_loop().time()
    stream = await server.welcomed(heartbeat_interval_ms=1)
    for _ in range(20):
        await stream.heartbeat()
    # The first may come at once.
    assert asyncio.get_running_loop().time() - began >= 19 * 0.01


async def test_a_heartbeat_that_came_with_reports_is_answered_by_its_number(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=200, lease_secs=1, counts_accepted=True)
    # For longer than an unanswered stream lives.
    async with asyncio.timeout(LIMIT_SECS):
        number = 0
        while stream.riding < 8:
            stream.assign(f"t-{number}")
            await stream.reports(2)
            number += 1
    assert not stream.ended.is_set()


async def test_a_heartbeat_may_ride_in_the_last_quarter_of_its_interval():
    heart = Heart(Watch(dict), lambda: None)
    heart.begin(20_000, 100.0)
    assert [heart.may_ride(now) for now in (100.0, 114.9, 115.0)] == [False, False, True]
    heart.sent(115.0)
    assert [heart.may_ride(now) for now in (120.0, 130.0)] == [False, True]


# What their answers do


async def test_a_lease_that_an_answer_names_as_lost_is_stopped(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.answers_heartbeats = False
    stream.assign("t")
    await gate.entered.wait()
    heartbeat = await first_heartbeat_with_leases(stream)
    stream.send(heartbeat_ack=HeartbeatAck(sequence=heartbeat.sequence, lost=[HeldLease(task_id="t", fencing_token=1)]))
    await asyncio.wait_for(gate.cancelled.wait(), LIMIT_SECS)


async def test_a_lease_that_is_not_renewed_expires_by_the_clock_of_the_host(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=300, lease_secs=1)
    stream.answers_heartbeats = False
    began = asyncio.get_running_loop().time()
    stream.assign("t")
    await asyncio.wait_for(gate.cancelled.wait(), LIMIT_SECS)
    assert asyncio.get_running_loop().time() - began > 0.8
    assert not stream.ended.is_set()


async def test_a_stream_whose_heartbeats_are_not_answered_for_a_lease_is_replaced(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=200, lease_secs=1)
    stream.answers_heartbeats = False
    again = await server.stream()
    assert again.hello.instance == stream.hello.instance
