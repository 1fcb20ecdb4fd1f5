"""Secrets stand nowhere: not in logs, errors, the settings that are shown, metrics, nor in what other users can see.

A server with a secret in every setting is called by every door, with right, wrong and malformed credentials.
"""

import asyncio
import contextlib
import json
import signal
import stat
import sys
import tempfile
from pathlib import Path

import grpc
import httpx
import pytest

import taskyard
from taskyard.v1 import admin_pb2, admin_pb2_grpc, task_pb2, task_pb2_grpc, token_pb2, token_pb2_grpc
from tests.environment import new_store_url, without_settings
from tests.ports import free_port, listening

pytestmark = [pytest.mark.gate("a look at every door of a whole yard"), pytest.mark.long]

ADMIN = "s3cret-of-the-admin-0123456789"
METRICS = "s3cret-of-the-metrics-0123456789"
EXECUTOR = "s3cret-of-the-executor"
PASSWORD = "s3cret-in-the-url"
TAB = "s3cret-of-a-tab"
CLIENT = "s3cret-of-the-client-of-an-issuer"
CODE = "s3cret-code-of-somebody-who-signs-in"
WEBHOOK = "czNjcmV0LW9mLXRoZS13ZWJob29r"
LATER = "s3cret-after-the-reload-0123456789"
WRONG = "s3cret-that-is-wrong-0123456789"
WRONG_TYD = "tyd_s3cretS3cretS3cretS3cretS3cretS3cretS3"
WRONG_JWT = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzM2NyZXQtand0In0.czNjcmV0LWp3dA"
MARKS = (WEBHOOK, "s3cret", "S3cret", "eyJhbGci")
"""What all of them begin with, so that a part of one is found too."""


class Yard:
    """A server with its gateway, and all that was said to it and by it."""

    def __init__(self, folder: Path) -> None:
        self.grpc, self.rest, self.metrics = (f"127.0.0.1:{free_port()}" for _ in range(3))
        self.log, self.audit, self.config = folder / "yard.log", folder / "audit.log", folder / "taskyard.json"
        self.store = new_store_url()
        self.away = free_port()
        self.output = b""
        self.answers: list[str] = []
        self._reading: list[asyncio.Task[None]] = []

    def issuer(self, client_secret: object = CLIENT) -> dict[str, object]:
        """An issuer with which people sign in, and which does not answer."""
        url = f"http://127.0.0.1:{self.away}/"
        sign_in = {"name": "Ours", "clientId": "c", "authorizationUrl": url, "tokenUrl": url}
        return {
            "issuer": "https://issuer.example",
            "audience": "c",
            "jwks": url,
            "signIn": {**sign_in, "clientSecret": client_secret},
        }

    def settings(self, admin: str = ADMIN) -> dict[str, object]:
        return {
            "grpc": self.grpc,
            "rest": self.rest,
            "metrics": self.metrics,
            "auth": {"adminToken": admin, "jwt": [self.issuer()]},
            "metricsToken": METRICS,
            "executor": f"http://user:{PASSWORD}@127.0.0.1:{free_port()}",
            "executorToken": EXECUTOR,
            "tabs": {"own": {"url": f"http://user:{PASSWORD}@127.0.0.1:{free_port()}", "token": TAB}},
            "webhooks": {"secret": f"whsec_{WEBHOOK}", "allowPrivate": True},
            "log": {"file": str(self.log)},
            "audit": {"file": str(self.audit)},
            "store": {"url": self.store},
        }

    async def start(self) -> None:
        self.config.write_text(json.dumps(self.settings()))
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "taskyard_server.cli.main", "up"),
            *("--config", str(self.config), "--log-level", "debug"),
            env=without_settings(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reading = [asyncio.create_task(self._read())]
        await listening(int(self.rest.rpartition(":")[2]), self.process)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while chunk := await self.process.stdout.read(65_536):
            self.output += chunk

    async def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(self.process.wait(), 20)
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        await asyncio.gather(*self._reading)

    async def call(self, method: object, request: object, authorization: str | None) -> object:
        """A call by gRPC, whose error is kept."""
        metadata = () if authorization is None else (("authorization", authorization),)
        try:
            return await method(request, metadata=metadata, timeout=10)
        except grpc.aio.AioRpcError as error:
            self.answers.append(f"{error.code()} {error.details()} {error.trailing_metadata()} {error}")
            return None


@pytest.fixture
async def yard(tmp_path):
    yard = Yard(tmp_path)
    await yard.start()
    yield yard
    await yard.stop()


AUTHORIZATIONS = (
    f"Bearer {ADMIN}",
    f"Bearer {WRONG}",
    f"Bearer {WRONG_TYD}",
    f"Bearer {WRONG_JWT}",
    f"Basic {WRONG}",
    WRONG,
    f"Bearer {WRONG} {WRONG}",
    f"Bearer{WRONG}",
    f"Bearer {WRONG * 200}",
)


async def by_grpc(yard: Yard) -> str:
    """Calls by gRPC; the secret of the token that was made."""
    async with grpc.aio.insecure_channel(yard.grpc) as channel:
        tasks, tokens = task_pb2_grpc.TaskServiceStub(channel), token_pb2_grpc.TokenServiceStub(channel)
        # Wrong credentials are answered late, so they come together.
        tasks_of_tabs = [
            task_pb2.SubmitTaskRequest(agent_id="ann", action="click", tab_id=tab_id) for tab_id in ("own", "other")
        ]
        await asyncio.gather(
            *(
                yard.call(tasks.SubmitTask, request, authorization)
                for authorization in (*AUTHORIZATIONS, None)
                for request in tasks_of_tabs
            )
        )
        grant = token_pb2.Grant(role="viewer", namespaces=["default"])
        made = await yard.call(
            tokens.CreateToken, token_pb2.CreateTokenRequest(name="made", grants=[grant]), f"Bearer {ADMIN}"
        )
        if made is None:  # The yard keeps nothing.
            return "tyd_none-was-made"
        for authorization in (f"Bearer {made.secret}", f"Bearer {made.secret[:-1]}x", f"bearer  {made.secret[:-6]}"):
            await yard.call(tasks.SubmitTask, task_pb2.SubmitTaskRequest(agent_id="ann", action="a"), authorization)
        return str(made.secret)


async def by_rest(yard: Yard) -> None:
    async with httpx.AsyncClient(base_url=f"http://{yard.rest}", trust_env=False) as http:
        calls = [
            http.request(method, path, headers={"authorization": authorization}, json={"agentId": "a"}, timeout=30)
            for authorization in AUTHORIZATIONS
            for method, path in (("GET", "/tasks"), ("POST", "/tasks"), ("HEAD", "/stats"), ("GET", "/nowhere"))
        ]
        yard.answers += [f"{answer.headers} {answer.text}" for answer in await asyncio.gather(*calls)]
        for more in (
            {"params": {"access_token": WRONG}},
            {"headers": {"cookie": f"session={WRONG}"}},
            {"headers": {"x-forwarded-client-cert": f"URI=spiffe://taskyard/{WRONG}"}},
            {"headers": {"proxy-authorization": f"Bearer {WRONG}"}},
            {"auth": ("user", WRONG)},
        ):
            answer = await http.get("/tasks", **more)
            yard.answers.append(f"{answer.status_code} {answer.headers} {answer.text}")
        code = {"code": CODE, "codeVerifier": CODE * 2, "nonce": CODE, "redirectUri": f"http://{yard.rest}/ui/"}
        for sent in (code, code | {"codeVerifier": CODE}, code | {"redirectUri": CODE}, {"refreshToken": CODE}):
            body = {"issuer": "https://issuer.example", **sent}
            answer = await http.post("/sign-in:exchange", json=body, timeout=30)
            yard.answers.append(f"{answer.status_code} {answer.headers} {answer.text}")
        assert "503" in yard.answers[-1], "the issuer was asked"


async def by_the_sdk(yard: Yard) -> None:
    for token in (WRONG, WRONG_TYD):
        async with taskyard.Client(yard.grpc, agent_id="ann", token=token, patience=20) as client:
            with pytest.raises(taskyard.Unauthenticated) as refused:
                await client.submit("click")
        yard.answers += [str(refused.value), repr(refused.value), repr(client)]


async def by_metrics(yard: Yard) -> None:
    async with httpx.AsyncClient(base_url=f"http://{yard.metrics}", trust_env=False) as http:
        for token in (METRICS, WRONG):
            answer = await http.get("/metrics", headers={"authorization": f"Bearer {token}"})
            yard.answers.append(f"{answer.headers} {answer.text}")
        answer = await http.get(f"/metrics?token={WRONG}")
        yard.answers.append(f"{answer.headers} {answer.text}")


async def with_reloads(yard: Yard) -> None:
    """Reloads: of other secrets, and of files that are wrong just beside a secret."""
    wrong: list[object] = [
        yard.settings() | {"metricsToken": f"{WRONG} {WRONG}"},
        yard.settings() | {"auth": {"adminToken": [WRONG]}},
        yard.settings() | {"auth": {"adminToken": ADMIN, "jwt": [yard.issuer([WRONG])]}},
        yard.settings() | {"auth": {"adminToken": ADMIN, "jwt": [yard.issuer(f"{WRONG} {WRONG}")]}},
        yard.settings() | {"executorToken": {"token": WRONG}},
        yard.settings() | {"executor": f"ftp://user:{WRONG}@host:x"},
        yard.settings() | {"tabs": {"own": {"url": f"ftp://user:{WRONG}@host", "token": WRONG + "\n"}}},
        yard.settings() | {"webhooks": {"secret": f"{WRONG}!"}},
        yard.settings() | {"webhooks": WRONG},
        yard.settings() | {"store": {"url": f"postgres://user:{WRONG}@host/db"}},
    ]
    async with grpc.aio.insecure_channel(yard.grpc) as channel:
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        for content in wrong:
            yard.config.write_text(json.dumps(content))
            await yard.call(admin.ReloadConfig, admin_pb2.ReloadConfigRequest(), f"Bearer {ADMIN}")
            yard.answers.append(str(await yard.call(admin.GetConfig, admin_pb2.GetConfigRequest(), f"Bearer {ADMIN}")))
        yard.config.write_text(json.dumps(yard.settings(LATER)))
        await yard.call(admin.ReloadConfig, admin_pb2.ReloadConfigRequest(), f"Bearer {ADMIN}")
        shown = await yard.call(admin.GetConfig, admin_pb2.GetConfigRequest(), f"Bearer {LATER}")
        assert shown is not None
        yard.answers.append(str(shown))
        assert await yard.call(admin.GetConfig, admin_pb2.GetConfigRequest(), f"Bearer {ADMIN}") is None


def processes_of(pid: int) -> list[int]:
    """A process and all that it has started."""
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                children.append(int(path.parent.name))
    return [pid, *(each for child in children for each in processes_of(child))]


def found_in(text: str, made: str) -> list[str]:
    """The lines of a text with a secret, or with a part of one."""
    return [line for line in text.splitlines() if any(mark in line for mark in (*MARKS, made, made[4:-1]))]


def seen_of_processes(yard: Yard) -> dict[str, str]:
    """What other users of the machine can see, and what Envoy is given."""
    seen = {f"process {pid}": Path(f"/proc/{pid}/cmdline").read_text() for pid in processes_of(yard.process.pid)}
    seen |= {f"title {pid}": Path(f"/proc/{pid}/comm").read_text() for pid in processes_of(yard.process.pid)}
    assert len(seen) >= 4, "the server and Envoy"
    for folder in Path(tempfile.gettempdir()).glob("taskyard-*"):
        # Those of other tests are there too.
        if (folder / "envoy.yaml").is_file() and yard.rest.rpartition(":")[2] in (folder / "envoy.yaml").read_text():
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            seen |= {str(file): file.read_text(errors="replace") for file in folder.rglob("*") if file.is_file()}
            break
    else:
        pytest.fail("no folder of Envoy was found")
    return seen


def check_store(url: str, made: str) -> None:
    """No secret is in the files of the store, and nobody else can read them."""
    store = Path(url.removeprefix("sqlite:///"))
    for file in store.parent.glob(f"{store.name}*") if store.is_file() else ():
        if file.is_file():
            assert not file.stat().st_mode & 0o077, f"others can read {file}"
            assert not [mark for mark in (*MARKS, made) if mark.encode() in file.read_bytes()], file


async def test_no_secret_is_found_anywhere(yard):
    made = await by_grpc(yard)
    await by_rest(yard)
    await by_the_sdk(yard)
    await by_metrics(yard)
    await with_reloads(yard)
    seen = seen_of_processes(yard)
    await yard.stop()

    seen |= {"answers": "\n".join(yard.answers), "output": yard.output.decode()}
    seen |= {"log": yard.log.read_text(), "audit": yard.audit.read_text()}
    assert len(yard.answers) > 60
    assert "config_reload_failed" in seen["log"]
    assert "credentials_refused" in seen["audit"]
    assert {name: lines for name, text in seen.items() if (lines := found_in(text, made))} == {}
    assert not yard.audit.stat().st_mode & 0o077
    check_store(yard.store, made)
