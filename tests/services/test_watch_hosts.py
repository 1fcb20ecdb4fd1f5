"""WatchHosts: the current hosts, then their changes within a second (docs/rules.md, Hosts)."""

import asyncio
from contextlib import AsyncExitStack

import grpc
import pytest

from taskyard.v1 import runtime_host_pb2, runtime_host_pb2_grpc
from taskyard.v1.runtime_host_pb2 import HostEvent, RuntimeHost
from taskyard_server.core.hosts import HostProfile, HostStatus
from taskyard_server.core.streams import Hello
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.host_watches import HostWatches
from taskyard_server.services.hosts import RuntimeHostService
from tests.engines import running_engine
from tests.live import live
from tests.waiting import LIMIT_SECS

NAMESPACE = "default"
GPU = HostProfile(capabilities=frozenset({"gpu"}))


class HostWatchServer:
    """An engine and a server for watches of its hosts, whose snapshots are refreshed by tests."""

    def __init__(self, engine, service, channel, clock):
        self.engine = engine
        self.watches = service.watches
        self.hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self.clock = clock

    def watch(self, namespace=NAMESPACE):
        return self.hosts.WatchHosts(
            runtime_host_pb2.WatchHostsRequest(), metadata=(("taskyard-namespace", namespace),)
        )

    async def register(self, host_id="h", profile=HostProfile(), namespace=NAMESPACE, **fields):  # noqa: B008
        return await self.engine.hosts.register(namespace, host_id, None, profile, **fields, show=live)

    async def refresh(self):
        """Refresh the snapshots, as the server does once a second."""
        for watch in list(self.watches._watches.values()):
            await watch.refresh()


@pytest.fixture
async def start_server(clock):
    async with AsyncExitStack() as cleanup:

        async def start(poll_secs=3600.0, keepalive_secs=3600.0):
            engine = await cleanup.enter_async_context(running_engine(clock=clock))
            service = RuntimeHostService(engine, 262_144)
            service.watches = HostWatches(engine, service._message, poll_secs, keepalive_secs)
            server = grpc.aio.server(interceptors=(CallInterceptor(),))
            runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(service, server)
            port = server.add_insecure_port("127.0.0.1:0")
            await server.start()
            cleanup.push_async_callback(server.stop, None)
            channel = await cleanup.enter_async_context(grpc.aio.insecure_channel(f"127.0.0.1:{port}"))
            return HostWatchServer(engine, service, channel, clock)

        yield start


@pytest.fixture
async def server(start_server):
    return await start_server()


async def read(call):
    return await asyncio.wait_for(call.read(), LIMIT_SECS)


def events_of(message):
    return [(HostEvent.Kind.Name(event.kind), event.host.id) for event in message.events]


async def test_the_current_hosts_come_first(server):
    await server.register("a")
    await server.register("b", GPU, slots=3)
    message = await read(server.watch())
    assert events_of(message) == [("current", "a"), ("current", "b")]
    listed = await server.hosts.ListHosts(runtime_host_pb2.ListHostsRequest())
    assert [event.host for event in message.events] == list(listed.hosts)


async def test_without_hosts_a_watch_starts_with_an_empty_message(server):
    assert events_of(await read(server.watch())) == []


async def test_built_in_hosts_and_those_of_other_namespaces_are_not_shown(server):
    await server.register("taskyard:tabs", built_in=True)
    await server.register("elsewhere", namespace="other")
    call = server.watch()
    assert events_of(await read(call)) == []
    await server.register("another", namespace="other")
    await server.register("h")
    await server.refresh()
    assert events_of(await read(call)) == [("registered", "h")]


async def test_registrations_and_deregistrations_are_sent(server):
    call = server.watch()
    await read(call)
    await server.register()
    await server.refresh()
    message = await read(call)
    assert events_of(message) == [("registered", "h")]
    await server.register(profile=GPU)
    await server.refresh()
    (event,) = (await read(call)).events
    assert event.kind == HostEvent.registered
    assert list(event.host.capabilities) == ["gpu"]
    await server.engine.hosts.deregister(NAMESPACE, "h")
    await server.refresh()
    (event,) = (await read(call)).events
    assert event.kind == HostEvent.deregistered
    assert (event.host.id, list(event.host.capabilities)) == ("h", ["gpu"])
    assert event.occurred_at.ToNanoseconds() > 0


async def test_a_host_whose_stream_broke_is_lost_until_it_comes_back(server):
    async def connect():
        return (await server.engine.hosts.connect(NAMESPACE, Hello("h", "process"), lambda: None, show=live))[0]

    session = await connect()
    call = server.watch()
    await read(call)
    server.clock.now += 1
    await server.engine.hosts.disconnect(session)
    await server.refresh()
    (event,) = (await read(call)).events
    assert (event.kind, event.host.online) == (HostEvent.changed, False)
    assert event.host.lost_at.ToNanoseconds() / 1e9 == pytest.approx(server.clock.now, abs=1e-5)
    await connect()
    await server.refresh()
    (event,) = (await read(call)).events
    assert (event.host.online, event.host.HasField("lost_at")) == (True, False)


async def test_a_heartbeat_or_an_identical_registration_is_no_event(server):
    await server.register()
    call = server.watch()
    await read(call)
    server.clock.now += 1
    await server.engine.hosts.heartbeat(NAMESPACE, "h", show=live)
    await server.refresh()
    await server.register()
    await server.refresh()
    await server.engine.hosts.drain(NAMESPACE, "h", show=live)
    await server.refresh()
    (event,) = (await read(call)).events
    assert (event.kind, event.host.draining) == (HostEvent.changed, True)


async def test_a_silent_host_goes_offline_then_dead_and_a_heartbeat_revives_it(server):
    await server.register()
    call = server.watch()
    await read(call)
    states = []
    for secs in (61, 60):
        server.clock.now += secs
        await server.refresh()
        (event,) = (await read(call)).events
        states.append((event.kind, event.host.online, event.host.status))
    await server.engine.hosts.heartbeat(NAMESPACE, "h", HostStatus.BUSY, show=live)
    await server.refresh()
    (event,) = (await read(call)).events
    states.append((event.kind, event.host.online, event.host.status))
    assert states == [
        (HostEvent.changed, False, RuntimeHost.idle),
        (HostEvent.changed, False, RuntimeHost.dead),
        (HostEvent.changed, True, RuntimeHost.busy),
    ]


async def test_a_host_deregistered_and_registered_between_two_snapshots_is_registered(server):
    await server.register()
    call = server.watch()
    await read(call)
    await server.engine.hosts.deregister(NAMESPACE, "h")
    await server.register()
    await server.refresh()
    assert events_of(await read(call)) == [("registered", "h")]


async def test_all_watches_share_one_snapshot(server):
    calls = [server.watch() for _ in range(5)]
    for call in calls:
        await read(call)
    assert len(server.watches._watches) == 1
    await server.register()
    await server.refresh()
    assert {str(events_of(await read(call))) for call in calls} == {"[('registered', 'h')]"}


async def test_a_slow_watcher_gets_the_changes_since_its_last_snapshot(server):
    await server.register("a")
    call = server.watch()
    await read(call)
    (watch,) = server.watches._watches.values()
    earlier = watch.snapshot
    await server.register("b")
    await watch.refresh()
    await server.engine.hosts.deregister(NAMESPACE, "b")
    await server.engine.hosts.deregister(NAMESPACE, "a")
    await server.register("c")
    await watch.refresh()
    (message,) = watch.changes_since(earlier)
    assert events_of(runtime_host_pb2.WatchHostsResponse.FromString(message)) == [
        ("deregistered", "a"),
        ("registered", "c"),
    ]


async def test_many_hosts_come_in_messages_of_limited_size(server):
    for number in range(250):
        await server.register(f"h{number}")
    call, sizes = server.watch(), []
    while sum(sizes) < 250:
        sizes.append(len((await read(call)).events))
    assert sizes == [100, 100, 50]


async def test_the_snapshot_is_refreshed_by_itself_while_there_are_watches(start_server):
    server = await start_server(poll_secs=0.01)
    call = server.watch()
    await read(call)
    await server.register()
    assert events_of(await read(call)) == [("registered", "h")]


async def test_a_watch_without_changes_gets_empty_messages(start_server):
    server = await start_server(keepalive_secs=0.01)
    await server.register()
    call = server.watch()
    assert events_of(await read(call)) == [("current", "h")]
    for _ in range(2):
        assert events_of(await read(call)) == []


async def test_a_failed_refresh_is_logged_and_ends_no_watch(start_server, monkeypatch, log_lines):
    server = await start_server(poll_secs=0.01)
    call = server.watch()
    await read(call)
    list_hosts, failures = server.engine.hosts.list_hosts, []

    async def fail_once(*arguments, show):
        if not failures:
            failures.append(True)
            raise ZeroDivisionError
        return await list_hosts(*arguments, show=show)

    monkeypatch.setattr(server.engine.hosts, "list_hosts", fail_once)
    await server.register()
    assert events_of(await read(call)) == [("registered", "h")]
    assert failures
    assert "look_at_hosts_failed" in [line["event"] for line in log_lines]


async def test_watches_end_as_unavailable_when_the_server_shuts_down(server, refused):
    call = server.watch()
    await read(call)
    server.watches.close()
    assert (await refused(read(call))).status is grpc.StatusCode.UNAVAILABLE
    assert (await refused(read(server.watch()))).code == "unavailable"


async def test_polling_stops_with_the_last_watch(server, eventually):
    calls = [server.watch() for _ in range(2)]
    for call in calls:
        await read(call)
    (watch,) = server.watches._watches.values()
    calls[0].cancel()

    async def watchers():
        return watch.watchers

    await eventually(watchers, lambda count: count == 1)
    polling = watch._polling
    assert not polling.done()
    calls[1].cancel()
    await eventually(watchers, lambda count: count == 0)
    await asyncio.wait((polling,))
    assert polling.cancelled()
    assert server.watches._watches == {}
