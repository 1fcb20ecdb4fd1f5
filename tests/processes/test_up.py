"""`taskyard up --processes`: one yard for whoever calls, whichever of its processes ends (docs/processes.md)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from taskyard import Client
from tests.durability.yard import Yard
from tests.environment import without_settings
from tests.tiers import spread
from tests.waiting import until

pytestmark = pytest.mark.gate("many processes, whose rules tests/replicas holds in one")

CHILD = "-m taskyard_server.processes"
NAMESPACES = ("one", "two", "three", "four")


class Processes(Yard):
    """A yard of two processes."""

    count = 2

    async def begin(self, *flags: str) -> None:
        await super().begin("--processes", str(self.count), *flags)

    def children(self) -> list[psutil.Process]:
        """Its processes, without the gateway and writers."""
        found = psutil.Process(self.pid).children()
        return [child for child in found if CHILD in " ".join(child.cmdline())]

    async def replicas(self) -> dict[str, int]:
        """How many namespaces each living process has."""
        async with httpx.AsyncClient(base_url=self.rest) as http:
            replicas = (await http.get("/admin/replicas")).json()["replicas"]
        return {each["name"][-2:]: int(each.get("namespaces", 0)) for each in replicas if "diedAt" not in each}


@pytest.fixture(params=spread(["folder", "postgres"]))
async def yard(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Processes]:
    store = f"sqlite:///{tmp_path}/files/" if request.param == "folder" else request.getfixturevalue("postgres_url")
    yard = Processes(tmp_path, {"scheduler": {"maxQueueSize": 7}, "store": {"failoverSecs": 5}}, store)
    await yard.start()
    yield yard
    await yard.stop()


async def submitted(yard: Processes) -> dict[str, str]:
    """A task in each namespace, by its id."""
    ids = {}
    for namespace in NAMESPACES:
        async with Client(yard.grpc, agent_id="ann", namespace=namespace) as client:
            ids[namespace] = (await client.submit("rest")).id
    return ids


async def shown(yard: Processes, ids: dict[str, str]) -> dict[str, str]:
    """The states of tasks."""
    states = {}
    for namespace, task_id in ids.items():
        async with Client(yard.grpc, agent_id="ann", namespace=namespace) as client:
            states[namespace] = (await client.get(task_id)).state.name.lower()
    return states


async def test_namespaces_are_divided_and_all_of_them_are_there_whichever_process_is_killed(yard: Processes) -> None:
    ids = await submitted(yard)
    await until(yard.replicas, lambda found: found == {"-1": 2, "-2": 2})
    for victim in yard.children():
        victim.send_signal(signal.SIGKILL)
        assert set((await shown(yard, ids)).values()) == {"queued"}
        await until(yard.replicas, lambda found: found == {"-1": 2, "-2": 2})


async def test_metrics_name_the_process_and_a_reload_reaches_all(yard: Processes) -> None:
    async def limits() -> set[str]:
        async with httpx.AsyncClient(base_url=yard.rest) as http:
            return {(await http.get("/admin/config")).json()["config"]["scheduler"]["maxQueueSize"] for _ in range(8)}

    async with httpx.AsyncClient() as http:
        text = (await http.get(f"http://127.0.0.1:{yard.ports['metrics']}/metrics")).text
        assert (await http.get(f"http://127.0.0.1:{yard.ports['metrics']}/readyz")).json() == {"status": "ok"}
    assert "taskyard_processes_alive 2.0" in text
    assert {f'taskyard_tasks_queued{{process="{number}"}} 0.0' for number in (1, 2)} <= set(text.splitlines())
    assert await limits() == {7}
    config = yard.folder / "taskyard.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({**settings, "scheduler": {"maxQueueSize": 8}}))
    os.kill(yard.pid, signal.SIGHUP)
    await until(limits, lambda found: found == {8})
    config.write_text(json.dumps({**settings, "scheduler": {"maxQueueSize": 9}}))
    async with httpx.AsyncClient(base_url=yard.rest) as http:
        assert (await http.post("/admin/config:reload")).json()["changed"] == ["scheduler.maxQueueSize"]
    await until(limits, lambda found: found == {9})


async def test_another_number_of_processes_goes_on_with_what_was_kept(yard: Processes) -> None:
    ids = await submitted(yard)
    for count in (1, 3):
        await yard.terminate()
        yard.count = count
        await yard.start()
        assert set((await shown(yard, ids)).values()) == {"queued"}
    await yard.check_store()


async def test_no_process_outlives_its_parent(yard: Processes) -> None:
    ids = await submitted(yard)
    await yard.kill("server")
    await yard.gone(5.0)
    await yard.start()
    assert set((await shown(yard, ids)).values()) == {"queued"}


async def test_a_drain_call_ends_all(yard: Processes) -> None:
    async with httpx.AsyncClient(base_url=yard.rest) as http:
        assert (await http.post("/admin/drain", json={})).json()["draining"]
    await yard.ended()
    assert yard.exit_code == 0
    await yard.gone(5.0)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--store", "sqlite:///{}/yard.db"), "is a file, which one process serves; name a folder"),
        (("--store", "memory://"), "memory:// is kept by one process"),
        (("--store", "sqlite:///{}/", "--no-gateway"), "needs the gateway"),
        (("--store", "sqlite:///{}/", "--advertise", "127.0.0.1:1"), "other replicas cannot reach more than one"),
    ],
)
def test_what_more_than_one_process_cannot_do_is_refused_in_a_line(
    tmp_path: Path, flags: tuple[str, ...], why: str
) -> None:
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--processes", "2"]
    command += [flag.format(tmp_path) for flag in flags]
    ended = subprocess.run(command, env=without_settings(), capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert why in ended.stderr
    assert "Traceback" not in ended.stderr
