"""WatchHosts: the hosts as they stand, then what happens to them, noticed within a second (runtime-host-model)."""

import asyncio
from contextlib import AsyncExitStack

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2, runtime_host_pb2_grpc
from taskyard.v1.runtime_host_pb2 import HostEvent, RuntimeHost
from taskyard_server.core.hosts import HostProfile, HostStatus
from taskyard_server.core.limits import Limits
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.host_watches import HostWatches
from taskyard_server.services.hosts import RuntimeHostService

SECS = 10
NAMESPACE = "default"
MANY = HostProfile(capabilities=frozenset({"gpu"}))


class Yard:
    """An engine, and a server that shows its hosts. Looks are taken when a test wants them."""

    def __init__(self, engine, service, channel, clock):
        self.engine = engine
        self.watches = service.watches
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.clock = clock

    def watch(self, namespace=NAMESPACE):
        return self.hosts.WatchHosts(
            runtime_host_pb2.WatchHostsRequest(), metadata=(("taskyard-namespace", namespace),)
        )

    async def register(self, host_id="h", profile=HostProfile(), namespace=NAMESPACE, **wish):  # noqa: B008
        return await self.engine.hosts.register(namespace, host_id, None, profile, **wish)

    async def look(self):
        """What else happens once a second."""
        for board in list(self.watches._watches.values()):
            await board.refresh()


@pytest.fixture
async def open_yard(clock):
    async with AsyncExitStack() as ends:

        async def start(poll_secs=3600.0, keepalive_secs=3600.0):
            engine = MemoryEngine(Limits(), clock)
            ends.push_async_callback(engine.admin.close)
            service = RuntimeHostService(engine, 262_144)
            service.watches = HostWatches(engine, service._message, poll_secs, keepalive_secs)
            server = grpc.aio.server(interceptors=(CallInterceptor(),))
            runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(service, server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            ends.push_async_callback(server.stop, None)
            channel = await ends.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            return Yard(engine, service, channel, clock)

        yield start


@pytest.fixture
async def yard(open_yard):
    return await open_yard()


async def read(call):
    return await asyncio.wait_for(call.read(), SECS)


def told(message):
    return [(HostEvent.Kind.Name(event.kind), event.host.id) for event in message.events]


async def test_the_hosts_as_they_stand_come_first(yard):
    await yard.register("a")
    await yard.register("b", MANY, slots=3)
    message = await read(yard.watch())
    assert told(message) == [("current", "a"), ("current", "b")]
    listed = await yard.hosts.ListHosts(runtime_host_pb2.ListHostsRequest())
    assert [event.host for event in message.events] == list(listed.hosts)


async def test_without_hosts_an_empty_message_says_that_the_watch_has_begun(yard):
    assert told(await read(yard.watch())) == []


async def test_built_in_hosts_and_those_of_other_namespaces_are_not_shown(yard):
    await yard.register("taskyard:tabs", built_in=True)
    await yard.register("elsewhere", namespace="other")
    call = yard.watch()
    assert told(await read(call)) == []
    await yard.register("another", namespace="other")
    await yard.register("h")
    await yard.look()
    assert told(await read(call)) == [("registered", "h")]


async def test_a_host_that_comes_changes_its_words_and_goes_is_told(yard):
    call = yard.watch()
    await read(call)
    await yard.register()
    await yard.look()
    message = await read(call)
    assert told(message) == [("registered", "h")]
    await yard.register(profile=MANY)
    await yard.look()
    (event,) = (await read(call)).events
    assert event.kind == HostEvent.registered
    assert list(event.host.capabilities) == ["gpu"]
    await yard.engine.hosts.deregister(NAMESPACE, "h")
    await yard.look()
    (event,) = (await read(call)).events
    assert event.kind == HostEvent.deregistered
    assert (event.host.id, list(event.host.capabilities)) == ("h", ["gpu"])
    assert event.occurred_at.ToNanoseconds() > 0


async def test_a_sign_of_life_or_the_same_words_again_are_no_event(yard):
    await yard.register()
    call = yard.watch()
    await read(call)
    yard.clock.now += 1
    await yard.engine.hosts.heartbeat(NAMESPACE, "h")
    await yard.look()
    await yard.register()
    await yard.look()
    await yard.engine.hosts.drain(NAMESPACE, "h")
    await yard.look()
    (event,) = (await read(call)).events
    assert (event.kind, event.host.draining) == (HostEvent.changed, True)


async def test_a_silent_host_goes_offline_then_dies_and_comes_back(yard):
    await yard.register()
    call = yard.watch()
    await read(call)
    standings = []
    for secs in (61, 60):
        yard.clock.now += secs
        await yard.look()
        (event,) = (await read(call)).events
        standings.append((event.kind, event.host.online, event.host.status))
    await yard.engine.hosts.heartbeat(NAMESPACE, "h", HostStatus.BUSY)
    await yard.look()
    (event,) = (await read(call)).events
    standings.append((event.kind, event.host.online, event.host.status))
    assert standings == [
        (HostEvent.changed, False, RuntimeHost.idle),
        (HostEvent.changed, False, RuntimeHost.dead),
        (HostEvent.changed, True, RuntimeHost.busy),
    ]


async def test_one_that_went_and_came_back_between_two_looks_is_registered(yard):
    await yard.register()
    call = yard.watch()
    await read(call)
    await yard.engine.hosts.deregister(NAMESPACE, "h")
    await yard.register()
    await yard.look()
    assert told(await read(call)) == [("registered", "h")]


async def test_all_watchers_are_told_by_the_same_look(yard):
    calls = [yard.watch() for _ in range(5)]
    for call in calls:
        await read(call)
    assert len(yard.watches._watches) == 1
    await yard.register()
    await yard.look()
    assert {str(told(await read(call))) for call in calls} == {"[('registered', 'h')]"}


async def test_a_watcher_that_was_slow_is_told_the_difference_to_the_present(yard):
    board = None
    await yard.register("a")
    call = yard.watch()
    await read(call)
    (board,) = yard.watches._watches.values()
    seen = board.snapshot
    await yard.register("b")
    await board.refresh()
    await yard.engine.hosts.deregister(NAMESPACE, "b")
    await yard.engine.hosts.deregister(NAMESPACE, "a")
    await yard.register("c")
    await board.refresh()
    (message,) = board.changes_since(seen)
    assert told(runtime_host_pb2.WatchHostsResponse.FromString(message)) == [("deregistered", "a"), ("registered", "c")]


async def test_many_hosts_come_in_messages_of_bounded_size(yard):
    for number in range(250):
        await yard.register(f"h{number}")
    call, sizes = yard.watch(), []
    while sum(sizes) < 250:
        sizes.append(len((await read(call)).events))
    assert sizes == [100, 100, 50]


async def test_it_looks_by_itself_while_somebody_watches(open_yard):
    yard = await open_yard(poll_secs=0.01)
    call = yard.watch()
    await read(call)
    await yard.register()
    assert told(await read(call)) == [("registered", "h")]


async def test_a_quiet_watch_gets_empty_messages(open_yard):
    yard = await open_yard(keepalive_secs=0.01)
    await yard.register()
    call = yard.watch()
    assert told(await read(call)) == [("current", "h")]
    for _ in range(2):
        assert told(await read(call)) == []


async def test_a_look_that_fails_ends_nothing(open_yard, monkeypatch, log_lines):
    yard = await open_yard(poll_secs=0.01)
    call = yard.watch()
    await read(call)
    list_hosts, failures = yard.engine.hosts.list_hosts, []

    async def fail_once(*arguments):
        if not failures:
            failures.append(True)
            raise ZeroDivisionError
        return await list_hosts(*arguments)

    monkeypatch.setattr(yard.engine.hosts, "list_hosts", fail_once)
    await yard.register()
    assert told(await read(call)) == [("registered", "h")]
    assert failures
    assert "look_at_hosts_failed" in [line["event"] for line in log_lines]


async def test_when_the_server_shuts_down_watches_end_as_unavailable(yard, refused):
    call = yard.watch()
    await read(call)
    yard.watches.close()
    assert (await refused(read(call))).status is grpc.StatusCode.UNAVAILABLE
    assert (await refused(read(yard.watch()))).code == "unavailable"


async def test_when_the_last_watcher_has_gone_nothing_is_looked_at(yard, eventually):
    calls = [yard.watch() for _ in range(2)]
    for call in calls:
        await read(call)
    (board,) = yard.watches._watches.values()
    calls[0].cancel()

    async def watchers():
        return board.watchers

    await eventually(watchers, lambda count: count == 1)
    polling = board._polling
    assert not polling.done()
    calls[1].cancel()
    await eventually(watchers, lambda count: count == 0)
    await asyncio.wait((polling,), timeout=SECS)
    assert polling.cancelled()
    assert yard.watches._watches == {}
