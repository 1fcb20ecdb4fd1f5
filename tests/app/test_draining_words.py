"""What `taskyard up` says to who looks at its terminal while it ends (docs/rules.md, Drain and shutdown)."""

import asyncio

import pytest

from taskyard_server.app import draining
from taskyard_server.app.draining import Draining
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine
from tests.engines import running_engine
from tests.live import live
from tests.waiting import until

AGAIN = "Ctrl-C again stops it at once."


class Yard:
    """An engine that is to end, and what is said of that."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.said: list[str] = []
        self.draining = Draining(engine, None, 300.0, False)
        self.draining.tell = self.said.append

    async def run(self, host: str, tasks: int, built_in: bool = False, namespace: str = "default") -> None:
        """Let a host have so many tasks in flight."""
        await self.engine.hosts.register(namespace, host, None, HostProfile(), built_in=built_in, show=live)
        for _ in range(tasks):
            await self.engine.tasks.submit(namespace, Submission("ann", "click"), show=live)
        assert len(await self.engine.leases.claim(namespace, host, tasks, show=live)) == tasks

    async def end(self) -> None:
        """End at once, after two signals."""
        assert self.draining.on_signal()
        assert not self.draining.on_signal()
        await self.draining.wait()


@pytest.fixture
async def yard():
    async with running_engine(Limits()) as engine:
        yield Yard(engine)


@pytest.fixture
def kept(yard, monkeypatch):
    """The same with a store."""
    monkeypatch.setattr(Engine, "is_kept", True)
    return yard


async def test_with_nothing_in_flight_it_says_so(yard):
    await yard.end()
    assert yard.said == ["Stops at once.", f"Stopping: no task has to end first. {AGAIN}"]


@pytest.mark.memory_store
async def test_it_says_for_how_many_tasks_at_how_many_hosts_it_waits_and_how_long(yard):
    await yard.run("one", 2)
    await yard.run("two", 1, namespace="red")
    await yard.end()
    assert yard.said[-1] == f"Stopping: waits for 3 tasks at 2 hosts, for 300 s at most. {AGAIN}"


async def test_one_is_one(yard):
    await yard.run("one", 1)
    yard.draining.begin(7)
    yard.draining.hurry.set()
    await yard.draining.wait()
    assert yard.said == [f"Stopping: waits for 1 task at 1 host, for 7 s at most. {AGAIN}"]


async def test_with_a_store_tasks_at_hosts_go_on(kept):
    await kept.run("one", 2)
    await kept.end()
    assert kept.said[-1] == f"Stopping: no task has to end first. 2 tasks at 1 host go on. {AGAIN}"


async def test_tasks_of_the_executor_are_waited_for_in_any_case(kept):
    await kept.run("taskyard:tabs", 2, built_in=True)
    await kept.run("one", 1)
    await kept.end()
    expected = "Stopping: waits for 2 tasks of the tab executor, for 300 s at most. 1 task at 1 host goes on."
    assert kept.said[-1] == f"{expected} {AGAIN}"


async def test_with_a_grace_period_of_the_call_both_are_waited_for(kept):
    await kept.run("taskyard:tabs", 1, built_in=True)
    await kept.run("one", 1)
    kept.draining.begin(9)
    kept.draining.hurry.set()
    await kept.draining.wait()
    expected = "Stopping: waits for 1 task at 1 host and 1 task of the tab executor, for 9 s at most."
    assert kept.said == [f"{expected} {AGAIN}"]


@pytest.mark.memory_store
async def test_it_says_every_so_often_what_is_left(yard, monkeypatch):
    monkeypatch.setattr(draining, "SAY_SECS", 0.01)
    await yard.run("one", 2)
    yard.draining.begin()
    waiting = asyncio.create_task(yard.draining.wait())
    await until(lambda: len(yard.said) >= 2)
    assert yard.said[1] == "Still waits for 2 tasks at 1 host, 300 s left."
    yard.draining.hurry.set()
    await waiting


async def test_a_signal_after_a_call_that_began_it_changes_nothing_but_the_next_one_does(yard):
    yard.draining.begin(60)
    assert not yard.draining.on_signal()
    assert not yard.draining.hurry.is_set()
    assert not yard.draining.on_signal()
    assert yard.draining.hurry.is_set()
    assert yard.said == ["Stops at once."]
