"""A trial of replicas: everybody uses several namespaces while misfortunes happen, and what clients saw decides.

    python -m tests.replicas.trial --minutes 30 --seed 7 [--kinds killed slow_database ...]

The rules are those of tests/durability/checker.py, for each namespace. Beside them: all replicas show the same in the
end, `taskyard store check` finds nothing, none has ended by itself, and no call of the SDK has failed whose caller has
patience.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar, Final

from taskyard import Client, DeadlineExceeded, Unavailable
from taskyard.v1.task_pb2 import ListTasksRequest
from tests.durability.checker import broken_rules, summary, told
from tests.durability.crew import PRESENT, Crew, Size
from tests.durability.doors import Doors
from tests.durability.history import Event, FinalState, Outcome
from tests.durability.sdk_agent import SdkAgent
from tests.durability.trials import ROOM, SETTINGS
from tests.durability.writers import RestWriter, StreamWriter, UnaryWriter

from .cluster import Cluster, Member
from .misfortunes import KINDS, Misfortunes

FAILOVER_SECS: Final = 5.0
PATIENCE_SECS: Final = 120.0
CALL_SECS: Final = 15.0
SETTLE_SECS: Final = 120.0


class PatientAgent(SdkAgent):
    """One whose patience is longer than any misfortune; `failed` has the calls that failed all the same."""

    failed: ClassVar[Counter[str]] = Counter()

    def new_client(self) -> Client:
        address, namespace = self.doors.grpc_address, self.doors.namespace
        return Client(address, namespace=namespace, patience=PATIENCE_SECS, timeout=CALL_SECS)

    async def write(self) -> None:
        try:
            await super().write()
        except DeadlineExceeded:
            pass  # What came to a replica that stands still is not answered in time, and may have been done.
        except Unavailable as error:
            self.failed[str(error)] += 1


LARGE: Final = Size(
    (RestWriter, UnaryWriter, StreamWriter, PatientAgent), writers=1, stream_hosts=(3, 10), unary_hosts=(3, 8)
)
SMALL: Final = Size(
    (RestWriter, UnaryWriter, PatientAgent), writers=1, pause_secs=1.0, stream_hosts=(5,), unary_hosts=(4,)
)
SIZES: Final[Mapping[str, Size]] = {"default": LARGE, "second": SMALL, "third": SMALL, "fourth": SMALL}
Faults = Callable[[Cluster, Callable[[], None]], Awaitable[Counter[str]]]


def settings(failover_secs: float = FAILOVER_SECS) -> dict[str, Any]:
    """Of all replicas: those of the trials of one server, and when others take over."""
    daemon = {**SETTINGS["daemon"], "maxQueuedTriggers": ROOM}
    return {**SETTINGS, "daemon": daemon, "store": {"failoverSecs": failover_secs}}


async def hold_trial(
    folder: Path,
    seed: int,
    faults: Faults,
    sizes: Mapping[str, Size] = SIZES,
    given: Mapping[str, Any] | None = None,
    python: Path = PRESENT.python,
    replicas: int = 3,
) -> list[tuple[list[Event], FinalState]]:
    """Let things happen to replicas, let all work be finished, and assert that nobody saw a broken promise.

    Returns what was seen in each namespace, and its state in the end.
    """
    began = time.monotonic()
    PatientAgent.failed.clear()
    async with AsyncExitStack() as stack:
        cluster = Cluster(folder, settings() if given is None else given, replicas, python)
        stack.push_async_callback(cluster.stop)
        await cluster.start()
        crews = [
            Crew(cluster, namespace, folder, seed * 100 + number, size)  # type: ignore[arg-type]
            for number, (namespace, size) in enumerate(sizes.items())
        ]
        for crew in crews:
            stack.push_async_callback(crew.stop)
            await crew.start()
        happened = await faults(cluster, lambda: _check(crews, cluster.members))
        ended = time.monotonic()
        try:
            finals = await asyncio.gather(*(crew.settle(SETTLE_SECS) for crew in crews))
        except TimeoutError:
            raise AssertionError(f"seed {seed}: not all is finished after {SETTLE_SECS:g} s, see {folder}") from None
        settled = time.monotonic()
        await _assert_that_all_show_the_same(cluster, list(sizes), finals)
        await cluster.check_store()
    print(f"\nseed {seed}: {dict(happened)} in {ended - began:.0f} s and {settled - ended:.0f} s to finish")
    starts = [secs for member in cluster.members for secs in member.yard.start_secs]
    print(f"starts took {min(starts):.1f}, {statistics.median(starts):.1f} and {max(starts):.1f} s")
    broken = f"calls of the SDK failed: {dict(PatientAgent.failed)}\n" if PatientAgent.failed else ""
    seen = [(crew.history(), final) for crew, final in zip(crews, finals, strict=True)]
    for namespace, crew, (history, final) in zip(sizes, crews, seen, strict=True):
        print(f"{namespace}: {summary(history, final)}")
        print(f"watches went on: {[watcher.resumed for watcher in crew.watchers]}; unknown: {crew.unknown}")
        broken += "".join(f"{namespace}: {line}\n" for line in told(broken_rules(history, final)).splitlines())
        broken += "".join(f"{namespace}: a cursor was not known\n" for each in crew.watchers if each.cursors_expired)
    assert not broken, f"seed {seed}, {folder}:\n{broken}"
    for member in cluster.members:
        log = member.yard.log.read_text(errors="replace")
        at = log.find("Traceback")
        assert at == -1, f"{member.yard.log}: {log[max(0, at - 500) : at + 3_000]}"
    return seen


def _check(crews: Sequence[Crew], members: Sequence[Member]) -> None:
    """Raise what somebody met who should go on for ever."""
    for crew in crews:
        crew.check()
    for member in members:
        yard = member.yard
        assert yard.is_running, f"{member.name} ended by itself with {yard.exit_code}: {yard.last_lines()}"


async def _assert_that_all_show_the_same(
    cluster: Cluster, namespaces: Sequence[str], finals: Sequence[FinalState]
) -> None:
    """Whichever replica is asked, it shows what the one in front of which was listed has shown."""
    for member in cluster.members:
        for namespace, final in zip(namespaces, finals, strict=True):
            doors = Doors(member.place.grpc, f"http://{member.place.rest}", namespace)
            expected = {task["taskId"]: task["state"] for task in final.tasks}
            found: dict[str, str] = {}
            request = ListTasksRequest(history=True)
            while True:
                answer = await doors.call(doors.tasks.ListTasks, request)
                assert answer.outcome is Outcome.ACKNOWLEDGED, f"{member.name}: {answer.code}"
                found |= {task["taskId"]: task["state"] for task in answer.body.get("tasks", ())}
                if not answer.body.get("nextPageToken"):
                    break
                request.page_token = answer.body["nextPageToken"]
            await doors.close()
            missing = {task_id for task_id, state in expected.items() if found.get(task_id) != state}
            assert not missing, f"{member.name} shows {namespace} otherwise: {sorted(missing)[:5]}"


async def main() -> None:
    """Hold one by hand."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failover-secs", type=float, default=FAILOVER_SECS)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--folder", type=Path, help="where all logs and notes go; by default one that is made")
    given = parser.parse_args()
    folder: Path = given.folder or Path(tempfile.mkdtemp(prefix="taskyard-trial-"))
    print(f"in {folder}", flush=True)

    async def happen(cluster: Cluster, check: Callable[[], None]) -> Counter[str]:
        misfortunes = Misfortunes(cluster, random.Random(given.seed))
        return await misfortunes.go_on(given.minutes * 60, check, given.kinds)

    await hold_trial(folder, given.seed, happen, given=settings(given.failover_secs))


if __name__ == "__main__":
    asyncio.run(main())
