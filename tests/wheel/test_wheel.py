"""The wheel: what it holds, and that it works where nothing else is installed. `make wheel` runs this, and CI.

It is built of the compiled form that is there, and installed into a fresh environment: the SDK alone first, then with
the server and the gateway.
"""

import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.wheel.conftest import ROOT, UV, output_of
from tools import compile_server

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(900)]

AGENT = """
import asyncio, sys
from taskyard import Client, Host

async def main(address):
    host = Host(address, "host-1")

    @host.action()
    async def greet(task):
        return f"Hello, {task.params['name']}!"

    work = asyncio.create_task(host.run())
    async with Client(address, agent_id="ann") as client:
        print(await client.run("greet", params={"name": "Alan Turing"}))
    host.drain()
    await work

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def sdk(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and what it needs at least."""
    folder = tmp_path_factory.mktemp("environment")
    output_of(UV, "venv", "--quiet", "--python", sys.executable, folder)
    install(folder / "bin", str(wheel))
    return folder / "bin"


@pytest.fixture(scope="module")
def server(sdk: Path, wheel: Path) -> Path:
    """The same with the server and the gateway. Tests of the SDK alone come before."""
    install(sdk, f"{wheel}[server,gateway]")
    return sdk


def install(programs: Path, what: str) -> None:
    constraint = ("--constraint", ROOT / "constraints.txt")
    output_of(UV, "pip", "install", "--quiet", "--python", programs / "python", *constraint, what)


@pytest.fixture
def addresses(server: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Where a control plane serves that was started from the wheel."""
    addresses = {name: f"127.0.0.1:{free_port()}" for name in ("grpc", "rest", "metrics")}
    command = [server / "taskyard", "up", *(word for name, at in addresses.items() for word in (f"--{name}", at))]
    command += ["--store", f"sqlite:///{tmp_path}/yard.db"]
    up = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert up.stdout is not None
        assert "serves" in up.stdout.readline()
        yield addresses
    finally:
        up.terminate()
        up.wait(timeout=30)
        assert up.stdout is not None
        up.stdout.close()


def test_it_holds_the_packages_and_the_gateway_and_nothing_else(wheel: Path) -> None:
    packages = (
        ("clients/python", "pytest_taskyard"),
        ("clients/python", "taskyard"),
        ("server", "taskyard_server"),
    )
    wanted = {
        path.relative_to(ROOT / folder).as_posix(): path.read_bytes()
        for folder, package in packages
        for path in (ROOT / folder / package).rglob("*")
        if path.suffix in (".py", ".pyi", ".sql") or path.name == "py.typed"
    } | {
        f"taskyard_server/gateway_files/{name}": (ROOT / "gateway" / name).read_bytes()
        for name in (path.name for path in (ROOT / "gateway").iterdir() if path.name != "README.md")
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {
            name: archive.read(name)
            for name in archive.namelist()
            if ".dist-info/" not in name and not name.endswith(".so")
        }
    assert held.keys() == wanted.keys()
    assert [name for name in held if held[name] != wanted[name]] == []


def test_every_link_of_its_description_works_where_an_index_shows_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (archive.read(name) for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    links = re.findall(r"\]\(([^)]*)\)", metadata.decode())
    readme = re.findall(r"\]\(([^)]*)\)", (ROOT / "README.md").read_text())
    assert len(links) == len(readme)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_it_holds_the_compiled_form_of_all_that_is_compiled(wheel: Path) -> None:
    suffix = EXTENSION_SUFFIXES[0]
    stubs = {str(path.relative_to(compile_server.SERVER).with_suffix(suffix)) for path in compile_server.sources()}
    wanted = stubs | {f"{compile_server.GROUP}__mypyc{suffix}"} if compile_server.has_compiler() else set()
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if name.endswith(".so")} == wanted


def test_the_sdk_needs_nothing_of_the_server(sdk: Path, tmp_path: Path) -> None:
    program = "import sys, taskyard; assert 'taskyard_server' not in sys.modules; print(taskyard.__file__)"
    found = Path(output_of(sdk / "python", "-c", program, cwd=tmp_path).strip())
    assert found.is_relative_to(sdk.parent)
    script = subprocess.run([sdk / "taskyard"], capture_output=True, text=True, check=False)
    assert (script.returncode, script.stderr.count("\n")) == (1, 1)
    assert script.stderr.endswith(" is not installed: pip install 'taskyard[server,gateway]'\n")


def test_its_server_runs_compiled_and_its_sdk_works_with_it(
    server: Path, addresses: dict[str, str], tmp_path: Path
) -> None:
    assert output_of(server / "python", "-c", AGENT, addresses["grpc"], cwd=tmp_path) == "Hello, Alan Turing!\n"
    program = "import taskyard_server.core.scheduler as found; print(found.__file__)"
    suffix = EXTENSION_SUFFIXES[0] if compile_server.has_compiler() else ".py"
    assert output_of(server / "python", "-c", program, cwd=tmp_path).strip().endswith(suffix)


def test_its_gateway_serves(server: Path, addresses: dict[str, str], tmp_path: Path) -> None:
    program = "import httpx, sys; print(httpx.get(sys.argv[1], trust_env=False).text)"
    for path in ("openapi.json", "tasks"):
        answer = output_of(server / "python", "-c", program, f"http://{addresses['rest']}/{path}", cwd=tmp_path)
        assert json.loads(answer) == (
            json.loads((ROOT / "gateway/openapi.json").read_text()) if path != "tasks" else {"tasks": [], "count": 0}
        )
