"""Connect with hostile or broken hosts: other hosts are still served, memory is bounded, and everything is freed."""

import asyncio
import gc
import random
from contextlib import suppress

import grpc
import psutil
import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.core.timers import TICKS_PER_SECOND
from taskyard_server.services import host_outbox
from tests.services.host_streams import held_lease, report, run_loop
from tests.waiting import until

pytestmark = pytest.mark.gate("stalls and floods of real connections")

MAX_CREDIT = 2**32 - 1
LARGE = Struct(fields={"x": Value(string_value="x" * 200_000)})


def connection_tasks():
    """The asyncio tasks that serve a stream."""
    names = ("Connection.serve", "HostReader.read", "HostWriter._write_pending")
    return [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") in names]


async def assert_served(server, name="honest"):
    """Check that another host gets a task and completes it."""
    stream = await server.connect(name, capabilities=["honest"], credit=1)
    task_id = await server.submit(requires=["honest"])
    assert await stream.report_one(await stream.task(), completed=True) == "done"
    assert await server.state(task_id) == "done"
    await stream.leave()


# Hosts that do not read


async def unread_stream(server):
    """The stream of a host that is sent more tasks than its connection buffers, and does not read."""
    stream = server.stream()
    await stream.send(hello=pb.Hello(host_id="host", instance="i"))
    await stream.credit(MAX_CREDIT)
    while await server.host() is None:
        await run_loop(1)
    for _ in range(60):
        await server.submit(params=LARGE)
    return stream


async def test_the_server_stops_reading_from_a_host_that_does_not_read(start_server):
    server = await start_server()
    stream = server.stream()
    await stream.send(hello=pb.Hello(host_id="host", instance="i"))
    reports = pb.ConnectRequest(
        reports=pb.Reports(reports=[report((f"tsk_{n}", 1), started=True) for n in range(2_000)])
    )
    before = psutil.Process().memory_info().rss

    async def send_forever():
        while True:
            await stream.call.write(reports)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(send_forever(), 3)
    gc.collect()
    assert psutil.Process().memory_info().rss - before < 100_000_000
    await assert_served(server)
    stream.call.cancel()
    await until(lambda: not server.leftovers())


async def test_heartbeats_of_a_host_that_does_not_read_do_not_count(start_server, clock):
    server = await start_server(clock)
    stream = await unread_stream(server)
    await answer_calls(server)
    await server.advance(5)
    for sequence in range(5):
        await stream.send(heartbeat=pb.Heartbeat(sequence=sequence))
    await answer_calls(server)
    heard_at = (await server.host()).last_heartbeat_at.ToNanoseconds() / 1e9
    assert heard_at == pytest.approx(server.clock.now - 5, abs=1e-5)
    while not (await stream.read_message()).HasField("heartbeat_ack"):
        pass
    heard_at = (await server.host()).last_heartbeat_at.ToNanoseconds() / 1e9
    assert heard_at == pytest.approx(server.clock.now, abs=1e-5)


async def answer_calls(server):
    """Let the server do what it can: what was sent before a call has arrived once that is answered."""
    for _ in range(50):
        await server.host()


async def test_tasks_that_cannot_be_sent_within_the_start_timeout_go_to_another_host_and_end_the_stream(
    start_server, clock
):
    server = await start_server(clock, start_timeout_secs=2.0)
    await unread_stream(server)
    assert len(await server.live_leases()) == 60
    stream = await server.connect("honest")
    await stream.credit(60)
    await server.advance(2.0 + 1 / TICKS_PER_SECOND)
    await stream.tasks(60)
    assert {host_id for _, host_id, _ in await server.live_leases()} == {"honest"}
    assert not (await server.host()).HasField("instance")


@pytest.mark.parametrize("end", ["deregister", "supersede", "close"])
async def test_the_server_can_end_a_stream_that_is_not_read(start_server, end):
    server = await start_server()
    stream = await unread_stream(server)
    match end:
        case "deregister":
            await server.deregister()
        case "supersede":
            again = await server.connect()
            await again.leave()
        case "close":
            await server.engine.admin.close()
    await until(lambda: not server.leftovers() and not connection_tasks())
    if end != "supersede":
        with pytest.raises(grpc.RpcError) as ended:
            await stream.read_to_end()
        assert ended.value.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE)


# Floods


async def test_a_flood_of_heartbeats_and_credits_does_not_affect_other_hosts(start_server):
    server = await start_server()
    flooding = [await server.connect(f"flood-{number}") for number in range(3)]
    stop = asyncio.Event()

    async def flood(stream):
        held = [pb.HeldLease(task_id=f"tsk_{number}", fencing_token=1) for number in range(100)]
        while not stop.is_set():
            await stream.send(heartbeat=pb.Heartbeat(leases=held))
            await stream.send(credit=pb.Credit(count=MAX_CREDIT))

    async def read_forever(stream):
        while not stop.is_set():
            await stream.call.read()

    coroutines = [asyncio.create_task(run(stream)) for stream in flooding for run in (flood, read_forever)]
    try:
        for _ in range(5):
            await assert_served(server)
    finally:
        stop.set()
        for stream in flooding:
            stream.call.cancel()
        await asyncio.gather(*coroutines, return_exceptions=True)
    await until(lambda: not server.leftovers())


async def test_a_very_large_message_of_reports_does_not_block_other_hosts(start_server):
    server = await start_server()
    stream = await server.connect()
    reports = [report((f"tsk_{number}", 1), started=True) for number in range(100_000)]
    await stream.send(reports=pb.Reports(reports=reports))
    answered = asyncio.create_task(stream.receive("report_results"))
    await assert_served(server)
    assert not answered.done()
    assert len((await answered).results) == 100_000


async def test_a_host_that_guesses_the_tokens_of_other_hosts_changes_nothing(server):
    stream = await server.connect("honest", credit=10)
    task_ids = await server.submit_many(10)
    tasks = await stream.tasks(10)
    await stream.report(*(report(task, started=True) for task in tasks))
    thief = await server.connect("thief", credit=1)
    events = ({"started": True}, {"completed": True}, {"failed": "x"}, {"released": True})
    guesses = [
        report((task.task.task_id, token), **event)
        for task in tasks
        for token in (task.lease.fencing_token, task.lease.fencing_token + 1, 99)
        for event in events
    ]
    results = await thief.report(*guesses)
    assert {result.error.code for result in results} == {"lease_lost"}
    assert len((await thief.heartbeat(*tasks)).lost) == 10
    assert {await server.state(task_id) for task_id in task_ids} == {"running"}
    results = await stream.report(*(report(task, completed=True) for task in tasks))
    assert not any(result.HasField("error") for result in results)


async def test_a_hello_cannot_take_the_leases_of_another_host(server):
    stream = await server.connect("honest", credit=1)
    await server.submit()
    task = await stream.task()
    thief = server.stream("thief")
    welcome = await thief.hello(leases=[held_lease(task)])
    assert not welcome.kept
    assert list(welcome.lost) == [held_lease(task)]
    assert await stream.report_one(task, completed=True) == "done"


# Streams that break at any point


def requests_of_a_host(stream, task):
    """The requests of a host from hello to release, in order."""
    lease = [held_lease(task)] if task else []
    yield {"hello": pb.Hello(host_id=stream.host_id, instance="i", leases=lease)}
    yield {"credit": pb.Credit(count=3)}
    yield {"heartbeat": pb.Heartbeat(sequence=1, leases=lease)}
    yield {"reports": pb.Reports(reports=[report(task, started=True)] if task else [])}
    yield {"credit": pb.Credit(count=1)}
    yield {"reports": pb.Reports(reports=[report(task, released=True)] if task else [])}


@pytest.mark.parametrize("how", ["cancel", "half-close", "garbage"])
@pytest.mark.parametrize("read", [False, True])
async def test_a_stream_can_break_after_any_request_and_everything_is_freed(start_server, how, read):
    server = await start_server(reconnect_grace_secs=0.0)
    task_ids = await server.submit_many(5)
    for cut in range(7):
        for turns_between in (0, 1, 7):
            stream = server.stream()
            stream.call = server.channel.stream_stream(
                "/taskyard.v1.RuntimeHostService/Connect", lambda message: message, pb.ConnectResponse.FromString
            )()
            for number, step in enumerate(requests_of_a_host(stream, None)):
                if number == cut:
                    break
                await stream.call.write(pb.ConnectRequest(**step).SerializeToString())
                if read and number == 0:
                    await stream.receive("welcome")
            await run_loop(turns_between)
            match how:
                case "cancel":
                    stream.call.cancel()
                case "half-close":
                    await stream.call.done_writing()
                case "garbage":
                    await stream.call.write(b"\xff\xff")
            if how != "cancel":
                with suppress(grpc.RpcError):
                    await stream.read_to_end()
            await until(lambda: not server.leftovers())
    await until(lambda: not connection_tasks())
    stream = await server.connect("honest")
    await stream.credit(5)
    assert {task.task.task_id for task in await stream.tasks(5)} == set(task_ids)


async def test_a_storm_of_reconnecting_hosts_loses_no_task_and_frees_everything(start_server):
    server = await start_server(reconnect_grace_secs=0.2, start_timeout_secs=1.0)
    rng = random.Random(5)
    task_ids = set(await server.submit_many(300))
    done = set()

    async def run_host(name):
        """A host that works, disconnects after some messages, on its way or on theirs, and reconnects."""
        while len(done) < len(task_ids):
            stream = server.stream(name)
            left = rng.randrange(30)

            async def step(message):
                nonlocal left
                left -= 1
                if left < 0:
                    message.close()
                    raise ConnectionError
                return await message

            try:
                await step(stream.hello())
                await step(stream.credit(2))
                while True:
                    for task in (await step(stream.read_message())).assignments.assignments:
                        await step(stream.send(reports=pb.Reports(reports=[report(task, completed=True)])))
                        received = await step(stream.read_message())
                        while not received.HasField("report_results"):
                            received = await step(stream.read_message())
                        if not received.report_results.results[0].HasField("error"):
                            done.add(task.task.task_id)
                        await step(stream.credit(1))
            except (grpc.RpcError, asyncio.CancelledError, AssertionError, ConnectionError):
                pass
            finally:
                stream.call.cancel()
            if asyncio.current_task().cancelling():
                return

    hosts = [asyncio.create_task(run_host(f"host-{number}")) for number in range(100)]
    for task_id in task_ids:
        await until(lambda each=task_id: server.state(each), lambda state: state == "done")
    for host in hosts:
        host.cancel()
    await asyncio.gather(*hosts, return_exceptions=True)
    await until(lambda: not server.leftovers())
    await until(lambda: not connection_tasks())
    assert server.engine.admin.totals().inflight == 0


def test_the_output_kept_for_a_host_that_does_not_read_is_bounded():
    assert host_outbox.MAX_UNSENT_MESSAGES <= 1_000
    assert host_outbox.MAX_UNSENT_BYTES <= 4 * 1024 * 1024
