"""Who may call the listener for gateways, what is believed there and nowhere else, and new certificates."""

import asyncio
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import httpx
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc, token_pb2, token_pb2_grpc
from taskyard_server.net.certificates import CertificateFiles
from taskyard_server.settings.security import AuthSettings, CertificateRule, GrantSettings
from tests.certificates import Authority, Leaf
from tests.gateway.gateways import SECS
from tests.gateway.yards import NAMESPACE, Replica, gateway_leaf, pair, replica, served_by, trusting, whose
from tests.waiting import until

pytestmark = pytest.mark.gate("several gateways, killed and cut off")

HOST = "spiffe://taskyard/host/h1"
ADMIN = "spiffe://taskyard/admin"
REPLICA = "spiffe://taskyard/gateway/b"
TOKEN = "the-admin-token-of-these-tests"
BEARER = {"authorization": f"Bearer {TOKEN}"}
SETTINGS = AuthSettings(
    required=True,
    admin_token=TOKEN,
    certificates=[CertificateRule(uri="spiffe://taskyard/*", grants=[GrantSettings(role="viewer")])],
)
SPOOFED = (
    ("x-forwarded-client-cert", f"By=x;Hash={'0' * 64};URI={ADMIN}"),
    ("x-forwarded-for", "192.0.2.1"),
    ("x-taskyard-rest", "1"),
    ("x-envoy-original-path", "/tasks/other"),
)
GET = task_pb2.GetTaskRequest(task_id="tsk_1")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("Replicas")


@pytest.fixture(scope="module")
def clients_authority() -> Authority:
    """The one of callers, which has nothing to do with that of replicas."""
    return Authority("Clients")


@pytest.fixture
def files(tmp_path: Path, clients_authority: Authority) -> CertificateFiles:
    """What a replica shows to callers, and the authority of their certificates."""
    cert, key = clients_authority.leaf().write(tmp_path, "server")
    return CertificateFiles("tls", cert, key, clients_authority.write(tmp_path, "clients"))


@pytest.fixture
async def yard(
    authority: Authority, clients_authority: Authority, files: CertificateFiles, tmp_path: Path
) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two replicas where authentication is on; `grpc` of a needs a client certificate, at `rest` it is optional."""
    async with (
        replica("a", authority, tmp_path, settings=SETTINGS, tls=files, gateway_tls=files) as a,
        replica("b", authority, tmp_path, settings=SETTINGS) as b,
    ):
        a.know(b, owners={"theirs": "b"})
        verify, base = trusting(clients_authority, tmp_path), f"https://{a.gateway.address}"
        async with httpx.AsyncClient(verify=verify, base_url=base, headers=BEARER, trust_env=False) as http:
            await served_by("b", http, "theirs")
        yield a, b


async def at_listener(
    b: Replica, authority: Authority, leaf: Leaf | None, *metadata: tuple[str, str]
) -> task_pb2.Task | grpc.StatusCode:
    """The answer to a call at the listener for gateways, or the status of its refusal."""
    pair = () if leaf is None else (leaf.key, leaf.cert)
    async with grpc.aio.secure_channel(b.listener, grpc.ssl_channel_credentials(authority.cert, *pair)) as channel:
        try:
            return await task_pb2_grpc.TaskServiceStub(channel).GetTask(GET, metadata=metadata, timeout=SECS)
        except grpc.aio.AioRpcError as error:
            return error.code()


async def test_a_gateway_is_believed_what_it_says_of_its_caller(
    yard: tuple[Replica, Replica], authority: Authority
) -> None:
    told = (("x-forwarded-client-cert", f"By=x;Hash={'0' * 64};URI={HOST}"), ("x-forwarded-for", "192.0.2.1"))
    answer = await at_listener(yard[1], authority, gateway_leaf(authority, "anything"), *told)
    assert isinstance(answer, task_pb2.Task)
    assert json.loads(answer.error)["principal"] == HOST


@pytest.mark.parametrize(
    "uris",
    [
        [],
        [HOST],
        ["spiffe://taskyard/gateway"],
        ["spiffe://taskyard/gateway/"],
        ["spiffe://taskyard/gateway/b/c"],
        ["spiffe://taskyard/gateway/.."],
        ["spiffe://taskyard/gateways/b"],
        ["spiffe://elsewhere/gateway/b"],
        [REPLICA, "spiffe://taskyard/gateway/c"],
        [REPLICA, HOST],
    ],
)
async def test_a_certificate_of_the_authority_that_is_no_gateways_is_refused(
    yard: tuple[Replica, Replica], authority: Authority, uris: list[str]
) -> None:
    answer = await at_listener(yard[1], authority, authority.leaf(uris=uris), *SPOOFED)
    assert answer == grpc.StatusCode.UNAUTHENTICATED


async def test_a_name_that_looks_like_the_uri_is_none(yard: tuple[Replica, Replica], authority: Authority) -> None:
    leaf = authority.leaf(names=[REPLICA], common_name=REPLICA)
    assert await at_listener(yard[1], authority, leaf, *SPOOFED) == grpc.StatusCode.UNAUTHENTICATED


async def test_a_token_does_not_make_a_gateway(yard: tuple[Replica, Replica], authority: Authority) -> None:
    leaf = authority.leaf(uris=[HOST])
    answer = await at_listener(yard[1], authority, leaf, ("authorization", f"Bearer {TOKEN}"))
    assert answer == grpc.StatusCode.UNAUTHENTICATED


async def test_without_a_certificate_or_with_one_of_another_authority_there_is_no_connection(
    yard: tuple[Replica, Replica], authority: Authority, clients_authority: Authority
) -> None:
    for leaf in (None, clients_authority.leaf(uris=[REPLICA])):
        assert await at_listener(yard[1], authority, leaf) == grpc.StatusCode.UNAVAILABLE


async def test_who_is_no_gateway_is_refused_before_a_message_is_read(
    yard: tuple[Replica, Replica], authority: Authority
) -> None:
    leaf = authority.leaf(uris=[HOST])
    credentials = grpc.ssl_channel_credentials(authority.cert, leaf.key, leaf.cert)
    async with grpc.aio.secure_channel(yard[1].listener, credentials) as channel, asyncio.timeout(SECS):
        # A unary method, called with a stream that never says anything.
        call = channel.stream_unary("/taskyard.v1.TaskService/GetTask")()
        assert await call.code() == grpc.StatusCode.UNAUTHENTICATED
        assert "gateway" in await call.details()


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check", "/grpc.channelz.v1.Channelz/GetServers"])
async def test_nothing_but_calls_of_taskyard_is_served_there(
    yard: tuple[Replica, Replica], authority: Authority, method: str
) -> None:
    leaf = gateway_leaf(authority, "a")
    credentials = grpc.ssl_channel_credentials(authority.cert, leaf.key, leaf.cert)
    async with grpc.aio.secure_channel(yard[1].listener, credentials) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(method)(b"", timeout=SECS)
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("namespace", ["theirs", "ours"])
async def test_a_certificate_is_passed_on_and_no_header_of_a_caller_is(
    yard: tuple[Replica, Replica], clients_authority: Authority, tmp_path: Path, namespace: str
) -> None:
    a, _ = yard
    leaf = clients_authority.leaf(uris=[HOST])
    owner = "b" if namespace == "theirs" else "a"
    for address in (a.gateway.address, a.gateway.grpc_address):
        context = trusting(clients_authority, tmp_path, leaf)
        async with httpx.AsyncClient(verify=context, timeout=SECS, trust_env=False) as http:
            sent = {NAMESPACE: namespace, **dict(SPOOFED)}
            task = (await http.get(f"https://{address}/tasks/tsk_1", headers=sent)).json()
        seen = json.loads(task["error"])
        assert (task["taskId"], seen["principal"], seen["rest"]) == (owner, HOST, True)
        metadata = seen["metadata"]
        assert [value for key, value in metadata if key == "x-forwarded-for"] == ["127.0.0.1"]
        assert [value for key, value in metadata if key == "x-envoy-original-path"] == ["/tasks/tsk_1"]
        assert ADMIN not in task["error"]
        credentials = grpc.ssl_channel_credentials(clients_authority.cert, leaf.key, leaf.cert)
        async with grpc.aio.secure_channel(address, credentials) as channel:
            stub = task_pb2_grpc.TaskServiceStub(channel)
            seen = json.loads((await stub.GetTask(GET, metadata=((NAMESPACE, namespace), *SPOOFED))).error)
        assert (seen["principal"], seen["rest"]) == (HOST, False)
        assert ADMIN not in json.dumps(seen)
        assert "192.0.2.1" not in json.dumps(seen)


@pytest.mark.parametrize("uri", [REPLICA, "spiffe://taskyard/gateway/a"])
async def test_the_certificate_of_a_gateway_is_nobody_at_the_ports_of_callers(
    yard: tuple[Replica, Replica], clients_authority: Authority, tmp_path: Path, uri: str
) -> None:
    context = trusting(clients_authority, tmp_path, clients_authority.leaf(uris=[uri]))
    async with httpx.AsyncClient(verify=context, timeout=SECS, trust_env=False) as http:
        for address in (yard[0].gateway.address, yard[0].gateway.grpc_address):
            for namespace in ("ours", "theirs"):
                sent = {NAMESPACE: namespace, **dict(SPOOFED)}
                assert (await http.get(f"https://{address}/tasks/tsk_1", headers=sent)).status_code == 401


async def test_grpc_needs_a_client_certificate_where_it_has_authorities(
    yard: tuple[Replica, Replica], clients_authority: Authority, tmp_path: Path
) -> None:
    a, _ = yard
    async with httpx.AsyncClient(verify=trusting(clients_authority, tmp_path), timeout=SECS, trust_env=False) as http:
        assert (await http.get(f"https://{a.gateway.address}/tasks/x", headers=BEARER)).status_code == 200
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            await http.get(f"https://{a.gateway.grpc_address}/tasks/x", headers=BEARER)


async def test_a_gateway_calls_nobody_who_is_no_replica(authority: Authority, tmp_path: Path) -> None:
    async with (
        replica("a", authority, tmp_path) as a,
        replica("b", authority, tmp_path, leaf=authority.leaf(uris=[HOST])) as impostor,
        replica("c", Authority("Another"), tmp_path) as stranger,
        replica("d", authority, tmp_path) as d,
        a.client() as http,
    ):
        owners = {"b": "b", "c": "c", "d": "d"}
        a.know(impostor, stranger, d, owners=owners)
        await a.carries("d", to="d")
        # They are passed over, for one that is a replica.
        assert [await whose(http, name) for name in owners] == ["a", "a", "d"]


async def test_new_certificates_are_taken_without_losing_a_call(tmp_path: Path) -> None:
    """A rotation: a new authority is trusted beside the old one, then its certificates take their places."""
    async with pair(tmp_path) as (a, b), a.client() as http:
        failed, stop = [], asyncio.Event()

        async def load() -> None:
            while not stop.is_set():
                answer = await http.get("/tasks/x", headers={NAMESPACE: "theirs"})
                if answer.status_code != 200:
                    failed.append(answer.text)

        new = Authority("New")
        callers = [asyncio.create_task(load()) for _ in range(4)]
        both = {each: each.files.client_ca.read_bytes() + new.cert for each in (a, b) if each.files.client_ca}
        for each, cas in both.items():
            assert each.files.client_ca is not None
            each.files.client_ca.write_bytes(cas)
        await taken(a, b)
        for each in (a, b):
            gateway_leaf(new, each.name).write(each.folder, each.name)
        await taken(a, b)
        # The next connections are made with them.
        pid = a.gateway.pid
        stop.set()
        await asyncio.gather(*callers)
        assert failed == []
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until_served(a)
        old = Authority("Replicas").leaf(uris=[REPLICA])
        assert await at_listener(b, new, old) == grpc.StatusCode.UNAVAILABLE
        assert isinstance(await at_listener(b, new, gateway_leaf(new, "a")), task_pb2.Task)


async def taken(*replicas: Replica) -> None:
    """Wait until the files that are there now are in force."""

    def are_in_force(each: Replica) -> bool:
        current, files = each.files.current, each.files
        assert files.client_ca is not None
        return (current.cert, current.client_ca) == (files.cert.read_bytes(), files.client_ca.read_bytes())

    await until(lambda: all(map(are_in_force, replicas)))


async def until_served(a: Replica) -> None:
    """Wait until calls are carried again."""
    async with a.client() as http:
        await until(lambda: whose(http, "theirs"), lambda name: name == "b", despite=(httpx.TransportError,))


async def test_an_unauthenticated_call_is_refused_where_it_is_served(yard: tuple[Replica, Replica]) -> None:
    a, b = yard
    b.know(a, owners={"theirs": "a"})
    async with b.channel() as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await task_pb2_grpc.TaskServiceStub(channel).GetTask(GET, timeout=SECS)
        assert refused.value.code() == grpc.StatusCode.UNAUTHENTICATED
        who = token_pb2_grpc.TokenServiceStub(channel).WhoAmI(
            token_pb2.WhoAmIRequest(), metadata=(("authorization", f"Bearer {TOKEN}"),), timeout=SECS
        )
        assert (await who).name == "b"
