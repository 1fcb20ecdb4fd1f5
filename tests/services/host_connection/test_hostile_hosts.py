"""Connect under hosts that mean harm or are broken: others go on as before, memory is bounded, and nothing is left."""

import asyncio
import gc
import random
import time
from contextlib import suppress

import grpc
import psutil
import pytest
from google.protobuf.struct_pb2 import Struct, Value

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.services import host_connection as connect
from tests.services.host_streams import named, report, turns

MOST_CREDIT = 2**32 - 1
LARGE = Struct(fields={"x": Value(string_value="x" * 200_000)})


async def until(is_so):
    """Wait for what nobody tells of."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def streams_at_work():
    """The tasks of the loop in which a stream is served."""
    names = ("Connection.serve", "Connection._read_requests", "Connection._write_pending")
    return [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__qualname__", "") in names]


async def is_served(yard, name="honest"):
    """A host of good will gets a task and ends it, soon."""
    async with asyncio.timeout(5):
        stream = await yard.connect(name, capabilities=["honest"], credit=1)
        task_id = await yard.submit(requires=["honest"])
        assert await stream.told(await stream.task(), completed=True) == "done"
        assert await yard.state(task_id) == "done"
        await stream.leave()


# Hosts that do not read


async def deaf(yard):
    """The stream of a host that took more tasks than its connection holds, and reads nothing."""
    stream = yard.stream()
    await stream.say(hello=pb.Hello(host_id="host", instance="i"))
    await stream.credit(MOST_CREDIT)
    while await yard.host() is None:
        await turns(1)
    for _ in range(60):
        await yard.submit(params=LARGE)
    return stream


async def test_a_host_that_never_reads_is_not_read_for_ever_either(open_yard):
    yard = await open_yard()
    stream = yard.stream()
    await stream.say(hello=pb.Hello(host_id="host", instance="i"))
    lost = pb.ConnectRequest(reports=pb.Reports(reports=[report((f"tsk_{n}", 1), started=True) for n in range(2_000)]))
    before = psutil.Process().memory_info().rss

    async def shout():
        while True:
            await stream.call.write(lost)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(shout(), 3)
    gc.collect()
    assert psutil.Process().memory_info().rss - before < 100_000_000
    await is_served(yard)
    stream.call.cancel()
    await until(lambda: not yard.leftovers())


async def test_the_heartbeats_of_a_host_that_does_not_read_keep_it_alive_no_longer(open_yard, still):
    yard = await open_yard(still)
    stream = await deaf(yard)
    await settled()
    await yard.pass_time(5)
    for sequence in range(5):
        await stream.say(heartbeat=pb.Heartbeat(sequence=sequence))
    await settled()
    heard_at = (await yard.host()).last_heartbeat_at.ToNanoseconds() / 1e9
    assert heard_at == pytest.approx(yard.clock.now - 5, abs=1e-5)
    while not (await stream.next()).HasField("heartbeat_ack"):
        pass
    heard_at = (await yard.host()).last_heartbeat_at.ToNanoseconds() / 1e9
    assert heard_at == pytest.approx(yard.clock.now, abs=1e-5)


async def settled():
    """Let the sockets of this process do what they have to do; the loop's clock stands still."""
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        await turns()


async def test_tasks_that_could_not_even_be_said_in_time_go_elsewhere_and_end_the_stream(open_yard):
    yard = await open_yard(start_timeout_secs=2.0)
    await deaf(yard)
    assert len(await yard.leased()) == 60
    honest = await yard.connect("honest")
    await honest.credit(60)
    await honest.tasks(60)
    assert {host_id for _, host_id, _ in await yard.leased()} == {"honest"}
    assert not (await yard.host()).HasField("instance")


@pytest.mark.parametrize("end", ["deregister", "supersede", "close"])
async def test_a_stream_that_is_not_read_ends_for_the_server_all_the_same(open_yard, end):
    yard = await open_yard()
    stream = await deaf(yard)
    match end:
        case "deregister":
            await yard.deregister()
        case "supersede":
            again = await yard.connect()
            await again.leave()
        case "close":
            await yard.engine.admin.close()
    await until(lambda: not yard.leftovers() and not streams_at_work())
    if end != "supersede":
        with pytest.raises(grpc.RpcError) as told:
            await stream.end()
        assert told.value.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNAVAILABLE)


# Floods


async def test_a_flood_of_heartbeats_and_credits_harms_nobody_else(open_yard):
    yard = await open_yard()
    flooding = [await yard.connect(f"flood-{number}") for number in range(3)]
    stop = asyncio.Event()

    async def flood(stream):
        held = [pb.HeldLease(task_id=f"tsk_{number}", fencing_token=1) for number in range(100)]
        while not stop.is_set():
            await stream.say(heartbeat=pb.Heartbeat(leases=held))
            await stream.say(credit=pb.Credit(count=MOST_CREDIT))

    async def drink(stream):
        while not stop.is_set():
            await stream.call.read()

    work = [asyncio.create_task(do(stream)) for stream in flooding for do in (flood, drink)]
    try:
        for _ in range(5):
            await is_served(yard)
    finally:
        stop.set()
        for stream in flooding:
            stream.call.cancel()
        await asyncio.gather(*work, return_exceptions=True)
    await until(lambda: not yard.leftovers())


async def test_the_largest_message_of_reports_does_not_stop_the_others(open_yard):
    yard = await open_yard()
    stream = await yard.connect()
    many = [report((f"tsk_{number}", 1), started=True) for number in range(100_000)]
    await stream.say(reports=pb.Reports(reports=many))
    begin = time.perf_counter()
    await is_served(yard)
    assert time.perf_counter() - begin < 3
    assert len((await stream.hear("report_results")).results) == 100_000


async def test_a_host_that_guesses_tokens_of_others_changes_nothing(yard):
    honest = await yard.connect("honest", credit=10)
    task_ids = await yard.submit_many(10)
    tasks = await honest.tasks(10)
    await honest.report(*(report(task, started=True) for task in tasks))
    thief = await yard.connect("thief", credit=1)
    events = ({"started": True}, {"completed": True}, {"failed": "x"}, {"released": True})
    guesses = [report((task_id, token), **event) for task_id in task_ids for token in (1, 2, 99) for event in events]
    results = await thief.report(*guesses)
    assert {result.error.code for result in results} == {"lease_lost"}
    assert len((await thief.beat(*tasks)).lost) == 10
    assert {await yard.state(task_id) for task_id in task_ids} == {"running"}
    results = await honest.report(*(report(task, completed=True) for task in tasks))
    assert not any(result.HasField("error") for result in results)


async def test_a_hello_cannot_take_the_leases_of_another_host(yard):
    honest = await yard.connect("honest", credit=1)
    await yard.submit()
    task = await honest.task()
    thief = yard.stream("thief")
    welcome = await thief.hello(leases=[named(task)])
    assert not welcome.kept
    assert list(welcome.lost) == [named(task)]
    assert await honest.told(task, completed=True) == "done"


# Streams that break anywhere


def steps(stream, task):
    """Everything that a host says in a life, one step after the other."""
    lease = [named(task)] if task else []
    yield {"hello": pb.Hello(host_id=stream.host_id, instance="i", leases=lease)}
    yield {"credit": pb.Credit(count=3)}
    yield {"heartbeat": pb.Heartbeat(sequence=1, leases=lease)}
    yield {"reports": pb.Reports(reports=[report(task, started=True)] if task else [])}
    yield {"credit": pb.Credit(count=1)}
    yield {"reports": pb.Reports(reports=[report(task, released=True)] if task else [])}


@pytest.mark.parametrize("how", ["cancel", "half-close", "garbage"])
@pytest.mark.parametrize("read", [False, True])
async def test_a_stream_may_break_after_any_step_and_nothing_is_left(open_yard, how, read):
    yard = await open_yard(reconnect_grace_secs=0.0)
    task_ids = await yard.submit_many(5)
    for cut in range(7):
        for turns_between in (0, 1, 7):
            stream = yard.stream()
            stream.call = yard.channel.stream_stream(
                "/taskyard.v1.RuntimeHostService/Connect", lambda said: said, pb.ConnectResponse.FromString
            )()
            for number, step in enumerate(steps(stream, None)):
                if number == cut:
                    break
                await stream.call.write(pb.ConnectRequest(**step).SerializeToString())
                if read and number == 0:
                    await stream.hear("welcome")
            await turns(turns_between)
            match how:
                case "cancel":
                    stream.call.cancel()
                case "half-close":
                    await stream.call.done_writing()
                case "garbage":
                    await stream.call.write(b"\xff\xff")
            if how != "cancel":
                with suppress(grpc.RpcError):
                    await stream.end()
            await until(lambda: not yard.leftovers())
    await until(lambda: not streams_at_work())
    honest = await yard.connect("honest")
    await honest.credit(5)
    assert {task.task.task_id for task in await honest.tasks(5)} == set(task_ids)


async def test_a_storm_of_reconnecting_hosts_loses_no_task_and_leaves_nothing(open_yard):
    yard = await open_yard(reconnect_grace_secs=0.2, start_timeout_secs=1.0)
    draw = random.Random(5)
    task_ids = set(await yard.submit_many(300))
    done = set()

    async def live(name):
        """One host: works a little, breaks at any time, comes back."""
        while len(done) < len(task_ids):
            stream = yard.stream(name)
            breaking = asyncio.create_task(break_at(stream, draw.uniform(0.0, 0.4)))
            try:
                await stream.hello()
                await stream.credit(2)
                while True:
                    for task in (await stream.next()).assignments.assignments:
                        await stream.say(reports=pb.Reports(reports=[report(task, completed=True)]))
                        answer = await stream.next()
                        while not answer.HasField("report_results"):
                            answer = await stream.next()
                        if not answer.report_results.results[0].HasField("error"):
                            done.add(task.task.task_id)
                        await stream.credit(1)
            except (grpc.RpcError, asyncio.CancelledError, AssertionError):
                pass
            finally:
                breaking.cancel()
                stream.call.cancel()
            if asyncio.current_task().cancelling():
                return

    async def break_at(stream, secs):
        await asyncio.sleep(secs)
        stream.call.cancel()

    hosts = [asyncio.create_task(live(f"host-{number}")) for number in range(100)]
    async with asyncio.timeout(60):
        while True:
            states = [await yard.state(task_id) for task_id in task_ids]
            if all(state == "done" for state in states):
                break
            await asyncio.sleep(0.05)
    for host in hosts:
        host.cancel()
    await asyncio.gather(*hosts, return_exceptions=True)
    await until(lambda: not yard.leftovers())
    await until(lambda: not streams_at_work())
    assert yard.engine.admin.totals().inflight == 0


def test_what_waits_for_a_host_that_does_not_read_is_bounded():
    assert connect.MAX_UNSENT_MESSAGES <= 1_000
    assert connect.MAX_UNSENT_BYTES <= 4 * 1024 * 1024
