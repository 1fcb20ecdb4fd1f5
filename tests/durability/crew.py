"""Everybody who uses one namespace of a yard: writers, hosts, an operator, a planner and onlookers, and their notes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from taskyard.v1.lease_pb2 import ListLeasesRequest
from taskyard.v1.stats_pb2 import GetStatsRequest
from taskyard.v1.target_pb2 import ListTargetsRequest, Target
from taskyard.v1.task_pb2 import ListTasksRequest
from tests.environment import without_settings
from tools.releases import Installed

from .doors import Answer, Doors
from .history import Event, FinalState, Json, Outcome, Recorder, read_events
from .mixture import Mixture
from .onlookers import Reader, Receiver, Watcher, name_of_end
from .operators import Operator, Planner
from .writers import RestWriter, StreamWriter, UnaryWriter, Writer
from .yard import Yard

ROOT: Final = Path(__file__).parents[2]
PRESENT: Final = Installed(ROOT, Path(sys.prefix))
AGENT: Final = Path(__file__).with_name("released_agent.py")
PROGRAMS_LOG: Final = "programs.log"
OPEN: Final = ("pending", "executing")
LIVE: Final = "pending,queued,assigned,running,paused"
TOLD_SECS: Final = 20.0
"""How long webhooks and watches may take to tell the last ends."""
LEAVE_SECS: Final = 15.0
AGAIN_SECS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Size:
    """How many do what: writers of each kind, hosts of each kind with their leases in seconds, seconds of schedules.

    `moves` says whether an operator cancels and pauses tasks at random. With a `release` every second host with a
    stream has its SDK, and so has one more agent.
    """

    kinds: tuple[type[Writer], ...] = (RestWriter, UnaryWriter, StreamWriter)
    writers: int = 2
    pause_secs: float = 0.4
    stream_hosts: tuple[int, ...] = (3, 10)
    unary_hosts: tuple[int, ...] = (3, 8)
    schedules: tuple[float, ...] = (1.0, 1.0, 2.0)
    slots: int = 8
    moves: bool = True
    release: Installed | None = None


class Crew:
    """All callers of a namespace. `folder` gets their notes, a file each."""

    def __init__(self, yard: Yard, namespace: str, folder: Path, seed: int, size: Size) -> None:
        self.watchers: list[Watcher] = []
        self._yard = yard
        self._namespace = namespace
        self._folder = folder / namespace
        self._chance = random.Random(seed)
        self._size = size
        self._doors = Doors(yard.grpc, yard.rest, namespace)
        self._writers: list[Writer] = []
        self._writing: list[asyncio.Task[None]] = []
        self._planning: asyncio.Task[None] | None = None
        self._background: list[asyncio.Task[None]] = []
        self._hosts: list[asyncio.subprocess.Process] = []
        self._released_agent: asyncio.subprocess.Process | None = None
        self._folder.mkdir(parents=True)

    async def start(self) -> None:
        """Let everybody begin. The yard must serve; the watches begin before the first task."""
        doors, chance = self._doors, self._chance
        self._receiver = Receiver(self._recorder("receiver"))
        callback_url = await self._receiver.open()
        for number, states in enumerate(("", "done,failed,cancelled")):
            watcher = Watcher(doors, self._recorder(f"watcher-{number}"), states)
            self.watchers.append(watcher)
            self._begin(watcher.run())
        async with asyncio.timeout(TOLD_SECS):
            for watcher in self.watchers:
                await watcher.ready.wait()
        self._planner = Planner(doors, self._recorder("planner"), chance)
        for every_secs in self._size.schedules:
            await self._planner.make(every_secs)
        self._planning = asyncio.create_task(self._planner.run())
        await self._start_hosts()
        for kind in self._size.kinds:
            for number in range(self._size.writers):
                name = f"{kind.__name__}-{number}"
                mixture = Mixture(random.Random(chance.random()), name, callback_url)
                writer = kind(doors, mixture, self._recorder(name), self._size.pause_secs)
                self._writers.append(writer)
                self._writing.append(asyncio.create_task(writer.run()))
        if self._size.release is not None:
            where = (self._yard.grpc, self._namespace, "released-agent", str(self._size.pause_secs))
            self._released_agent = await self._run(self._size.release, "released-agent", "-P", str(AGENT), *where)
        self._operator = Operator(doors, self._recorder("operator"), self._choose, chance)
        self._operator.calm = not self._size.moves
        self._operating = self._begin(self._operator.run())
        self._begin(Reader(doors, self._recorder("reader"), self._choose, 0.05).run())

    def check(self) -> None:
        """Raise what somebody met who should go on for ever."""
        for task in (*self._background, *self._writing, self._planning):
            if task is not None and task.done() and not task.cancelled():
                task.result()
        for host in self._hosts:
            assert host.returncode is None, f"a host ended with {host.returncode}"
        if (agent := self._released_agent) is not None:
            assert not agent.returncode, f"an agent of the release ended: {(self._folder / PROGRAMS_LOG).read_text()}"

    async def settle(self, secs: float) -> FinalState:
        """Let all work be finished within this time, and return what the server shows then."""
        async with asyncio.timeout(secs):
            self._operator.calm = True
            self._planner.stopping.set()
            for writer in self._writers:
                writer.stopping.set()
            assert self._planning is not None
            await asyncio.gather(*self._writing, self._planning)
            if self._released_agent is not None:
                self._released_agent.terminate()
                await self._released_agent.wait()
                self.check()
            while not await self._is_at_rest():
                self.check()
                await asyncio.sleep(0.2)
            self._operating.cancel()
            await asyncio.wait({self._operating})
            assert await self._is_at_rest(), await self._live() or await self._blocked()
            tasks = await self._all(self._doors.tasks.ListTasks, ListTasksRequest(history=self._yard.keeps), "tasks")
            await self._until_told(tasks)
        stats = await self._sure(self._doors.stats.GetStats, GetStatsRequest())
        leases = await self._all(self._doors.leases.ListLeases, ListLeasesRequest(), "leases")
        triggers = await self._planner.look(until_told=True)
        at = time.monotonic()
        tasks = await self._all(self._doors.tasks.ListTasks, ListTasksRequest(history=self._yard.keeps), "tasks")
        kept = [task for task in tasks if task["state"] != "rejected"]
        final = FinalState(at=at, tasks=kept, triggers=triggers, stats=stats.body, leases=leases)
        # Beside the histories, so that they can be checked again.
        (self._folder / "final.json").write_text(json.dumps(asdict(final)))
        return final

    async def stop(self) -> None:
        """Send everybody home."""
        tasks = [*self._background, *self._writing, *([] if self._planning is None else [self._planning])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        programs = self._hosts if self._released_agent is None else [*self._hosts, self._released_agent]
        for program in programs:
            if program.returncode is None:
                program.send_signal(signal.SIGTERM)
        for program in programs:
            try:
                async with asyncio.timeout(LEAVE_SECS):
                    await program.wait()
            except TimeoutError:
                program.kill()
                await program.wait()
        await self._receiver.close()
        await self._doors.close()

    @property
    def unknown(self) -> Counter[str]:
        """What its callers of plain calls were said where the outcome is unknown, and how often."""
        return self._doors.unknown

    def history(self) -> list[Event]:
        """What everybody noted."""
        return read_events(sorted(self._folder.glob("*.jsonl")))

    async def _start_hosts(self) -> None:
        hosts = [("stream_host", secs) for secs in self._size.stream_hosts]
        hosts += [("unary_host", secs) for secs in self._size.unary_hosts]
        for number, (kind, lease_secs) in enumerate(hosts):
            name = f"{kind}-{number}"
            where = (self._yard.grpc, self._namespace, name, str(self._size.slots), str(lease_secs))
            release = self._size.release if kind == "stream_host" and number % 2 else None
            self._hosts.append(await self._run(release or PRESENT, name, "-m", f"tests.durability.{kind}", *where))

    async def _run(self, version: Installed, name: str, *words: str) -> asyncio.subprocess.Process:
        """Run a program of the tests of a version, by its SDK; its last argument is the file of its notes."""
        paths = os.pathsep.join(sys.path) if version is PRESENT else str(version.tree)
        with (self._folder / PROGRAMS_LOG).open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(version.python, *words, str(self._folder / f"{name}.jsonl")),
                cwd=version.tree,
                env=without_settings() | {"PYTHONPATH": paths},
                stdout=log,
                stderr=log,
            )

    async def _is_at_rest(self) -> bool:
        """True if no trigger is open, no task is live, and no target waits for somebody.

        A trigger becomes a task, a task may block its target, and the operator may queue what blocks a target: all are
        read in the order in which they become one another, and without an operator in between.
        """
        async with self._operator.at_work:
            if any(trigger["state"] in OPEN for trigger in await self._planner.look(until_told=True)):
                return False
            return not (await self._blocked() or await self._live() or await self._blocked())

    async def _live(self) -> Json:
        return (await self._sure(self._doors.tasks.ListTasks, ListTasksRequest(state=LIVE, page_size=1))).body.get(
            "tasks"
        )

    async def _blocked(self) -> Json:
        request = ListTargetsRequest(status=Target.Status.blocked, page_size=1)
        return (await self._sure(self._doors.targets.ListTargets, request)).body.get("targets")

    async def _until_told(self, tasks: list[dict[str, Json]]) -> None:
        """Wait until webhooks and watches have told all ends, or long enough: then the rules say what is missing."""
        give_up_at = time.monotonic() + TOLD_SECS
        ends = {name_of_end(task) for task in tasks}
        posted = {name_of_end(task) for task in tasks if "callbackUrl" in task}
        while time.monotonic() < give_up_at:
            if posted <= self._receiver.told and all(ends <= watcher.ends for watcher in self.watchers):
                return
            await asyncio.sleep(0.1)

    async def _all(self, method: Any, request: Any, field: str) -> list[dict[str, Json]]:
        items: list[dict[str, Json]] = []
        while True:
            answer = await self._sure(method, request)
            items += answer.body.get(field, ())
            if not answer.body.get("nextPageToken"):
                return items
            request.page_token = answer.body["nextPageToken"]

    async def _sure(self, method: Any, request: Any) -> Answer:
        """The answer to a reading call, which is repeated while nobody serves."""
        answer = await self._doors.call(method, request)
        while answer.outcome is Outcome.UNKNOWN:
            await asyncio.sleep(AGAIN_SECS)
            answer = await self._doors.call(method, request)
        assert answer.outcome is Outcome.ACKNOWLEDGED, f"{request}: {answer.code}"
        return answer

    def _choose(self) -> str | None:
        """One of the tasks that were acknowledged last."""
        acknowledged = self._chance.choice(self._writers).acknowledged if self._writers else None
        return self._chance.choice(acknowledged) if acknowledged else None

    def _recorder(self, who: str) -> Recorder:
        return Recorder(self._folder / f"{who}.jsonl", who)

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.append(task)
        return task
