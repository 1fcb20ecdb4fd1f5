"""Calls are carried to the replica that owns their namespace, whatever kind they are and at which port they come."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import grpc
import httpx
import pytest
import pytest_asyncio

from taskyard.v1 import (
    health_pb2,
    health_pb2_grpc,
    runtime_host_pb2,
    runtime_host_pb2_grpc,
    sign_in_pb2,
    sign_in_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
    token_pb2,
    token_pb2_grpc,
)
from taskyard_server.core.errors import NotOwner
from taskyard_server.gateway.envoy_config import TRIES
from tests.gateway.gateways import SECS
from tests.gateway.test_grpc_web import Frames, framed
from tests.gateway.yards import NAMESPACE, Replica, admit, pair, whose
from tests.waiting import LIMIT_SECS, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "https://app.example"
PORTS = ["rest", "grpc"]
THEIRS = ((NAMESPACE, "theirs"),)
GET = task_pb2.GetTaskRequest(task_id="tsk_1")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def yard(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Replica, Replica]]:
    async with pair(tmp_path_factory.mktemp("yard"), origins=[PAGE]) as made:
        yield made


@pytest.fixture
def a(yard: tuple[Replica, Replica]) -> Replica:
    return yard[0]


@pytest.fixture
def b(yard: tuple[Replica, Replica]) -> Replica:
    return yard[1]


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(("namespace", "owner"), [("theirs", "b"), ("ours", "a"), ("default", "a")])
async def test_a_call_gets_to_the_owner_of_its_namespace(a: Replica, port: str, namespace: str, owner: str) -> None:
    async with a.client(port) as http, a.channel(port) as channel:
        assert await whose(http, namespace) == owner
        posted = await http.post("/tasks", json={"agentId": "x"}, headers={NAMESPACE: namespace})
        assert posted.json()["taskId"] == owner
        stub = task_pb2_grpc.TaskServiceStub(channel)
        assert (await stub.GetTask(GET, metadata=((NAMESPACE, namespace),), timeout=SECS)).task_id == owner


@pytest.mark.parametrize("port", PORTS)
async def test_a_call_without_a_namespace_is_one_for_the_default_one(a: Replica, b: Replica, port: str) -> None:
    a.know(b, owners={"default": "b", "theirs": "b"})
    await a.carries("default", to="b")
    async with a.client(port) as http, a.channel(port) as channel:
        assert (await http.get("/tasks/tsk_1")).json()["taskId"] == "b"
        assert (await task_pb2_grpc.TaskServiceStub(channel).GetTask(GET, timeout=SECS)).task_id == "b"
    a.know(b, owners={"theirs": "b"})
    await a.carries("default", to="a")


@pytest.mark.parametrize("port", PORTS)
async def test_streams_are_carried(a: Replica, port: str) -> None:
    async with a.client(port) as http, a.channel(port) as channel, asyncio.timeout(SECS):
        watch = task_pb2_grpc.TaskServiceStub(channel).WatchTasks(task_pb2.WatchTasksRequest(), metadata=THEIRS)
        assert (await watch.read()).cursor == "b-0"
        watch.cancel()
        host = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel).Connect(metadata=THEIRS)
        for _ in range(3):
            await host.write(runtime_host_pb2.ConnectRequest())
            assert (await host.read()).welcome.session == "b"
        await host.done_writing()
        assert await host.read() is grpc.aio.EOF
        async with http.stream("GET", "/tasks:watch", headers={NAMESPACE: "theirs"}) as answer:
            assert '"cursor":"b-0"' in await anext(answer.aiter_lines())


@pytest.mark.parametrize("port", PORTS)
async def test_grpc_web_is_carried(a: Replica, port: str) -> None:
    headers = {NAMESPACE: "theirs", "content-type": "application/grpc-web+proto", "x-grpc-web": "1", "origin": PAGE}
    async with a.client(port) as http:
        answer = await http.post("/taskyard.v1.TaskService/GetTask", content=framed(GET), headers=headers)
    (_, message), *_ = Frames(text=False).take(answer.content)
    assert task_pb2.Task.FromString(message).task_id == "b"
    assert answer.headers["access-control-allow-origin"] == PAGE


async def test_what_is_about_a_server_is_never_carried(a: Replica) -> None:
    async with a.client(taskyard_namespace="theirs") as http, a.channel() as channel:
        assert (await http.get("/whoami")).json()["name"] == "a"
        assert (await http.get("/whoami?x")).status_code == 400
        assert (await http.get("/sign-in")).json()["issuers"][0]["name"] == "a"
        assert (await http.get("/readyz")).json()["status"] == "a"
        assert (await http.get("/openapi.json")).json()["openapi"].startswith("3.1.")
        health = health_pb2_grpc.HealthServiceStub(channel)
        assert (
            await health.GetReadiness(health_pb2.GetReadinessRequest(), metadata=THEIRS, timeout=SECS)
        ).status == "a"
        signing_in = sign_in_pb2_grpc.SignInServiceStub(channel)
        ways = await signing_in.GetSignIn(sign_in_pb2.GetSignInRequest(), metadata=THEIRS, timeout=SECS)
        assert ways.issuers[0].name == "a"
        stub = token_pb2_grpc.TokenServiceStub(channel)
        assert (await stub.WhoAmI(token_pb2.WhoAmIRequest(), metadata=THEIRS, timeout=SECS)).name == "a"


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(
    "namespaces", [["theirs", "theirs"], ["theirs,theirs"], ["theirs", "ours"], ["ours", "theirs"], [""], ["the irs"]]
)
async def test_a_call_with_two_namespaces_or_a_malformed_one_is_refused(
    a: Replica, port: str, namespaces: list[str]
) -> None:
    async with a.client(port) as http:
        answer = await http.get("/tasks/tsk_1", headers=[(NAMESPACE, each) for each in namespaces])
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    async with a.channel(port) as channel:
        stub = task_pb2_grpc.TaskServiceStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetTask(GET, metadata=tuple((NAMESPACE, each) for each in namespaces), timeout=SECS)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_names_may_hold_what_patterns_may(a: Replica, b: Replica) -> None:
    names = ["a.b", "a-b", "a_b", "A", "0", "x" * 63, "a.-_b"]
    a.know(b, owners=dict.fromkeys(names, "b") | {"theirs": "b"})
    await a.carries("a.b", to="b")
    async with a.client() as http:
        assert [await whose(http, name) for name in names] == ["b"] * len(names)
        assert [await whose(http, name) for name in ("axb", "a.b.", "a", "x" * 62)] == ["a"] * 4
    a.know(b, owners={"theirs": "b"})


@pytest.mark.parametrize("port", PORTS)
async def test_nobody_says_where_a_call_goes(a: Replica, port: str) -> None:
    async with a.client(port) as http:
        for header in ({"x-taskyard-cluster": "replica-b"}, {"x-envoy-original-path": "/namespaces/theirs"}):
            assert await whose(http, "ours", **header) == "a"
            assert await whose(http, "theirs", **(header | {"x-envoy-original-path": "/healthz"})) == "b"


CALLS = [
    ("GET", "/tasks/tsk_1", None),
    ("POST", "/tasks", {"agentId": "x"}),
    ("GET", "/namespaces/theirs", None),
]


@pytest.mark.parametrize("port", PORTS)
@pytest.mark.parametrize(("verb", "path", "body"), CALLS)
async def test_a_call_that_comes_after_its_namespace_was_handed_on_is_repeated_at_the_next_owner(
    a: Replica, b: Replica, port: str, verb: str, path: str, body: dict[str, str] | None
) -> None:
    def hand_on() -> None:
        a.know(b, owners={})
        raise NotOwner("a")

    b.tasks.refuse = hand_on
    try:
        async with a.client(port) as http:
            answer = await http.request(verb, path, json=body, headers={NAMESPACE: "theirs"})
        assert (answer.status_code // 100, '"a"' in answer.text) == (2, True), answer.text
    finally:
        b.tasks.refuse = admit
        a.know(b, owners={"theirs": "b"})
        await a.carries("theirs", to="b")


async def test_a_call_whose_owner_nobody_knows_is_refused_after_some_tries(a: Replica, b: Replica) -> None:
    tries = []

    def refuse() -> None:
        tries.append(1)
        raise NotOwner

    a.tasks.refuse = b.tasks.refuse = refuse
    try:
        async with a.client() as http:
            answer = await http.get("/tasks/tsk_1", headers={NAMESPACE: "theirs"})
        assert (answer.status_code, answer.json()["code"], len(tries)) == (503, "unavailable", TRIES)
        assert "x-not-owner" not in answer.headers
    finally:
        a.tasks.refuse = b.tasks.refuse = admit


async def test_streams_go_on_when_their_namespace_moves_and_when_their_replica_is_gone(a: Replica, b: Replica) -> None:
    async with a.channel() as channel, asyncio.timeout(SECS):
        stub = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        host = stub.Connect(metadata=THEIRS)

        async def answers() -> str:
            await host.write(runtime_host_pb2.ConnectRequest())
            return str((await host.read()).welcome.session)

        assert await answers() == "b"
        a.know(b, owners={})
        await a.carries("theirs", to="a")
        assert await answers() == "b"
        a.know(owners={"theirs": "b"})
        await a.carries("theirs", to="a")
        assert await answers() == "b"
        a.know(b, owners={"theirs": "b"})
        await a.carries("theirs", to="b")
        assert await answers() == "b"
        host.cancel()


async def test_the_table_and_the_replicas_outlive_the_gateways_process(a: Replica) -> None:
    pid = a.gateway.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    async with a.client() as http:
        assert await until(lambda: whose(http, "theirs"), despite=(httpx.TransportError,)) == "b"
    assert a.gateway.pid != pid


@pytest.mark.parametrize(
    ("verb", "path", "headers", "body"),
    [
        ("HEAD", "/tasks/tsk_1", {}, b""),
        ("HEAD", "/tasks:watch", {}, b""),
        ("OPTIONS", "/tasks", {}, b""),
        ("OPTIONS", "/tasks", {"origin": PAGE, "access-control-request-method": "POST"}, b""),
        ("OPTIONS", "/tasks", {"origin": "https://evil.example", "access-control-request-method": "POST"}, b""),
        ("POST", "/tasks", {"origin": "https://evil.example"}, b"{}"),
        ("POST", "/tasks", {"origin": PAGE, "content-type": "application/json"}, b'{"agentId":"x"}'),
        ("POST", "/tasks", {}, b" " * (1 << 20) + b"{}"),
        ("POST", "/tasks", {}, b'{"agentId":"x","agentId":"y"}'),
        ("GET", "/nowhere", {}, b""),
        ("PUT", "/tasks/tsk_1", {}, b""),
        ("GET", "/tasks/tsk_1", {"host": "evil.example"}, b""),
        ("GET", "/tasks/tsk_1?x=y", {}, b""),
        ("GET", "/tasks/tsk_1", {"x-long": "x" * 61_000}, b""),
        ("GET", "/openapi.json", {}, b""),
    ],
)
async def test_both_ports_answer_alike(a: Replica, verb: str, path: str, headers: dict[str, str], body: bytes) -> None:
    answers = []
    for port in PORTS:
        for namespace in ("ours", "theirs"):
            async with a.client(port) as http:
                # The limits of a server hold from when its client has acknowledged them.
                await whose(http, namespace)
                answer = await http.request(verb, path, headers={NAMESPACE: namespace, **headers}, content=body)
            del answer.headers["date"]
            content = b"" if answer.status_code in (200, 202) and "tasks" in path else answer.content
            if answer.status_code == 200:
                answer.headers.pop("content-length", None)
            answers.append((answer.status_code, dict(answer.headers), content))
    assert answers[1:] == answers[:1] * 3


async def test_connect_is_refused_at_once(a: Replica) -> None:
    for address in (a.gateway.address, a.gateway.grpc_address):
        host, _, port = address.rpartition(":")
        for authority in (address, "example.com:443"):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
            async with asyncio.timeout(LIMIT_SECS):
                assert await reader.readline() == b"HTTP/1.1 403 Forbidden\r\n"
            writer.close()


async def test_a_table_of_10000_namespaces_is_in_force(a: Replica, b: Replica) -> None:
    owners = {f"ns-{number}": "b" for number in range(10_000)}
    for namespace in ("ns-9999", "one-more"):
        owners[namespace] = "b"
        a.gateway.carrier.take_owners(owners)
        await a.carries(namespace, to="b")
    a.know(b, owners={"theirs": "b"})
    await a.carries("theirs", to="b")
