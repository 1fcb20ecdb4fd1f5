"""The image of the Dockerfile, as a stranger runs it: nothing is given but a volume (docs/operate/install.md)."""

import asyncio
import os
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from taskyard import Client, Host, RunningTask
from tests.ports import free_port
from tests.waiting import until_in_thread
from tests.wheel.conftest import ROOT
from tests.wheel.containers import Container, Image

NEEDED = ("buildah", "crun", "mmdebstrap", "unshare")
MISSING = [name for name in NEEDED if shutil.which(name) is None] + (["root"] if os.getuid() else [])
pytestmark = [
    pytest.mark.image,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
]

WRITABLE = "find / -xdev -writable ! -type l 2>/dev/null"
STATE = "/var/lib/taskyard"


class Yard:
    """A container that serves, with what is in its volume."""

    def __init__(self, container: Container, volume: Path, ports: dict[str, int]) -> None:
        self.container, self.volume = container, volume
        self.grpc, self.rest = f"https://localhost:{ports['grpc']}", f"https://localhost:{ports['rest']}"

    def http(self) -> httpx.Client:
        trust = ssl.create_default_context(cafile=self.volume / "ca.pem")
        return httpx.Client(base_url=self.rest, verify=trust, headers={"authorization": f"Bearer {self.token}"})

    @property
    def token(self) -> str:
        return (self.volume / "admin.token").read_text().strip()

    def options(self) -> dict[str, str]:
        return {"token": self.token, "ca": str(self.volume / "ca.pem")}


def is_well(yard: Yard) -> bool:
    process = yard.container.process
    assert process.poll() is None, yard.container.ended()
    if yard.container.run("taskyard", "health").returncode:
        return False
    # The gateway may begin after the server.
    try:
        with yard.http() as http:
            return http.get("/readyz").status_code == 200
    except httpx.ConnectError:
        return False


@pytest.fixture(scope="module")
def image(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    folder = tmp_path_factory.mktemp("image")
    subprocess.run((ROOT / "tools/image.sh", wheel, folder), check=True)
    yield Image(folder)
    shutil.rmtree(folder)


@pytest.fixture
def start(image: Image, tmp_path: Path) -> Iterator[Callable[[], Yard]]:
    """Starts a container on the same volume each time, and returns it once it is ready."""
    volume = tmp_path / "volume"
    volume.mkdir(mode=0o700)
    os.chown(volume, *map(int, image.config["User"].split(":")))
    containers: list[Container] = []
    ports = {name: free_port() for name in ("grpc", "rest", "metrics")}

    def started() -> Yard:
        words = " ".join(image.config["Cmd"])
        for name, documented in (("grpc", 50051), ("rest", 9867), ("metrics", 9464)):
            words = words.replace(f":{documented}", f":{ports[name]}")
        variables = {"TASKYARD_ADDRESS": f"https://localhost:{ports['grpc']}"}
        name = f"yard-{len(containers)}"
        containers.append(Container(image, name, tmp_path, volume, words.split(), variables))
        yard = Yard(containers[-1], volume, ports)
        until_in_thread(lambda: is_well(yard))
        return yard

    yield started
    for each in containers:
        each.kill()


def test_it_says_what_a_registry_and_an_orchestrator_ask(image: Image) -> None:
    assert image.config["User"] == "10001:10001"
    assert image.config["ExposedPorts"].keys() == {"50051/tcp", "9867/tcp", "9464/tcp"}
    assert image.config["Healthcheck"]["Test"] == ["CMD", "taskyard", "health"]
    assert image.config["StopSignal"] == "SIGTERM"
    assert image.config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "--insecure" not in image.config["Cmd"]


def test_it_has_the_compiled_server_and_no_compiler(image: Image) -> None:
    assert list(image.root.glob("opt/taskyard/lib/python*/site-packages/taskyard_server/core/*.so"))
    assert [name for name in ("gcc", "cc", "make") if (image.root / "usr/bin" / name).exists()] == []


def test_it_serves_all_doors_by_tls_to_who_has_the_token(start: Callable[[], Yard]) -> None:
    yard = start()
    with yard.http() as http:
        assert http.get("/readyz").json() == {"status": "ok"}
        assert "<title>" in http.get("/ui/").text
        assert http.post("/tasks", json={"agentId": "ann", "action": "greet"}).status_code == 202
        assert http.get("/tasks", headers={"authorization": ""}).status_code == 401
    listed = yard.container.run("taskyard", "list", "-o", "json")
    assert '"agentId": "ann"' in listed.stdout
    made = yard.container.run("taskyard", "token", "create", "--role", "agent", "--agent", "ann")
    assert made.stdout.startswith("tyd_")


def test_it_writes_to_its_volume_alone(start: Callable[[], Yard]) -> None:
    yard = start()
    outside = [
        path
        for path in yard.container.run("sh", "-c", WRITABLE).stdout.splitlines()
        if not path.startswith((STATE, "/proc", "/dev"))
    ]
    touched = [path for path in outside if yard.container.run("touch", path).returncode == 0]
    assert touched == []


async def test_sigterm_is_an_upgrade_what_runs_goes_on_and_what_is_queued_stays(start: Callable[[], Yard]) -> None:
    yard = start()
    running, may_end = asyncio.Event(), asyncio.Event()
    host = Host(yard.grpc, "host-1", **yard.options())

    @host.action("work")
    async def work(_: RunningTask) -> str:
        running.set()
        await may_end.wait()
        return "done"

    loop = asyncio.create_task(host.run())
    async with Client(yard.grpc, agent_id="ann", **yard.options()) as client:
        task = await client.submit("work")
        await running.wait()
        queued = await client.submit("other")
        yard.container.signal("TERM")
        code, out, _ = await asyncio.to_thread(yard.container.ended)
        assert (code, yard.token in out) == (0, True)

        yard = await asyncio.to_thread(start)
        may_end.set()
        assert await task.result() == "done"
        assert (await client.get(queued.id)).state == "queued"
    host.drain()
    await loop
    yard.container.signal("TERM")
    code, out, _ = await asyncio.to_thread(yard.container.ended)
    assert (code, yard.token in out) == (0, False)
