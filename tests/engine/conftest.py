"""The contract of engines: the tests of this folder run against each of `ENGINES`, with a clock that they control.

A new engine is complete when it is in `ENGINES` and the tests pass.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from math import inf
from typing import Any

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine import alarm
from taskyard_server.engine.engine import Engine
from taskyard_server.store import committer
from tests.live import live
from tests.store.dict_store import DictStore

ENGINES = ("memory", "kept")
START = 1_700_000_000.0
LOOP_TURNS = 40
"""Turns of the event loop that suffice to handle all consequences of a command."""

MakeEngine = Callable[..., Engine]


class Clock:
    """The clock of the engine and of the event loop. It stands still until a test advances it."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def loop_time(self) -> float:
        """The time of the loop. It starts at 0, since its resolution is too fine for seconds since the epoch."""
        return self.now - START

    async def run_pending(self) -> None:
        """Run the event loop until the consequences of all commands are handled."""
        for _ in range(LOOP_TURNS):
            await asyncio.sleep(0)

    async def advance(self, secs: float) -> None:
        """Move the clock on, and handle everything that comes due."""
        self.now += secs
        await self.run_pending()


def _engine(kind: str, limits: Limits, *details: Any, private: bool = False) -> Engine:
    """An engine that keeps nothing, or one that keeps everything in a dict."""
    engine = Engine(limits, *details, store=DictStore() if kind == "kept" else None, private=private)
    opening = engine.open()
    # An empty store is open without a turn of the event loop.
    with pytest.raises(StopIteration):
        opening.send(None)
    return engine


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that also drives the timers of the event loop."""
    clock = Clock()
    # Where the machine is busy, a stall of the real process must not delay what comes due by this clock.
    monkeypatch.setattr(alarm, "STALL_SECS", inf)
    # A commit that waits for more would wait for the test to advance the clock.
    monkeypatch.setattr(committer, "GATHER_SECS", 0.0)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock.loop_time)
    return clock


@pytest.fixture(params=ENGINES)
async def make_engine(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[MakeEngine]:
    """Makes engines with the limits that a test sets."""
    engines: list[Engine] = []

    def make(
        *,
        seed: int | None = None,
        wall: Callable[[], float] | None = None,
        private: bool = False,
        **limits: Any,
    ) -> Engine:
        engines.append(_engine(request.param, Limits(**limits), clock, seed, wall, private=private))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.admin.close()


@pytest.fixture
async def engine(make_engine: MakeEngine) -> Engine:
    """An engine with the default limits."""
    return make_engine()


@pytest.fixture(params=ENGINES)
async def make_real_engine(request: pytest.FixtureRequest) -> AsyncIterator[MakeEngine]:
    """Makes engines that run on their own clock, in real time."""
    engines: list[Engine] = []

    def make(**limits: Any) -> Engine:
        engines.append(_engine(request.param, Limits(**limits)))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.admin.close()


@pytest.fixture
def submission() -> Callable[..., Submission]:
    """Makes submissions. Keywords are fields of `Submission` or of `TaskOptions`."""

    def make(agent: str = "ann", action: str = "click", **fields: Any) -> Submission:
        options = {field: fields.pop(field) for field in TaskOptions._fields if field in fields}
        return Submission(agent, action, **fields, options=TaskOptions(**options))

    return make


@pytest.fixture
async def host(engine: Engine) -> str:
    """The id of a host in the namespace `default` that may run every task."""
    return (await engine.hosts.register("default", "host", None, HostProfile(), show=live)).id
