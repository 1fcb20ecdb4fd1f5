"""Yards of gateways that carry calls to each other's servers: real Envoys, and servers that say who they are."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx

from taskyard.v1 import (
    health_pb2,
    health_pb2_grpc,
    namespace_pb2,
    namespace_pb2_grpc,
    runtime_host_pb2,
    runtime_host_pb2_grpc,
    sign_in_pb2,
    sign_in_pb2_grpc,
    task_pb2,
    task_pb2_grpc,
    token_pb2,
    token_pb2_grpc,
)
from taskyard_server.app.listening import Servers
from taskyard_server.core.errors import NotOwner
from taskyard_server.gateway.gateway import Gateway, Yard
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.callers import current_call
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.net.certificates import CertificateFiles
from taskyard_server.settings.security import AuthSettings
from tests.certificates import Authority, Leaf
from tests.gateway.gateways import SECS
from tests.ports import free_port
from tests.waiting import until

Context = grpc.aio.ServicerContext[Any, Any]
NAMESPACE = "taskyard-namespace"


class Tasks(task_pb2_grpc.TaskServiceServicer):
    """Says which replica serves, and what it was told of the caller. `refuse` is called first, with the others' too."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.refuse: Callable[[], None] = admit

    async def GetTask(self, _: task_pb2.GetTaskRequest, context: Context) -> task_pb2.Task:  # noqa: N802
        self.refuse()
        call = current_call()
        seen = {
            "principal": call.access.principal.name,
            "rest": call.by_rest,
            "metadata": [(key, str(value)) for key, value in context.invocation_metadata() or ()],
        }
        return task_pb2.Task(task_id=self.name, error=json.dumps(seen))

    async def SubmitTask(self, _: task_pb2.SubmitTaskRequest, __: Context) -> task_pb2.SubmitTaskResponse:  # noqa: N802
        self.refuse()
        return task_pb2.SubmitTaskResponse(task_id=self.name)

    async def WatchTasks(  # noqa: N802
        self, _: task_pb2.WatchTasksRequest, __: Context
    ) -> AsyncIterator[task_pb2.WatchTasksResponse]:
        for number in range(1_000_000):
            yield task_pb2.WatchTasksResponse(cursor=f"{self.name}-{number}")
            await asyncio.sleep(0.02)


def admit() -> None:
    """Refuse nothing."""


def refuse_theirs() -> None:
    """Refuse calls of the namespace `theirs`, as a server does that knows who has it."""
    if current_call().namespace == "theirs":
        raise NotOwner("b")


class Namespaces(namespace_pb2_grpc.NamespaceServiceServicer):
    """Refuses as `tasks` do, and answers with the name of the replica."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks

    async def GetNamespace(self, *_: object) -> namespace_pb2.GetNamespaceResponse:  # noqa: N802
        self._tasks.refuse()
        return namespace_pb2.GetNamespaceResponse(namespace=namespace_pb2.Namespace(name=self._tasks.name))


class Hosts(runtime_host_pb2_grpc.RuntimeHostServiceServicer):
    """Answers each message of a host by one that says which replica serves."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def Connect(  # noqa: N802
        self, requests: AsyncIterator[runtime_host_pb2.ConnectRequest], _: Context
    ) -> AsyncIterator[runtime_host_pb2.ConnectResponse]:
        async for _message in requests:
            yield runtime_host_pb2.ConnectResponse(welcome=runtime_host_pb2.Welcome(session=self.name))


class Health(health_pb2_grpc.HealthServiceServicer):
    """The name of the replica, as its state."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def GetReadiness(self, *_: object) -> health_pb2.GetReadinessResponse:  # noqa: N802
        return health_pb2.GetReadinessResponse(status=self._name)


class Tokens(token_pb2_grpc.TokenServiceServicer):
    """Is about no namespace."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def WhoAmI(self, _: token_pb2.WhoAmIRequest, __: Context) -> token_pb2.WhoAmIResponse:  # noqa: N802
        return token_pb2.WhoAmIResponse(name=self.name)


class SignIns(sign_in_pb2_grpc.SignInServiceServicer):
    """Is about no namespace either."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def GetSignIn(self, _: sign_in_pb2.GetSignInRequest, __: Context) -> sign_in_pb2.GetSignInResponse:  # noqa: N802
        return sign_in_pb2.GetSignInResponse(issuers=[sign_in_pb2.SignInIssuer(name=self.name)])


@dataclass(frozen=True)
class Replica:
    """One gateway with its server."""

    name: str
    gateway: Gateway
    servers: Servers
    listener: str
    """Where gateways of others reach the server."""
    files: CertificateFiles
    folder: Path
    tasks: Tasks

    def client(self, port: str = "rest", **headers: str) -> httpx.AsyncClient:
        """A REST client of the gateway at this port, which sends these headers."""
        base = self.gateway.address if port == "rest" else self.gateway.grpc_address
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.AsyncClient(base_url=f"http://{base}", headers=sent, timeout=SECS, trust_env=False)

    def channel(self, port: str = "grpc") -> grpc.aio.Channel:
        """A channel to the gateway at this port."""
        return grpc.aio.insecure_channel(self.gateway.address if port == "rest" else self.gateway.grpc_address)

    def know(self, *others: "Replica", owners: Mapping[str, str]) -> None:
        """Tell the gateway of these replicas, and of what is owned by whom."""
        self.gateway.carrier.take_replicas({other.name: other.listener for other in others})
        self.gateway.carrier.take_owners(owners)

    async def carries(self, namespace: str, to: str) -> None:
        """Wait until the calls for this namespace get to this replica."""
        async with self.client() as http:
            await served_by(to, http, namespace)


async def whose(http: httpx.AsyncClient, namespace: str, **headers: str) -> str:
    """The name of the replica that serves a namespace, or the status of the refusal."""
    answer = await http.get("/tasks/tsk_1", headers={NAMESPACE: namespace, **headers})
    return str(answer.json()["taskId"]) if answer.status_code == 200 else str(answer.status_code)


async def served_by(name: str, http: httpx.AsyncClient, namespace: str) -> None:
    """Wait until this replica serves the namespace."""
    await until(lambda: whose(http, namespace), lambda served: served == name)


def trusting(authority: Authority, folder: Path, leaf: Leaf | None = None) -> ssl.SSLContext:
    """What a client trusts, and its own certificate."""
    context = ssl.create_default_context(cadata=authority.cert.decode())
    if leaf is not None:
        context.load_cert_chain(*leaf.write(folder, "client"))
    return context


def gateway_leaf(authority: Authority, name: str) -> Leaf:
    """The certificate of a replica."""
    return authority.leaf(uris=[f"spiffe://taskyard/gateway/{name}"])


@asynccontextmanager
async def replica(
    name: str,
    authority: Authority,
    folder: Path,
    *,
    leaf: Leaf | None = None,
    settings: AuthSettings | None = None,
    origins: Sequence[str] = (),
    tls: CertificateFiles | None = None,
    gateway_tls: CertificateFiles | None = None,
) -> AsyncIterator[Replica]:
    """A replica whose certificate is by this authority, or this one. With `settings` a call needs a credential."""
    cert, key = (leaf or gateway_leaf(authority, name)).write(folder, name)
    files = CertificateFiles("replicas", cert, key, authority.write(folder, f"ca-{name}"), ca_key="ca")
    admission = None if settings is None else CallAdmission(settings)
    servers: Any = Servers(None, CallInterceptor(admission), is_limited=False, has_replicas=True)
    tasks = Tasks(name)
    task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, servers)
    namespace_pb2_grpc.add_NamespaceServiceServicer_to_server(Namespaces(tasks), servers)
    runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(Hosts(name), servers)
    token_pb2_grpc.add_TokenServiceServicer_to_server(Tokens(name), servers)
    sign_in_pb2_grpc.add_SignInServiceServicer_to_server(SignIns(name), servers)
    health_pb2_grpc.add_HealthServiceServicer_to_server(Health(name), servers)
    yard = Yard("127.0.0.1:0", files, tls)
    gateway = Gateway("127.0.0.1:0", origins=origins, certificates=gateway_tls, yard=yard)
    servers.listen_for_gateway(gateway.make_server_socket())
    listener = f"127.0.0.1:{free_port()}"
    servers.listen_for_replicas(listener, files)
    await servers.start()
    try:
        await gateway.start()
        yield Replica(name, gateway, servers, listener, files, folder, tasks)
    finally:
        await gateway.stop()
        await servers.stop(None)


@asynccontextmanager
async def pair(folder: Path, **options: Any) -> AsyncIterator[tuple[Replica, Replica]]:
    """Replicas a and b; a carries what is in the namespace `theirs` to b."""
    authority = Authority()
    async with AsyncExitStack() as stack:
        a, b = [await stack.enter_async_context(replica(name, authority, folder, **options)) for name in "ab"]
        a.know(b, owners={"theirs": "b"})
        await a.carries("theirs", to="b")
        yield a, b
