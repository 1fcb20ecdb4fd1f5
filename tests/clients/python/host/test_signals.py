"""Signals are the program's: hosts take them where they are asked to, share them, and give them back."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from taskyard import Host
from taskyard.hosting import signals
from tests.waiting import LIMIT_SECS

NO_SERVER = "127.0.0.1:1"
NUMBERS = (signal.SIGTERM, signal.SIGINT)


def idle_host(host_id="one"):
    """A host that no server answers, so that it leaves as soon as it drains."""
    host = Host(NO_SERVER, host_id)
    host.any_action(print)
    return host


async def begun(*hosts, **options):
    """Run hosts until they have had the time to begin."""
    running = [asyncio.create_task(host.run(**options)) for host in hosts]
    await asyncio.sleep(0.1)
    return running


async def ended(running):
    async with asyncio.timeout(LIMIT_SECS):
        await asyncio.gather(*running)


def handlers():
    return [signal.getsignal(number) for number in NUMBERS]


@pytest.mark.parametrize("number", NUMBERS)
async def test_a_first_signal_drains_all_hosts_of_the_program_that_take_them(number):
    running = await begun(idle_host("one"), idle_host("two"), handle_signals=True)
    os.kill(os.getpid(), number)
    await ended(running)


async def test_a_handler_of_the_programs_loop_is_there_again_once_the_last_host_has_ended():
    loop, called = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, called.set)
    try:
        hosts = idle_host("one"), idle_host("two")
        running = await begun(*hosts, handle_signals=True)
        for host in hosts:
            host.drain()
        await ended(running)
        called.clear()
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.wait_for(called.wait(), LIMIT_SECS)
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def test_what_the_program_sets_while_hosts_run_stays():
    def own(*_):
        pass

    before = signal.getsignal(signal.SIGTERM)
    host = idle_host()
    running = await begun(host, handle_signals=True)
    try:
        signal.signal(signal.SIGTERM, own)
        host.drain()
        await ended(running)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


async def test_signals_are_left_alone_where_nobody_asks():
    before = handlers()
    running = await begun(idle_host())
    assert handlers() == before
    running[0].cancel()


async def test_as_long_as_one_host_runs_the_signals_are_its_own():
    before, first, second = handlers(), idle_host("one"), idle_host("two")
    running = await begun(first, second, handle_signals=True)
    first.drain()
    await ended(running[:1])
    assert handlers() != before
    second.drain()
    await ended(running)
    assert handlers() == before


async def test_a_host_that_begins_after_the_signal_drains_at_once(monkeypatch):
    monkeypatch.setattr(signals, "SAME_SIGNAL_SECS", 60.0)
    with signals.draining_by_signals(lambda: None):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)
        await ended(await begun(idle_host(), handle_signals=True))


async def test_beside_the_main_thread_a_host_cannot_take_signals():
    def run():
        with pytest.raises(RuntimeError, match="handle_signals=True works in the main thread only"):
            asyncio.run(idle_host().run(handle_signals=True))

    await asyncio.to_thread(run)


async def test_the_old_name_works_with_a_warning():
    before = handlers()
    with pytest.warns(DeprecationWarning, match=r"use run\(handle_signals=...\)"):
        host = Host(NO_SERVER, "one", install_signal_handlers=True)
    host.any_action(print)
    running = await begun(host)
    assert handlers() != before
    os.kill(os.getpid(), signal.SIGTERM)
    await ended(running)


TWO = """
import asyncio, sys, time
from taskyard import Host

async def main():
    hosts = [Host("127.0.0.1:1", name) for name in ("one", "two")]
    for host in hosts:
        host.any_action(print)
    async def tell():
        await asyncio.sleep(0.1)
        print("begun", flush=True)
        if block:
            time.sleep(60)
    await asyncio.gather(*(host.run(%s) for host in hosts), tell())
    print("left", flush=True)

block = False
"""


def program(options, *lines):
    body = (TWO % options) + "\n".join([*lines, "asyncio.run(main())"])
    process = subprocess.Popen([sys.executable, "-c", body], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    return process


@pytest.mark.parametrize("number", NUMBERS)
def test_two_hosts_of_a_program_end_by_a_signal(number):
    process = program("handle_signals=True")
    process.send_signal(number)
    assert process.communicate(timeout=60)[0] == "left\n"
    assert process.returncode == 0


def test_two_hosts_that_take_no_signals_end_as_the_program_does():
    process = program("")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_a_second_signal_ends_a_program_whose_loop_is_blocked():
    process = program("handle_signals=True", "block = True")
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(signals.SAME_SIGNAL_SECS + 2.0)
    # The system may hand a signal to any thread, which does not wake the main thread out of its sleep: try again, as
    # people do.
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
            break
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
