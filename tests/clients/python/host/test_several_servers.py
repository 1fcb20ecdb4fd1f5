"""Hosts of servers that do the same work: a hand-over costs them little, and no work."""

import logging

import pytest

from taskyard.errors import Internal, NotOwner, Unavailable
from taskyard.host import Host
from taskyard.hosting import connection
from taskyard.streams.reconnecting import (
    MAX_DELAY_AT_FIRST_SECS,
    MAX_DELAY_SECS,
    MAX_DELAY_WITH_LEASES_SECS,
    Reconnecting,
)
from tests.clients.python.host.gate import Gate
from tests.clients.python.host.scripted_server import ScriptedServer
from tests.ports import free_port
from tests.waiting import until


@pytest.fixture
async def other():
    """A second server."""
    server = ScriptedServer()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def in_order(monkeypatch):
    """Chance has the servers tried in the order of their addresses."""
    monkeypatch.setattr("random.sample", lambda items, count: list(items)[:count])


def host_of(*servers, **options):
    addresses = [each if isinstance(each, str) else f"127.0.0.1:{each.port}" for each in servers]
    return Host(addresses, "host-1", **{"machine_figures": False, **options})


def held(hello):
    return [(lease.task_id, lease.fencing_token) for lease in hello.leases]


async def begin(server):
    stream = await server.welcomed()
    stream.assign("a")
    assert await stream.reports(1) == ["a started"]
    return stream


async def test_a_host_that_is_told_to_reconnect_comes_at_once_with_its_leases_and_works_on(server, make_host, work):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await begin(server)
    stream.drain(reconnect=True)
    stream.abort("not_owner", "another replica has it")
    await stream.ended.wait()
    again = await server.stream()
    assert held(again.hello) == [("a", 1)]
    assert not gate.cancelled.is_set()
    again.welcome(kept=again.hello.leases)
    gate.open.set()
    assert await again.reports(1) == ["a completed"]


async def test_a_hand_over_is_no_trouble_to_log(server, make_host, work, caplog):
    caplog.set_level(logging.INFO, logger="taskyard")
    host = make_host()
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.drain(reconnect=True)
    stream.abort("not_owner", "another replica has it")
    again = await server.stream()
    again.abort("not_owner", "another replica has it")
    await (await server.welcomed()).until_credit(10)
    assert "host host-1 goes where its namespace is served: another replica has it" in caplog.messages
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("code", ["not_owner", "unavailable"])
async def test_a_host_tries_again_and_again_until_a_hand_over_is_done(server, make_host, work, code):
    host, gate = make_host(), Gate()
    host.action("click")(gate)
    work(host)
    stream = await begin(server)
    server.refuse = (code, "wait")
    stream.drain(reconnect=True)
    stream.abort(code, "another replica has it")
    await stream.ended.wait()
    await until(lambda: len(server.hellos) >= 4)
    server.refuse = None
    again = await server.stream()
    assert held(again.hello) == [("a", 1)]


@pytest.mark.usefixtures("in_order")
async def test_a_host_whose_server_is_killed_goes_on_at_another(server, other, work):
    host, gate = host_of(server, other), Gate()
    host.action("click")(gate)
    work(host)
    await begin(server)
    await server.stop()
    stream = await other.stream()
    assert held(stream.hello) == [("a", 1)]
    stream.welcome(kept=stream.hello.leases)
    gate.open.set()
    # Whether the answer to the first report left before the kill is chance; without it the report is sent again.
    reports = await stream.reports(1)
    if reports == ["a started"]:
        reports = await stream.reports(1)
    assert reports == ["a completed"]


@pytest.mark.usefixtures("in_order")
async def test_a_host_stays_at_its_server_over_a_hand_over_and_leaves_one_that_is_unavailable(server, other, work):
    host = host_of(server, other)
    host.action("click")(lambda _: None)
    work(host)
    stream = await server.welcomed()
    stream.drain(reconnect=True)
    stream.abort("unavailable", "another replica has it")
    again = await server.welcomed()
    again.abort("unavailable", "it is down")
    await other.welcomed()


@pytest.mark.usefixtures("in_order")
async def test_a_host_passes_over_servers_that_are_dead_or_hang(server, other, work, monkeypatch):
    monkeypatch.setattr(connection, "WELCOME_BESIDE_OTHERS_SECS", 0.3)
    monkeypatch.setattr(connection, "WELCOME_SECS", 3_600)
    host = host_of(f"127.0.0.1:{free_port()}", server, other)
    host.action("click")(lambda _: None)
    work(host)
    await server.stream()  # It says nothing.
    await (await other.welcomed()).until_credit(10)


async def test_a_host_says_which_of_the_servers_it_works_for(other, work, caplog):
    caplog.set_level(logging.INFO, logger="taskyard")
    dead = f"127.0.0.1:{free_port()}"
    host = host_of(dead, other)
    host.action("click")(lambda _: None)
    work(host)
    await (await other.welcomed()).until_credit(10)
    assert f"host host-1 connected to 127.0.0.1:{other.port} (session s)" in caplog.messages


class TestDelays:
    """Between the streams of a host."""

    def delays(self, error, count, was_told=False, holds_leases=True, lived=0.0):
        """The delays between streams that end so, each as soon as it has begun."""
        reconnecting, now = Reconnecting(), 100.0
        for _ in range(count):
            delay = reconnecting.delay(error, was_told, holds_leases, now - lived, now)
            yield now - 100.0, delay
            now += delay

    def test_who_is_told_to_reconnect_does_so_at_once_but_not_again_and_again(self):
        delays = list(self.delays(Unavailable("moved"), 10, was_told=True))
        assert delays[0] == (0.0, 0.0)
        assert all(0.05 <= delay <= 0.1 for _, delay in delays[1:])

    def test_who_was_told_long_ago_comes_at_once_again(self):
        reconnecting = Reconnecting()
        moved = NotOwner("moved")
        assert [reconnecting.delay(moved, True, True, now - 1.5, now) for now in (10.0, 12.0, 14.0)] == [0.0] * 3

    @pytest.mark.parametrize("error", [NotOwner("moved"), Unavailable("down")])
    def test_for_two_seconds_they_are_short_and_then_they_grow(self, error):
        delays = list(self.delays(error, 100))
        assert delays[0][1] <= 0.1
        assert all(0.05 <= delay <= 0.1 for at, delay in delays[1:] if at < 2)
        assert max(delay for at, delay in delays if at > 10) > MAX_DELAY_WITH_LEASES_SECS / 2

    def test_other_errors_have_them_grow_at_once(self):
        assert max(delay for _, delay in self.delays(Internal("?"), 20)) > 0.2

    def test_without_leases_they_grow_longer(self):
        with_leases = max(delay for _, delay in self.delays(Unavailable("down"), 200))
        without = max(delay for _, delay in self.delays(Unavailable("down"), 200, holds_leases=False))
        assert with_leases <= MAX_DELAY_WITH_LEASES_SECS < MAX_DELAY_AT_FIRST_SECS < without <= MAX_DELAY_SECS

    def test_a_host_without_leases_is_soon_back_after_a_failover_too(self):
        delays = self.delays(Unavailable("down"), 200, holds_leases=False)
        assert max(delay for at, delay in delays if at < 15) <= MAX_DELAY_AT_FIRST_SECS
