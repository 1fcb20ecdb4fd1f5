"""What it costs to know who calls: a token, TLS, a client certificate, and roles, each beside the same without.

The ceiling is Taskyard itself without authentication and in plaintext, in the same run. Both keep their tasks in a
file, since tokens are kept there. The token has the role agent for a beginning of names, so that every task, and every
event of a watch, is judged.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import servers
from pydantic import SecretStr
from rows import Aim, Case, Figure, Measure, Row, Side
from submits import BATCH

from taskyard.v1 import access_pb2, task_pb2, token_pb2, token_pb2_grpc
from taskyard_server.cli.up.secure_folder import secure_folder
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.interceptors.callers import read_headers
from taskyard_server.settings.security import AuthSettings

TOKEN = "a-token-of-the-role-admin"
REMARK = "the ceiling is the same server without authentication, in plaintext"
UNARY = {"connections": 4, "inflight": 32}
STREAM = {"submitters": 4, "inflight": 4, "batch": BATCH}
WATCH = {"watchers": 50, "batch": 10, "inflight": 1}
"""As in the rows of submits.py and watching.py."""


def cases() -> list[Case]:
    """Rows for the check alone, for unary calls, a stream and watches."""
    return [
        Case(
            (Row("token check", "us", better="less", aim=Aim(15, "value"), remark="in the process, no call"),),
            _check,
            older=False,
        ),
        _case("unary submit, token", "calls/s", "submit", UNARY, ["token"]),
        _case("unary submit, TLS and token", "calls/s", "submit", UNARY, ["token", "tls"]),
        _case("unary submit, mTLS", "calls/s", "submit", UNARY, ["tls", "certificate"]),
        _case("stream submit, TLS and token", "tasks/s", "stream", STREAM, ["token", "tls"]),
        _case("watch, 50 watchers, roles", "events/s", "watch", WATCH, ["token"], Aim(0.9)),
    ]


def _case(name: str, unit: str, mode: str, flags: Mapping[str, int], ways: list[str], aim: Aim | None = None) -> Case:
    def side(open_yard: Callable[[], Any]) -> Side:
        @contextmanager
        def opened() -> Iterator[Measure]:
            with open_yard() as (server, credentials):
                yield lambda secs: [_throughput(server, mode, secs, {**flags, **credentials})]

        return opened

    return Case((Row(name, unit, aim=aim, remark=REMARK),), side(lambda: _secured(ways)), side(_open), older=False)


@contextmanager
def _check() -> Iterator[Measure]:
    """What the interceptor does for a call with a token, and would not do without authentication."""
    admission = CallAdmission(AuthSettings(admin_token=SecretStr(TOKEN)))
    gate = admission.gate("/taskyard.v1.TaskService/SubmitTask")
    context: Any = _Context()
    request = task_pb2.SubmitTaskRequest(agent_id="agent-1")

    async def checked(secs: float) -> float:
        count, begin = 0, time.perf_counter()
        while (passed := time.perf_counter() - begin) < secs:
            for _ in range(1_000):
                assert admission.refusal_by_metadata(context.invocation_metadata(), False) is None
                headers = read_headers(context)
                entry = gate.enter(headers, context)
                headers.call(entry.access, gate.seal)
                gate.check(entry.access, request, headers, context)
                gate.leave(entry)
            count += 1_000
        return passed / count * 1e6

    yield lambda secs: [Figure(asyncio.run(checked(secs)))]


class _Context:
    """As much of a call as the check looks at."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("user-agent", "a load"), ("authorization", f"Bearer {TOKEN}"))


def _throughput(server: servers.Server, mode: str, secs: float, flags: Mapping[str, Any]) -> Figure:
    return servers.throughput(server, mode, secs, **flags)


@contextmanager
def _open() -> Iterator[tuple[servers.Server, dict[str, str]]]:
    with servers.taskyard(durable=True) as server:
        yield server, {}


@contextmanager
def _secured(ways: list[str]) -> Iterator[tuple[servers.Server, dict[str, str]]]:
    """A yard with authentication, and the flags of a load that comes in these ways: `token`, `tls`, `certificate`."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "made")
        secure = secure_folder(made)
        settings = json.loads(secure.config.read_text())
        admin_token = (made / "admin.token").read_text().strip()
        secured: dict[str, Any] = {**servers.SETTINGS, "auth": {**settings["auth"], "adminToken": admin_token}}
        flags: dict[str, str] = {}
        if "tls" in ways:
            secured["tls"] = settings["tls"]
            flags["ca"] = str(made / "ca.pem")
        if "certificate" in ways:
            secured["tls"] = {**settings["tls"], "clientCa": str(made / "ca.pem")}
            flags |= {"cert": str(made / "operator.pem"), "key": str(made / "operator.key")}
        with servers.taskyard(settings=secured, durable=True) as server:
            if "token" in ways:
                flags["token"] = _agent_token(server.address, admin_token, flags.get("ca"))
            yield server, flags


def _agent_token(address: str, admin_token: str, ca: str | None) -> str:
    """The secret of a new token, which is of the role agent for the agents of the load."""
    grant = token_pb2.Grant(role=access_pb2.ROLE_AGENT, namespaces=["default"], agents=["agent-*"])
    port = address.rpartition(":")[2]
    channel = (
        grpc.insecure_channel(address)
        if ca is None
        else grpc.secure_channel(f"localhost:{port}", grpc.ssl_channel_credentials(Path(ca).read_bytes()))
    )
    with channel:
        made = token_pb2_grpc.TokenServiceStub(channel).CreateToken(
            token_pb2.CreateTokenRequest(name="load", grants=[grant]),
            metadata=(("authorization", f"Bearer {admin_token}"),),
            timeout=20,
        )
    return str(made.secret)
