"""A host at work over one stream: what it says of itself, what it is handed, and what it stops."""

import asyncio
import threading

from google.protobuf.json_format import MessageToDict

from taskyard.v1.runtime_host_pb2 import HeartbeatAck, HeldLease, ReportResults, RuntimeHost
from taskyard.v1.task_pb2 import Error


def held(message):
    return [(lease.task_id, lease.fencing_token) for lease in message.leases]


class Gate:
    """A handler that waits until it is let go, and tells how it ended."""

    def __init__(self):
        self.entered = asyncio.Event()
        self.open = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def __call__(self, task):
        self.entered.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return task.id


async def test_a_host_says_who_it_is(server, make_host, work):
    host = make_host(
        slots=3,
        capabilities=["browser", "gpu"],
        namespace="shop",
        project="p",
        labels={"rack": "7"},
        lease_secs=20,
        display_name="Host One",
        machine_figures=True,
    )
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.stream()
    told = MessageToDict(stream.hello, preserving_proto_field_name=True)
    assert len(told.pop("instance")) == 32
    figures = told.pop("machine")
    assert 0 <= figures["cpu_percent"] <= 100
    assert figures["memory_mb"] > 0
    assert told == {
        "host_id": "host-1",
        "display_name": "Host One",
        "capabilities": ["browser", "gpu"],
        "slots": 3,
        "project": "p",
        "actions": ["click"],
        "labels": {"rack": "7"},
        "lease_secs": 20,
    }
    assert stream.metadata["taskyard-namespace"] == "shop"
    assert "authorization" not in stream.metadata


async def test_a_host_shows_its_token(server, make_host, work):
    host = make_host(token="secret")
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.stream()
    assert stream.metadata["authorization"] == "Bearer secret"


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


async def test_what_ends_together_is_reported_and_credited_together(server, make_host, work):
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


async def test_a_server_that_answers_late_delays_no_report(server, make_host, work):
    host = make_host()
    host.action("click")(lambda task: task.id)
    work(host)
    stream = await server.welcomed()
    stream.takes_reports = False
    for task_id in ("a", "b", "c"):
        stream.assign(task_id)
        assert await stream.reports(2) == [f"{task_id} started", f"{task_id} completed"]


async def test_heartbeats_carry_leases_figures_and_a_sequence(server, make_host, work):
    host, gate = make_host(machine_figures=True), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t", token=4)
    await gate.entered.wait()
    while not (beat := await stream.beat()).leases:
        pass
    assert held(beat) == [("t", 4)]
    assert beat.machine.active_workers == 1
    assert not beat.HasField("status")
    assert (await stream.beat()).sequence == beat.sequence + 1


async def test_an_outcome_without_an_answer_is_held_on(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.takes_reports = False
    stream.assign("t")
    await stream.reports(2)
    await stream.beat()
    assert held(await stream.beat()) == [("t", 1)]


async def test_a_cancelled_task_is_stopped_and_answered_with_a_release(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await gate.entered.wait()
    stream.cancel("t")
    assert await stream.reports(2) == ["t started", "t released"]
    assert gate.cancelled.is_set()
    await stream.until_credit(10)


async def test_a_cancelled_plain_function_is_told_and_released_only_once_it_has_returned(server, make_host, work):
    host, entered, told, go_on = make_host(), threading.Event(), threading.Event(), threading.Event()

    @host.action("click")
    def click(task):
        entered.set()
        while not task.cancelled:
            assert not go_on.wait(0.001)
        told.set()
        assert go_on.wait(10)

    work(host)
    stream = await server.welcomed()
    stream.assign("t")
    await asyncio.to_thread(entered.wait, 10)
    stream.cancel("t")
    assert await asyncio.to_thread(told.wait, 10)
    # What the server hears next of a second task shows that it heard nothing of the first.
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


async def test_a_handler_that_ends_well_in_spite_of_its_cancellation_is_released_all_the_same(server, make_host, work):
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


async def test_a_lease_that_a_heartbeats_answer_names_as_lost_is_stopped(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.answers_heartbeats = False
    stream.assign("t")
    await gate.entered.wait()
    while not (beat := await stream.beat()).leases:
        pass
    stream.send(heartbeat_ack=HeartbeatAck(sequence=beat.sequence, lost=[HeldLease(task_id="t", fencing_token=1)]))
    await asyncio.wait_for(gate.cancelled.wait(), 5)


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
    await asyncio.wait_for(gates["a"].cancelled.wait(), 5)
    gates["b"].open.set()
    while (await stream.reports(1)) != ["b completed"]:
        pass


async def test_a_lease_that_is_not_renewed_is_given_up_by_the_hosts_own_clock(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=300, lease_secs=1)
    stream.answers_heartbeats = False
    began = asyncio.get_running_loop().time()
    stream.assign("t")
    await asyncio.wait_for(gate.cancelled.wait(), 5)
    assert 0.8 < asyncio.get_running_loop().time() - began < 1.3
    assert not stream.ended.is_set()


async def test_a_stream_whose_heartbeats_have_no_answer_for_a_lease_is_left_for_a_new_one(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=200, lease_secs=1)
    stream.answers_heartbeats = False
    again = await server.stream()
    assert again.hello.instance == stream.hello.instance


async def test_a_draining_host_calls_itself_busy(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await server.welcomed(heartbeat_interval_ms=20)
    stream.assign("t")
    await gate.entered.wait()
    host.drain()
    while (beat := await stream.beat()).status != RuntimeHost.STATUS_BUSY:
        pass
    assert held(beat) == [("t", 1)]


async def test_an_answer_without_a_question_breaks_nothing(server, make_host, work):
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.send(report_results=ReportResults())
    stream.send(heartbeat_ack=HeartbeatAck(sequence=99))
    stream.assign("t")
    assert await stream.reports(2) == ["t started", "t completed"]
