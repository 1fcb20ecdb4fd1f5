"""A host on one stream: how it introduces itself, which tasks it starts, and what it stops."""

import asyncio
import threading

from google.protobuf.json_format import MessageToDict

from taskyard.v1.runtime_host_pb2 import HeartbeatAck, ReportResults
from taskyard.v1.task_pb2 import Error
from tests.clients.python.host.gate import Gate
from tests.waiting import LIMIT_SECS

# Connecting


async def test_a_host_introduces_itself(server, make_host, work):
    host = make_host(
        slots=3,
        capabilities=["browser", "gpu"],
        namespace="shop",
        project="p",
        labels={"rack": "7"},
        lease=20,
        display_name="Host One",
        machine_figures=True,
    )
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.stream()
    hello = MessageToDict(stream.hello, preserving_proto_field_name=True)
    assert len(hello.pop("instance")) == 32
    figures = hello.pop("machine")
    assert 0 <= figures["cpu_percent"] <= 100
    assert figures["memory_mb"] > 0
    assert hello == {
        "host_id": "host-1",
        "display_name": "Host One",
        "capabilities": ["browser", "gpu"],
        "slots": 3,
        "project": "p",
        "actions": ["click"],
        "labels": {"rack": "7"},
        "lease_secs": 20,
        "counts_accepted": True,
    }
    assert stream.metadata["taskyard-namespace"] == "shop"
    assert "authorization" not in stream.metadata


async def test_a_host_sends_its_token(server, make_host, work):
    host = make_host(token="secret")
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.stream()
    assert stream.metadata["authorization"] == "Bearer secret"


# Running tasks


async def test_tasks_run_at_once_and_their_slots_are_credited_again(server, make_host, work):
    host, gate = make_host(slots=3), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed()
    await stream.until_credit(3)
    stream.assign("a", "b", "c")
    assert await stream.reports(3) == ["a started", "b started", "c started"]
    assert stream.credit == 0
    gate.open.set()
    assert sorted(await stream.reports(3)) == ["a completed", "b completed", "c completed"]
    await stream.until_credit(3)


async def test_tasks_that_end_together_are_reported_and_credited_together(server, make_host, work):
    host, gate = make_host(slots=50), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed()
    await stream.until_credit(50)
    stream.assign(*(f"t-{number}" for number in range(50)))
    await stream.reports(50)
    stream.messages.clear()
    gate.open.set()
    await stream.until_credit(50)
    assert sum(len(message.reports.reports) for message in stream.messages) == 50
    assert len(stream.messages) <= 6


async def test_a_server_that_counts_gets_reports_and_their_credit_in_one_message(server, make_host, work):
    host, gate = make_host(slots=3), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(counts_accepted=True)
    await stream.until_credit(3)
    stream.messages.clear()
    stream.assign("a", "b", "c")
    await stream.reports(3)
    gate.open.set()
    await stream.until_credit(3)
    assert not any(message.HasField("credit") for message in stream.messages)
    stream.assign("d", target="t")
    assert sorted(await stream.reports(5)) == [f"{name} completed" for name in "abcd"] + ["d started"]


async def test_a_server_that_answers_late_delays_no_report(server, make_host, work):
    host = make_host()
    host.action("click")(lambda task: task.id)
    work(host)
    stream = await server.welcomed()
    stream.answers_reports = False
    for task_id in ("a", "b", "c"):
        stream.assign(task_id)
        assert await stream.reports(2) == [f"{task_id} started", f"{task_id} completed"]


async def test_a_task_with_a_target_runs_only_once_its_start_report_was_answered(server, make_host, work):
    host = make_host()
    host.action("click")(lambda task: task.id)
    work(host)
    stream = await server.welcomed()
    stream.answers_reports = False
    stream.assign("a", target="t")
    assert await stream.reports(1) == ["a started"]
    # The second task shows that the host had the time to run the first one.
    stream.assign("b")
    assert await stream.reports(2) == ["b started", "b completed"]
    stream.answer_reports()
    assert await stream.reports(1) == ["a completed"]


async def test_a_start_report_that_was_lost_with_its_stream_is_sent_again_before_the_task_runs(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed()
    stream.answers_reports = False
    stream.assign("t", target="t")
    assert await stream.reports(1) == ["t started"]
    stream.close()
    again = await server.stream()
    assert [lease.task_id for lease in again.hello.leases] == ["t"]
    assert not gate.entered.is_set()
    again.welcome(kept=again.hello.leases)
    assert await again.reports(1) == ["t started"]
    await asyncio.wait_for(gate.entered.wait(), LIMIT_SECS)


async def test_answers_that_nothing_was_sent_for_break_nothing(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.send(report_results=ReportResults())
    stream.send(heartbeat_ack=HeartbeatAck(sequence=99))
    stream.assign("t")
    assert await stream.reports(2) == ["t started", "t completed"]


# Cancellations


async def test_a_cancelled_task_is_stopped_and_answered_with_a_release(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed()
    await stream.until_credit(10)
    stream.assign("t")
    await gate.entered.wait()
    stream.cancel("t")
    assert await stream.reports(2) == ["t started", "t released"]
    assert gate.cancelled.is_set()
    await stream.until_credit(10)


async def test_a_cancelled_plain_function_is_notified_and_released_only_once_it_has_returned(server, make_host, work):
    host, entered, notified, go_on = make_host(), threading.Event(), threading.Event(), threading.Event()

    @host.action("click")
    def click(task):
        entered.set()
        while not task.cancelled:
            assert not go_on.wait(0.001)
        notified.set()
        assert go_on.wait(10)

    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await asyncio.to_thread(entered.wait, 10)
    stream.cancel("t")
    assert await asyncio.to_thread(notified.wait, 10)
    # A second task is released next, so the first one was not released before.
    stream.cancel("other")
    assert await stream.reports(2) == ["t started", "other released"]
    go_on.set()
    assert await stream.reports(1) == ["t released"]


async def test_a_cancellation_of_an_unknown_task_is_answered_at_once(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.cancel("t")
    assert await stream.reports(1) == ["t released"]


async def test_a_handler_that_returns_although_it_was_cancelled_is_released_all_the_same(server, make_host, work):
    host, entered = make_host(), asyncio.Event()

    @host.action("click")
    async def click(_):
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done nevertheless"

    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await entered.wait()
    stream.cancel("t")
    assert await stream.reports(2) == ["t started", "t released"]


async def test_a_refused_report_of_a_lost_lease_stops_its_handler_and_no_other(server, make_host, work):
    host, gates = make_host(), {"a": Gate(), "b": Gate()}

    @host.action("click")
    async def click(task):
        await task.progress(0.5)
        await gates[task.id](task)

    work(host)
    stream = await server.welcomed()
    stream.refusals["a", "progress"] = Error(code="lease_lost", error="lease lost")
    stream.assign("a", "b")
    await asyncio.wait_for(gates["a"].cancelled.wait(), LIMIT_SECS)
    gates["b"].open.set()
    while (await stream.reports(1)) != ["b completed"]:
        pass
