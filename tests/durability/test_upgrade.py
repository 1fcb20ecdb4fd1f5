"""An upgrade: SIGTERM, and a new process on the same store, while everybody goes on.

The first leads from the wheel of a release to that of this tree, with agents and hosts by the SDKs of both; `UPGRADES`
says how many follow. Settings that matter are those of a yard that nobody has tuned, aside from `reconnectGraceSecs`:
how long a start takes depends on the machine, and what is decided here does not.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskyard import Client, RetryPolicy, Task
from tests.versions import released
from tools.releases import Installed

from .crew import Crew, Size
from .evidence import Evidence
from .history import Event, FinalState, Grant, Outcome, Reading, Report, SdkCall, Work
from .sdk_agent import SdkAgent
from .trials import SETTINGS, hold_trial, yard_in
from .writers import RestWriter
from .yard import Yard, YardDied

pytestmark = [pytest.mark.gate("whole yards that are killed"), pytest.mark.long]

SEED = int(os.environ.get("SEED", "1"))
UPGRADES = int(os.environ.get("UPGRADES", "0"))
OF_OLDER_FORMAT = "0.2.0"
SIZE = Size(
    kinds=(SdkAgent, RestWriter), writers=3, pause_secs=0.1, stream_hosts=(60, 90), unary_hosts=(60,), moves=False
)
TUNED = ("reconnectGraceSecs", "startTimeoutSecs")
ENDS = ("completed", "failed")
Span = tuple[float, float]
GRACE_SECS = 50
"""Longer than any start takes, and shorter than any lease."""


@pytest.fixture(params=[None, pytest.param(OF_OLDER_FORMAT, marks=pytest.mark.deep("an older release"))])
def release(request: pytest.FixtureRequest) -> Installed:
    """The last release, and an older one."""
    return released(request.param)


@pytest.mark.long
@pytest.mark.timeout(180 + 20 * UPGRADES)
async def test_an_upgrade_loses_no_lease_pauses_nothing_and_fails_no_call(
    tmp_path: Path, release: Installed, present: Installed
) -> None:
    chance, spans, stops = random.Random(SEED), list[Span](), list[float]()

    async def upgrade_again_and_again(crews: list[Crew]) -> Counter[str]:
        for _ in range(1 + UPGRADES):
            await asyncio.sleep(chance.uniform(2, 4))
            for crew in crews:
                crew.check()
            yard.python = present.python
            spans.append(await upgrade(yard, stops))
        return Counter(upgrades=1 + UPGRADES)

    size = replace(SIZE, release=release)
    async with yard_in(tmp_path, settings=untuned(), python=release.python) as yard:
        seen = await hold_trial(yard, tmp_path, SEED, upgrade_again_and_again, (size, size))
    print(f"stops took {', '.join(f'{secs:.1f}' for secs in stops)} s")
    for history, _ in seen:
        tell_pauses(history, spans)
    for history, final in seen:
        assert {"released-agent", "stream_host-1"} <= {each.who for each in history}
        lost = leases_lost(history, final)
        assert not lost, told_of(lost, history, final)
        assert [each for each in history if isinstance(each, Reading) and is_paused(each)] == []
        assert (final.stats["metrics"].get("leasesExpired", 0), late_reports(history, final)) == (0, 0)


@pytest.mark.parametrize("version", [None, OF_OLDER_FORMAT])
async def test_a_release_goes_on_with_what_this_version_wrote_or_refuses_it_by_name(
    tmp_path: Path, version: str | None
) -> None:
    old = released(version)
    async with yard_in(tmp_path) as yard:
        async with Client(yard.grpc, agent_id="ann") as client:
            await client.submit("crawl", params={"n": 1}, labels={"a": "b"})
            await client.submit("crawl", target="door", retry=RetryPolicy(max_attempts=3))
            written = await tasks_shown(client)
        await yard.terminate()
        file = yard.data / "yard.db"
        content = file.read_bytes()
        yard.python = old.python
        refusal = await refusal_of(yard)
        if refusal is None:
            assert version != OF_OLDER_FORMAT
            async with Client(yard.grpc) as client:
                assert await tasks_shown(client) == written
        else:
            assert f"{file} was written by a newer Taskyard (schema " in refusal
            assert file.read_bytes() == content


async def refusal_of(yard: Yard) -> str | None:
    """Start a yard; what it says where it refuses."""
    try:
        await yard.start()
    except YardDied as died:
        return str(died)
    return None


async def tasks_shown(client: Client) -> list[Task]:
    """All that the yard lists, without the deadlines, which moved on while it was away."""
    return [replace(task, deadline=None) async for task in client.list()]


def untuned() -> dict[str, Any]:
    """The settings of trials, with those of others for how long a host may be away or take to start a task."""
    scheduler = {name: value for name, value in SETTINGS["scheduler"].items() if name not in TUNED}
    return {**SETTINGS, "scheduler": {**scheduler, "reconnectGraceSecs": GRACE_SECS}}


async def upgrade(yard: Yard, stops: list[float]) -> Span:
    """Stop the yard, and start it again; from when to when it was away."""
    began = time.monotonic()
    stops.append(await yard.terminate())
    assert yard.exit_code == 0, yard.last_lines()
    await yard.start()
    return began, time.monotonic()


def leases_lost(history: Sequence[Event], final: FinalState) -> list[Grant]:
    """The leases under which no end was taken. An end whose answer was lost with its stream may have been taken.

    A host with a stream that has not begun gives its lease back where the stream ends before the start is answered.
    """
    evidence = Evidence(history, final)
    ended = set()
    for each in evidence.of(Report):
        if each.kind not in ENDS or each.outcome is Outcome.REFUSED:
            continue
        if each.outcome is Outcome.ACKNOWLEDGED or was_taken(each, evidence.tasks[each.task_id]):
            ended.add((each.task_id, each.token))
    begun = {(each.task_id, each.token) for each in evidence.of(Work)}
    leases = {(each.task_id, each.token): each for each in evidence.of(Grant)}
    return [each for key, each in leases.items() if key not in ended and (key in begun or not each.streamed)]


def was_taken(report: Report, task: Mapping[str, Any]) -> bool:
    """True if an end shows with its task, or a failure with an attempt that another one followed."""
    errors = [attempt.get("error") for attempt in task.get("attempts", ())]
    return report.value == task.get("result", task.get("error")) or (report.kind == "failed" and report.value in errors)


def late_reports(history: Sequence[Event], final: FinalState) -> float:
    """How many reports were late. A report by call whose answer came too late is repeated, and late if it was taken."""
    unheard: set[tuple[str, int, str]] = set()
    repeats = 0
    for each in Evidence(history, final).of(Report):
        if each.who.startswith("unary_host"):
            key = (each.task_id, each.token, each.kind)
            repeats += key in unheard
            if each.outcome is Outcome.UNKNOWN:
                unheard.add(key)
    late = float(final.stats["metrics"].get("lateReports", 0))
    return max(0.0, late - repeats)


def told_of(leases: Sequence[Grant], history: Sequence[Event], final: FinalState) -> str:
    """All that was seen of the tasks of leases, aside from what reads have shown, and the tasks in the end."""
    ids = {lease.task_id for lease in leases}
    events = sorted((each for each in history if getattr(each, "task_id", None) in ids), key=lambda each: each.ended)
    seen = [str(each) for each in events if not isinstance(each, Reading)]
    return "\n".join([*seen, *(str(task) for task in final.tasks if task["taskId"] in ids)])


def is_paused(reading: Reading) -> bool:
    """True if a task was shown as paused."""
    return reading.task is not None and reading.task["state"] == "paused"


def tell_pauses(history: Sequence[Event], spans: Sequence[Span]) -> None:
    """Print how long the SDK's calls took that met an upgrade, and how long all others took."""
    print(f"it was away {', '.join(f'{until - since:.1f}' for since, until in spans)} s")
    late = [call.ended - until for since, until in spans for call in history if is_met_by(call, since, until)]
    print(f"the last answer to a call of before came {max(late, default=0):.1f} s after it was back")
    met: list[float] = []
    others: list[float] = []
    for call in history:
        if isinstance(call, SdkCall) and call.kind != "wait":
            is_met = any(is_met_by(call, since, until) for since, until in spans)
            (met if is_met else others).append(1000 * (call.ended - call.begun))
    for name, ms in (("met an upgrade", sorted(met)), ("did not", sorted(others))):
        assert ms
        print(f"{len(ms)} calls {name}: p50 {_at(ms, 50):.1f} ms, p99 {_at(ms, 99):.0f} ms, most {ms[-1]:.0f} ms")


def is_met_by(call: Event, since: float, until: float) -> bool:
    """True if a call of the SDK, other than one that waits for something else, was open while the yard was away."""
    return isinstance(call, SdkCall) and call.kind != "wait" and call.begun < until and call.ended > since


def _at(values: list[float], percent: int) -> float:
    """A percentile of sorted values."""
    return values[min(len(values) - 1, len(values) * percent // 100)]
