"""Every engine under one contract: the tests of this folder run against each of `ENGINES`, with a clock that they move.

A new engine is done when it stands in the list and the tests are green.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission, TaskOptions
from taskyard_server.engine.memory.engine import MemoryEngine
from taskyard_server.engine.port import Engine

ENGINES = {"memory": MemoryEngine}
START = 1_700_000_000.0
TURNS = 12
"""So many turns of the loop are enough for everything that follows from a command."""

MakeEngine = Callable[..., Engine]


class Clock:
    """The time of the engine and of the event loop. It stands still until a test lets it pass."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def loop_time(self) -> float:
        """The loop adds its resolution, a nanosecond, which seconds since the epoch are too large to hold."""
        return self.now - START

    async def settle(self) -> None:
        """Let everything happen that follows from what was done."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def pass_time(self, secs: float) -> None:
        """Let time pass, and everything happen that comes due."""
        self.now += secs
        await self.settle()


@pytest.fixture
async def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The loop goes by it too: what waits or sleeps does so on this clock."""
    clock = Clock()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", clock.loop_time)
    return clock


@pytest.fixture(params=ENGINES)
async def make_engine(request: pytest.FixtureRequest, clock: Clock) -> AsyncIterator[MakeEngine]:
    """Makes an engine with the limits that a test names."""
    made: list[Engine] = []

    def make(*, seed: int | None = None, wall: Callable[[], float] | None = None, **limits: Any) -> Engine:
        made.append(ENGINES[request.param](Limits(**limits), clock, seed, wall))
        return made[-1]

    yield make
    for engine in made:
        await engine.admin.close()


@pytest.fixture
async def engine(make_engine: MakeEngine) -> Engine:
    """An engine with the documented limits."""
    return make_engine()


@pytest.fixture(params=ENGINES)
async def make_real_engine(request: pytest.FixtureRequest) -> AsyncIterator[MakeEngine]:
    """Makes an engine on its own clock, in real time."""
    made: list[Engine] = []

    def make(**limits: Any) -> Engine:
        made.append(ENGINES[request.param](Limits(**limits)))
        return made[-1]

    yield make
    for engine in made:
        await engine.admin.close()


@pytest.fixture
def asked() -> Callable[..., Submission]:
    """Writes a submission; the keywords are fields of `Submission` and of `TaskOptions`."""

    def write(agent: str = "ann", action: str = "click", **wish: Any) -> Submission:
        options = {field: wish.pop(field) for field in TaskOptions._fields if field in wish}
        return Submission(agent, action, **wish, options=TaskOptions(**options))

    return write


@pytest.fixture
async def host(engine: Engine) -> str:
    """The id of a host of the namespace `default` that runs everything."""
    return (await engine.hosts.register("default", "host", None, HostProfile())).id
