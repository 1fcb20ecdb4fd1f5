"""When the stream breaks: what goes on, what is sent again, and which errors are final."""

import asyncio
import logging
import time

import pytest

from taskyard.errors import TaskyardError
from taskyard.host import Host
from taskyard.v1.runtime_host_pb2 import HeldLease
from tests.clients.python.host.gate import Gate
from tests.clients.python.host.scripted_server import ScriptedServer
from tests.ports import free_port
from tests.waiting import LIMIT_SECS, until


def held(hello):
    return [(lease.task_id, lease.fencing_token) for lease in hello.leases]


@pytest.fixture(autouse=True)
def _capture_info(caplog):
    caplog.set_level(logging.INFO, logger="taskyard")


class Gates:
    """A handler with a gate for each of these tasks."""

    def __init__(self, *task_ids):
        self._gates = {task_id: Gate() for task_id in task_ids}

    def __getitem__(self, task_id):
        return self._gates[task_id]

    async def __call__(self, task):
        return await self._gates[task.id](task)

    @property
    def cancelled(self):
        """The tasks that were cancelled."""
        return [task_id for task_id, gate in self._gates.items() if gate.cancelled.is_set()]


async def begin(server, *task_ids, **welcome):
    stream = await server.welcomed(**welcome)
    stream.assign(*task_ids)
    assert await stream.reports(len(task_ids)) == [f"{task_id} started" for task_id in task_ids]
    return stream


ENDS = {
    "in order": lambda stream: stream.close(),
    "with an error": lambda stream: stream.abort("internal", "internal error"),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_handlers_go_on_over_a_break_and_their_leases_are_listed(server, make_host, work, end):
    host, gates = make_host(), Gates("a", "b")
    host.action("click")(gates)
    work(host)
    first = await begin(server, "a", "b")
    end(first)
    again = await server.stream()
    assert held(again.hello) == [("a", 1), ("b", 1)]
    assert again.hello.instance == first.hello.instance
    again.welcome(kept=again.hello.leases)
    await again.until_credit(8)
    gates["a"].open.set()
    assert await again.reports(1) == ["a completed"]
    assert gates.cancelled == []


async def test_a_host_reconnects(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.close()
    await stream.ended.wait()
    await server.stream()


async def test_an_outcome_during_the_break_is_reported_after_it_if_the_lease_was_kept(server, make_host, work):
    host, gates = make_host(), Gates("a", "b")
    host.action("click")(gates)
    work(host)
    (await begin(server, "a", "b")).close()
    again = await server.stream()
    for task_id in ("a", "b"):
        gates[task_id].open.set()
    again.welcome(kept=[HeldLease(task_id="b", fencing_token=1)], lost=[HeldLease(task_id="a", fencing_token=1)])
    await again.until_credit(10)
    reported = again.reported()
    assert "b completed" in reported
    assert "a completed" not in reported


async def test_an_unanswered_outcome_is_sent_again(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await stream.reports(2)
    stream.answers_reports = False
    stream.assign("u")
    await stream.reports(2)
    stream.close()
    again = await server.stream()
    assert held(again.hello) == [("u", 1)]
    again.welcome(kept=again.hello.leases)
    assert await again.reports(2) == ["u started", "u completed"]
    await again.until_credit(10 - 1)


async def test_handlers_of_leases_that_were_lost_in_the_break_are_stopped(server, make_host, work):
    host, gates = make_host(), Gates("a")
    host.action("click")(gates)
    work(host)
    stream = await begin(server, "a")
    await gates["a"].entered.wait()
    stream.close()
    again = await server.stream()
    again.welcome(lost=again.hello.leases)
    assert await again.reports(1) == ["a released"]
    assert gates.cancelled == ["a"]


async def test_work_is_stopped_when_the_grace_period_ends_before_the_server_is_back(server, make_host, work, caplog):
    host, gates = make_host(), Gates("a")
    host.action("click")(gates)
    work(host)
    await begin(server, "a", reconnect_grace_ms=500)
    await gates["a"].entered.wait()
    began = time.monotonic()
    await server.stop()
    await until(lambda: gates.cancelled)
    assert time.monotonic() - began > 0.4
    ended = [record.message for record in caplog.records if " ended, of " in record.message]
    assert [line.partition(" for ")[0] for line in ended] == [
        "host host-1: a lease has ended, of a (click): no server could be reached"
    ]
    later = ScriptedServer()
    await later.start(server.port)
    stream = await later.stream()
    assert held(stream.hello) == []
    stream.welcome()
    assert await stream.reports(1) == ["a released"]
    await later.stop()


async def test_a_host_keeps_its_leases_over_a_quick_restart_of_the_server(server, make_host, work):
    host, gates = make_host(), Gates("a")
    host.action("click")(gates)
    work(host)
    await begin(server, "a", reconnect_grace_ms=60_000)
    await server.stop()
    later = ScriptedServer()
    await later.start(server.port)
    stream = await later.stream()
    assert held(stream.hello) == [("a", 1)]
    await later.stop()


async def test_a_host_may_start_before_its_server_and_logs_so_once(work, caplog):
    port = free_port()
    host = Host(f"127.0.0.1:{port}", "host-1")
    host.action("click")(lambda _: None)
    work(host)
    await until(lambda: caplog.records)
    server = ScriptedServer()
    await server.start(port)
    stream = await server.welcomed()
    await stream.until_credit(10)
    logged = [record.message for record in caplog.records if record.name == "taskyard"]
    assert logged == [
        f"host host-1 is not connected yet: no server answers at 127.0.0.1:{port}. It tries until it is, with "
        "pauses of at most 5 s",
        f"host host-1 connected to 127.0.0.1:{port} (session s)",
    ]
    await server.stop()


async def test_a_host_waits_until_another_instance_is_gone(server, make_host, work, caplog):
    server.refuse = ("already_exists", "another instance lives")
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    await until(lambda: len(server.hellos) >= 3)
    server.refuse = None
    await server.stream()
    assert sum("another instance" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("code", ["bad_request", "permission_denied", "unauthenticated"])
async def test_a_host_that_is_refused_for_good_ends_with_the_error(server, make_host, work, code):
    server.refuse = (code, "not you")
    host = make_host()
    host.action("click")(lambda _: None)
    with pytest.raises(TaskyardError) as refused:
        await asyncio.wait_for(work(host), LIMIT_SECS)
    assert (refused.value.code, refused.value.reason.partition(" (tried: nothing;")[0]) == (code, "not you")
    assert len(server.hellos) == 1


async def test_a_superseded_host_stops_its_work_and_ends_with_the_error(server, make_host, work):
    host, gates = make_host(), Gates("a")
    host.action("click")(gates)
    running = work(host)
    stream = await begin(server, "a")
    await gates["a"].entered.wait()
    stream.abort("conflict", "superseded by another stream of this instance", cause="superseded")
    with pytest.raises(TaskyardError, match="superseded") as refused:
        await asyncio.wait_for(running, LIMIT_SECS)
    assert refused.value.code == "conflict"
    assert gates.cancelled == ["a"]
    assert len(server.hellos) == 1


async def test_a_deregistered_host_stops_its_work_and_comes_back_without_leases(server, make_host, work):
    host, gates = make_host(), Gates("a")
    host.action("click")(gates)
    work(host)
    stream = await begin(server, "a")
    await gates["a"].entered.wait()
    stream.abort("conflict", "a reason", cause="deregistered")
    again = await server.stream()
    assert held(again.hello) == []
    again.welcome()
    assert await again.reports(1) == ["a released"]
    assert gates.cancelled == ["a"]


async def test_a_cancelled_host_cancels_its_handlers(server, make_host, work):
    host, gates = make_host(), Gates("a")
    host.action("click")(gates)
    running = work(host)
    await begin(server, "a")
    await gates["a"].entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert gates.cancelled == ["a"]


async def test_a_host_runs_once_at_a_time_and_again_later_as_a_new_instance(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    running = work(host)
    first = await server.welcomed()
    with pytest.raises(RuntimeError, match="runs already"):
        await host.run()
    host.drain()
    await asyncio.wait_for(running, LIMIT_SECS)
    work(host)
    assert (await server.stream()).hello.instance != first.hello.instance


@pytest.mark.parametrize("turns", range(40))
async def test_a_host_that_is_cancelled_while_its_server_stops_ends(server, make_host, work, turns):
    host = make_host()
    host.action("click")(lambda _: None)
    run = work(host)
    await server.stream()
    stopping = asyncio.create_task(server.stop())
    # grpc swallows a cancellation that comes in the moment in which the call fails.
    for _ in range(turns % 10):
        await asyncio.sleep(0)
    run.cancel()
    done, _ = await asyncio.wait({run}, timeout=LIMIT_SECS)
    assert done == {run}
    await stopping
