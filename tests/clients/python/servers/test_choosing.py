"""Which of several servers is called: any that answers, by chance, and the same one as long as it works."""

import asyncio

import grpc
import pytest

from taskyard import DeadlineExceeded, Host, SyncClient, TaskState, Unavailable
from taskyard.connection import servers
from taskyard.connection.credentials import Credentials
from tests.certificates import Authority
from tests.waiting import until


async def test_no_call_fails_because_servers_are_dead(start, open_client, dead):
    alive = await start()
    for _ in range(10):
        client = open_client(dead, alive.address, "127.0.0.1:1", patience=0)
        assert (await client.get("a")).id == "a"
        assert await client.resume("a") is TaskState.QUEUED


@pytest.mark.usefixtures("in_order")
async def test_a_server_that_takes_connections_and_says_nothing_is_passed_over(start, open_client, silent, monkeypatch):
    alive = await start()
    monkeypatch.setattr(servers, "CONNECT_SECS", 3_600)
    client = open_client(silent, alive.address, patience=0)
    assert (await client.get("a")).id == "a"


async def test_clients_spread_over_the_servers(start, open_client):
    replicas = [await start() for _ in range(3)]
    addresses = [replica.address for replica in replicas]
    for _ in range(30):
        await open_client(*addresses).get("a")
    assert all(len(replica.calls) >= 2 for replica in replicas)


async def test_calls_and_streams_share_the_connection_that_works(start, open_client, connected_to):
    replicas = [await start() for _ in range(3)]
    client = open_client(*[replica.address for replica in replicas])
    watch = client.watch()
    await asyncio.gather(*(client.get("a") for _ in range(20)), client.submit("click"), anext(watch))
    await client.get("a")
    assert sorted(len(replica.calls) for replica in replicas) == [0, 0, 23]
    assert len(connected_to) == 1
    await watch.aclose()


@pytest.mark.usefixtures("in_order")
async def test_a_server_that_comes_back_is_not_returned_to_while_another_works(start, open_client):
    first, second = await start(), await start()
    client = open_client(first.address, second.address)
    await client.get("a")
    await first.stop()
    await client.get("a")
    await first.start(first.port)
    for _ in range(5):
        await client.get("a")
    assert (len(first.calls), len(second.calls)) == (1, 6)


@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("is_avoided", [True, False])
async def test_a_server_that_failed_is_avoided_for_a_while(start, dead, connected_to, monkeypatch, is_avoided):
    monkeypatch.setattr(servers, "AVOIDED_SECS", 3_600 if is_avoided else 0)
    alive = (await start()).address
    both = servers.Servers(Credentials(f"{dead},{alive}"))
    for _ in range(2):
        assert (await both.pick()).address == alive
        await both.renew()
    assert connected_to == ([dead, alive, alive] if is_avoided else [dead, alive, dead, alive])
    await both.close()


@pytest.mark.usefixtures("in_order")
async def test_after_the_loss_of_a_server_not_even_a_call_that_must_not_be_repeated_fails(start, open_client):
    first, second = await start(), await start()
    client = open_client(first.address, second.address, patience=0)
    await client.resume("a")
    await first.stop()
    assert await client.resume("a") is TaskState.QUEUED
    assert second.calls == ["ResumeTask"]


@pytest.mark.usefixtures("in_order")
async def test_a_safe_call_goes_to_another_server_where_one_says_that_it_is_unavailable(start, open_client):
    first, second = await start(), await start()
    first.is_down = True
    client = open_client(first.address, second.address)
    assert (await client.get("a")).id == "a"
    assert (await client.submit("click")).id == "click"
    assert (first.calls, second.calls) == (["GetTask"], ["GetTask", "SubmitTasks"])


@pytest.mark.usefixtures("in_order")
async def test_a_safe_call_goes_to_another_server_where_one_hangs(start, open_client):
    first, second = await start(), await start()
    first.hangs = True
    client = open_client(first.address, second.address, timeout=2)
    assert (await client.get("a")).id == "a"
    assert (await client.wait("a")).id == "a"
    assert (first.calls, second.calls) == (["GetTask"], ["GetTask", "WaitTask"])


@pytest.mark.usefixtures("in_order")
async def test_a_submission_goes_to_another_server_where_one_hangs(start, open_client):
    first, second = await start(), await start()
    first.hangs = True
    client = open_client(first.address, second.address, patience=1)
    assert (await client.submit("click")).id == "click"
    assert (first.calls, second.calls) == (["SubmitTasks"], ["SubmitTasks"])


@pytest.mark.usefixtures("in_order")
async def test_where_all_servers_hang_a_call_ends_by_its_deadline(start, open_client):
    replicas = [await start() for _ in range(2)]
    for replica in replicas:
        replica.hangs = True
    client = open_client(*[replica.address for replica in replicas], timeout=0.4)
    for call in (client.get("a"), client.resume("a")):
        with pytest.raises(DeadlineExceeded):
            await call


async def test_where_no_server_speaks_a_call_ends_by_its_deadline(open_client, silent):
    client = open_client(silent, silent.replace("127.0.0.1", "localhost"), timeout=0.3, patience=0)
    with pytest.raises((DeadlineExceeded, Unavailable)):
        await client.resume("a")


async def test_where_all_are_dead_the_error_names_all_that_were_tried(open_client, dead):
    client = open_client(dead, "127.0.0.1:1", patience=0.8)
    for call in (client.get("a"), client.resume("a"), client.submit("click"), anext(client.watch())):
        with pytest.raises(Unavailable) as raised:
            await call
        reason = raised.value.reason.removesuffix(", tried for 0.8 s")
        assert reason == f"no server answers at any of {dead}, 127.0.0.1:1"


async def test_servers_that_were_dead_are_found_when_they_come_back(start, open_client, dead):
    client = open_client(dead, "127.0.0.1:1", patience=10)
    getting = asyncio.create_task(client.get("a"))
    await asyncio.sleep(0.3)
    await start(port=int(dead.rpartition(":")[2]))
    assert (await getting).id == "a"


async def test_a_watch_goes_on_at_another_server_with_its_cursor(start, open_client):
    replicas = [await start() for _ in range(2)]
    client = open_client(*[replica.address for replica in replicas])
    watch = client.watch()
    await anext(watch)
    (first,) = [replica for replica in replicas if replica.calls]
    (second,) = [replica for replica in replicas if not replica.calls]
    await first.stop()
    assert (await anext(watch)).task.id == f"tsk_{second.port}"
    assert second.cursors == [f"c{first.port}"]
    await watch.aclose()


@pytest.mark.usefixtures("in_order")
async def test_a_stream_lives_on_when_calls_go_to_another_server(start, open_client):
    first, second = await start(), await start()
    client = open_client(first.address, second.address)
    watch = client.watch()
    await anext(watch)
    first.is_down = True
    await client.get("a")
    assert second.calls == ["GetTask"]
    first.more.set()
    assert (await anext(watch)).task.id == f"tsk_{first.port}"
    await watch.aclose()


async def test_a_stream_lives_on_when_a_new_connection_is_tried(start, open_client):
    replica = await start()
    client = open_client(replica.address, patience=0)
    watch = client.watch()
    await anext(watch)
    replica.is_down = True
    for _ in range(25):
        with pytest.raises(Unavailable):
            await client.resume("a")
    assert len(client._servers._left) == 1
    replica.more.set()
    assert (await anext(watch)).task.id == f"tsk_{replica.port}"
    await watch.aclose()
    replica.is_down = False
    await client.resume("a")
    assert client._servers._left == []


async def test_each_server_proves_its_own_name(start, open_client, tmp_path):
    authority = Authority()

    async def named(**subject):
        leaf = authority.leaf(**{"names": (), "addresses": (), **subject})
        return await start(credentials=grpc.ssl_server_credentials([(leaf.key, leaf.cert)]))

    one, other = await named(names=["localhost"]), await named(addresses=["127.0.0.1"])
    elsewhere = await named(names=["elsewhere"])
    addresses = (f"https://localhost:{elsewhere.port}", f"localhost:{one.port}", other.address)
    for _ in range(20):
        client = open_client(*addresses, ca=authority.write(tmp_path), patience=0)
        assert (await client.get("a")).id == "a"
    assert one.calls
    assert other.calls
    assert not elsewhere.calls


async def test_an_error_of_certificates_says_which_servers_were_tried(start, open_client, tmp_path):
    leaf = Authority().leaf()
    address = (await start(credentials=grpc.ssl_server_credentials([(leaf.key, leaf.cert)]))).address
    other = Authority().write(tmp_path)
    client = open_client(address, address.replace("127.0.0.1", "localhost"), ca=other, patience=0)
    with pytest.raises(Unavailable, match=r"is not signed by .* \(tried: 127.0.0.1:\d+, localhost:\d+\)$"):
        await client.resume("a")


async def test_a_closed_client_connects_to_nobody(start, open_client):
    replica = await start()
    client = open_client(replica.address, "127.0.0.1:1")
    watch = client.watch()
    await anext(watch)
    await client.close()
    assert [each for each in client._servers._all if each.state is not grpc.ChannelConnectivity.IDLE] == []


async def test_the_blocking_client_passes_over_a_dead_server_too(start, dead):
    alive = await start()

    def call():
        with SyncClient([dead, alive.address], patience=0) as client:
            return client.get("a").id, client.resume("a")

    assert await asyncio.to_thread(call) == ("a", TaskState.QUEUED)


@pytest.mark.parametrize("kind", [list, tuple, ",".join, ", ".join])
async def test_addresses_come_in_one_text_or_in_several(start, dead, kind):
    alive = await start()
    for address in (kind([dead, alive.address]), kind([f"dns:///{alive.address}", dead])):
        host = Host(address, "host-1")
        assert len(host._options.credentials.addresses) == 2


@pytest.mark.usefixtures("in_order")
async def test_a_call_that_is_cancelled_while_a_server_is_sought_leaves_others_alone(open_client, silent, start):
    alive = await start()
    client = open_client(silent, alive.address)
    one, other = asyncio.create_task(client.get("a")), asyncio.create_task(client.get("b"))
    await until(lambda: client._servers._connecting is not None)
    one.cancel()
    assert (await other).id == "b"
    with pytest.raises(asyncio.CancelledError):
        await one


async def test_behind_one_address_another_server_is_found_by_a_new_connection(start, open_client):
    """A balancer gives each connection to another server, as that of a cluster does."""
    replicas = [await start(), await start()]
    replicas[0].is_down = True
    given = []

    async def balance(reader, writer):
        replica = replicas[len(given) % 2]
        given.append(replica)
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", replica.port)
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    balancer = await asyncio.start_server(balance, "127.0.0.1", 0)
    client = open_client(f"127.0.0.1:{balancer.sockets[0].getsockname()[1]}")
    assert (await client.get("a")).id == "a"
    assert (await client.submit("click")).id == "click"
    assert given == replicas
    balancer.close()


async def pump(reader, writer):
    """Carry what comes until it ends."""
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.close()
