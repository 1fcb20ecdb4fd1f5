"""How a host drains and leaves: on request of its server, of its own process, or by a signal."""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from datetime import timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.hosting.signals import SAME_SIGNAL_SECS
from taskyard.v1.runtime_host_pb2 import RuntimeHost
from tests.clients.python.host.gate import Gate
from tests.waiting import LIMIT_SECS, until


@pytest.fixture(autouse=True)
def _capture_info(caplog):
    caplog.set_level(logging.INFO, logger="taskyard")


async def ended(running):
    await asyncio.wait_for(running, LIMIT_SECS)


async def test_a_host_that_the_server_drains_finishes_what_runs_and_then_leaves_in_order(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    running = work(host)
    stream = await server.welcomed()
    await stream.until_credit(10)
    stream.assign("t")
    await gate.entered.wait()
    stream.drain()
    stream.assign("late")
    assert await stream.reports(2) == ["t started", "late released"]
    assert not stream.half_closed.is_set()
    gate.open.set()
    assert await stream.reports(1) == ["t completed"]
    await ended(running)
    assert stream.half_closed.is_set()
    # No credit was given again.
    assert sum(message.credit.count for message in stream.messages) == 10
    assert len(server.hellos) == 1
    assert server.deregistered == ["host-1"]


async def test_a_host_leaves_only_when_its_last_report_was_answered(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    running = work(host)
    stream = await server.welcomed()
    stream.answers_reports = False
    stream.assign("t")
    await stream.reports(2)
    host.drain()
    stream.close()
    again = await server.stream()
    again.welcome(kept=again.hello.leases)
    assert await again.reports(2) == ["t started", "t completed"]
    await ended(running)
    assert sum(message.credit.count for message in again.messages) == 0


async def test_a_host_without_work_leaves_at_once(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    running = work(host)
    stream = await server.welcomed()
    stream.drain()
    await ended(running)


async def test_a_host_that_was_never_connected_leaves_at_once(make_host, work, server, caplog):
    await server.stop()
    host = make_host()
    host.action("click")(lambda _: None)
    running = work(host)
    await until(lambda: caplog.records)
    host.drain()
    await ended(running)


async def test_after_the_deadline_of_the_server_the_host_interrupts_what_still_runs(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    running = work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await gate.entered.wait()
    began = time.monotonic()
    deadline = Timestamp()
    deadline.FromNanoseconds(time.time_ns())
    stream.drain(deadline=deadline)
    assert await stream.reports(2) == ["t started", "t released"]
    assert time.monotonic() - began > 1.5
    await ended(running)


async def test_a_host_whose_server_shuts_down_finishes_what_runs_and_connects_to_the_next_server(
    server, make_host, work
):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    running = work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await gate.entered.wait()
    stream.drain(reconnect=True)
    gate.open.set()
    assert await stream.reports(2) == ["t started", "t completed"]
    stream.abort("unavailable", "the server shuts down")
    await (await server.welcomed()).until_credit(10)
    assert not running.done()


async def test_a_host_that_drains_by_itself_tells_the_server_once(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    running = work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await gate.entered.wait()
    host.drain()
    host.drain()
    stream.assign("late")
    assert await stream.reports(2) == ["t started", "late released"]
    gate.open.set()
    await ended(running)
    assert server.drained == ["host-1"]


async def test_a_leaving_host_ends_its_stream_only_after_its_other_calls(server, make_host, work):
    # Both calls name the host by its id alone. After the end of the stream they could reach the next host of that id.
    host = make_host()
    host.action("click")(lambda _: None)
    running = work(host)
    stream = await server.welcomed()
    await stream.until_credit(10)
    host.drain()
    await ended(running)
    await stream.half_closed.wait()
    assert server.leaving == ["drain answered", "deregistered", "end of stream"]


async def test_what_still_runs_after_the_grace_is_cancelled_and_given_back(server, make_host, work):
    host, gate = make_host(drain_grace=timedelta(seconds=0.2)), Gate()
    host.action("click")(gate)
    running = work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await gate.entered.wait()
    host.drain()
    assert await stream.reports(2) == ["t started", "t released"]
    assert gate.cancelled.is_set()
    await ended(running)


async def test_a_handler_that_returns_when_it_is_interrupted_is_completed(server, make_host, work):
    host, entered = make_host(drain_grace=timedelta()), asyncio.Event()

    @host.action("click")
    async def click(_):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "partial"

    running = work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await entered.wait()
    host.drain()
    assert (await stream.reports(2))[1] == "t completed"
    await ended(running)


async def test_a_thread_that_does_not_return_is_left_behind(server, make_host, work, monkeypatch):
    monkeypatch.setattr("taskyard.hosting.departure.INTERRUPT_SECS", 0.2)
    host, entered, go_on = make_host(drain_grace=timedelta()), threading.Event(), threading.Event()

    @host.action("click")
    def click(task):
        entered.set()
        go_on.wait(20)
        task.progress(1.0)

    running = work(host)
    stream = await server.welcomed()
    stream.assign("t")
    assert await asyncio.to_thread(entered.wait, 5)
    host.drain()
    await ended(running)
    assert stream.reported() == ["t started"]
    go_on.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_the_host(server, make_host, work, number):
    before = signal.getsignal(number)
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    running = work(host, handle_signals=True)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t")
    await gate.entered.wait()
    os.kill(os.getpid(), number)
    while (await stream.heartbeat()).status != RuntimeHost.STATUS_BUSY:
        pass
    gate.open.set()
    await ended(running)
    assert await stream.reports(2) == ["t started", "t completed"]
    assert signal.getsignal(number) == before
    assert not asyncio.get_running_loop().remove_signal_handler(number)


async def test_a_host_can_leave_signals_alone(server, make_host, work):
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    await server.stream()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


# Hosts in processes of their own

HOST = """
import asyncio, os, signal, sys, threading
from taskyard.host import Host

host = Host(sys.argv[1], "host-1")

@host.action("die")
async def die(task):
    os.kill(os.getpid(), signal.SIGKILL)

@host.action("hang")
def hang(task):
    task.progress(0.1)
    threading.Event().wait()

@host.action("nap")
async def nap(task):
    await task.progress(0.1)
    await asyncio.sleep(0.3)

asyncio.run(host.run(handle_signals=True))
print("left")
"""


@pytest.fixture
async def process(server):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, f"127.0.0.1:{server.port}", stdout=asyncio.subprocess.PIPE
    )
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


async def test_a_task_that_kills_its_host_at_once_is_reported_as_started_before(server, process):
    # One of a target: its handler waits for the answer. Without a target it waits until the report is written, and what
    # the server has not read by then goes with the connection.
    stream = await server.welcomed()
    stream.answer_reports()
    stream.assign("t", action="die", target="door")
    assert await stream.reports(1) == ["t started"]
    assert await asyncio.wait_for(process.wait(), LIMIT_SECS) == -signal.SIGKILL


async def test_after_a_first_signal_the_process_drains_and_ends(server, process):
    stream = await server.welcomed()
    await stream.until_credit(10)
    process.send_signal(signal.SIGTERM)
    out, _ = await asyncio.wait_for(process.communicate(), LIMIT_SECS)
    assert (process.returncode, out) == (0, b"left\n")
    assert stream.half_closed.is_set()


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_process_at_once(server, process, second):
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t", action="hang")
    assert await stream.reports(2) == ["t started", "t progress"]
    process.send_signal(signal.SIGTERM)
    while (await stream.heartbeat()).status != RuntimeHost.STATUS_BUSY:
        pass
    await asyncio.sleep(SAME_SIGNAL_SECS + 0.1)
    process.send_signal(second)
    assert await asyncio.wait_for(process.wait(), LIMIT_SECS) == -second


async def test_signals_in_quick_succession_count_as_one(server, process):
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t", action="nap")
    assert await stream.reports(2) == ["t started", "t progress"]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        process.send_signal(number)
    out, _ = await asyncio.wait_for(process.communicate(), LIMIT_SECS)
    assert (process.returncode, out) == (0, b"left\n")
    assert await stream.reports(1) == ["t completed"]
