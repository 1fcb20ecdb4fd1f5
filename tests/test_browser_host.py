"""`examples/browser_host/`: hosts with real Chromium tabs, and the two agents that drive them."""

import asyncio
import sys
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from examples.browser_host.hosts import TABS, chromium, served_page, tab_host
from taskyard import Client
from tests.console.yards import plane

pytestmark = pytest.mark.gate("Chromium")
EXAMPLE = Path(__file__).parents[1] / "examples" / "browser_host"
ROUNDS = 3


class Uses:
    """Who is in a tab. `together` has the tabs in which two tasks were at once, `of_agents` counts tasks by both."""

    def __init__(self) -> None:
        self._in_use: set[str] = set()
        self.together: list[str] = []
        self.of_agents: Counter[tuple[str, str]] = Counter()

    async def note(self, task, call_next):
        tab = task.tab_id
        self.of_agents[tab, task.task.agent_id] += 1
        if tab in self._in_use:
            self.together.append(tab)
        self._in_use.add(tab)
        try:
            return await call_next(task)
        finally:
            self._in_use.discard(tab)


@pytest.fixture
async def yard(tmp_path):
    """A control plane, the hosts with their tabs, and the page."""
    if chromium() is None:
        pytest.skip("needs Chromium: tools/debian_tools.sh chromium")
    async with AsyncExitStack() as stack:
        served = stack.enter_context(plane(tmp_path))
        served.page = stack.enter_context(served_page())
        served.grpc = f"127.0.0.1:{served.ports['grpc']}"
        served.uses = Uses()
        hosts = [tab_host(host_id, tabs, served.grpc) for host_id, tabs in TABS.items()]
        for host in hosts:
            host.middleware(served.uses.note)
        running = [asyncio.create_task(host.run()) for host in hosts]
        yield served
        for host in hosts:
            host.drain()
        await asyncio.gather(*running)


async def printed(script, server, page, *words):
    """The lines that an agent prints."""
    command = [sys.executable, EXAMPLE / script, *words, "--server", server, "--page", page]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode().splitlines()


async def test_two_agents_share_a_tab_and_never_use_it_at_once(yard):
    shared = ["shared"] * ROUNDS
    ada, grace = await asyncio.gather(
        printed("grpc_agent.py", yard.grpc, yard.page, "one", *shared),
        printed("rest_agent.py", yard.url, yard.page, "two", *shared),
    )
    assert (ada[0], grace[0]) == ("one: Ada Lovelace", "two: Grace Hopper")
    # Whoever came last has seen all: each name whole, as often as it was signed.
    last = max(ada[-1], grace[-1], key=len)
    assert Counter(last.removeprefix("shared: ").split(", ")) == {"Ada Lovelace": ROUNDS, "Grace Hopper": ROUNDS}
    assert yard.uses.together == []
    assert yard.uses.of_agents == {
        ("one", "agent-grpc"): 4,
        ("two", "agent-rest"): 4,
        ("shared", "agent-grpc"): 4 * ROUNDS,
        ("shared", "agent-rest"): 4 * ROUNDS,
    }


async def test_elements_are_named_by_the_last_snapshot_and_what_is_wrong_is_told(yard):
    async with Client(yard.grpc, agent_id="ann") as client:

        async def act(action, **fields):
            of_tab = {"tab_id": "one", "target": "tab:one", "requires": ["tab:one"], "on_target_failure": "continue"}
            return await client.wait((await client.submit(action, **of_tab | fields)).id)

        assert (await act("navigate", params={"url": yard.page})).result == {"url": yard.page, "title": "Guest book"}
        refs = {each["tag"]: each["ref"] for each in (await act("snapshot")).result["elements"]}
        assert list(refs) == ["h1", "input", "button"]
        await act("type", ref=refs["input"], params={"text": "Ann"})
        assert (await act("snapshot")).result["elements"][1] == {"ref": refs["input"], "tag": "input", "text": "Ann"}
        await act("click", ref=refs["button"])
        assert (await act("snapshot")).result["elements"][-1]["text"] == "Ann"
        for action, fields, error in [
            ("click", {}, "selector or ref is missing"),
            ("navigate", {}, "params.url must be a text"),
            ("click", {"tab_id": "two", "ref": "e1"}, "this host has no tab two"),
            ("click", {"selector": "#nothing"}, "tab one: no element that click can use"),
        ]:
            failed = await act(action, **fields)
            assert (failed.state, failed.error) == ("failed", error)
