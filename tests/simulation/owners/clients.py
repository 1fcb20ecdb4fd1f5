"""The clients of the simulation: agents, hosts, watchers, and who makes schedules. None ever gives up.

They call the replica that owns the namespace, as gateways do that know it, or any other one by chance.
"""

from __future__ import annotations

import asyncio
import contextlib
from math import inf
from random import Random
from typing import TYPE_CHECKING, Any

from google.protobuf.struct_pb2 import Value

from taskyard_server.core.errors import (
    AlreadyExists,
    Conflict,
    CursorExpired,
    LeaseLost,
    NotFound,
    NotOwner,
    Refusal,
    Unavailable,
)
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import IdempotencyKey, TaskOptions
from taskyard_server.replicas.ownership import MISSES_SECS

from .network import NoAnswer
from .requests import read_message, tasks_in
from .witness import ENDS, Granted, Held, Watched

if TYPE_CHECKING:
    from .replica import SimulatedReplica
    from .simulation import OwnersSimulation

SELDOM = 0.15
"""The chance that a call goes to any replica."""


class Client:
    """Something that calls replicas about one namespace until an answer says something."""

    def __init__(self, simulation: OwnersSimulation, namespace: str, name: str) -> None:
        self.simulation = simulation
        self.namespace = namespace
        self.name = name
        self.witness = simulation.witness
        self.random = Random(f"{name} of {namespace} in {simulation.seed}")

    async def call(self, method: str, request: Any, patience_secs: float = 6.0, **more: Any) -> Any:
        """One call; raises `NoAnswer` and refusals."""
        if (replica := self.pick()) is None:
            raise NoAnswer
        return await self.simulation.network.call(replica, method, self.namespace, request, patience_secs, **more)

    async def insist(self, method: str, request: Any) -> Any:
        """Repeat a call until its outcome is known; raises refusals that say something."""
        while True:
            try:
                return await self.call(method, request)
            except (NoAnswer, Unavailable) as error:
                await asyncio.sleep(self.pause(error))

    def pause(self, error: Exception) -> float:
        """How long to wait after an error."""
        return 0.05 if isinstance(error, NotOwner) else self.random.uniform(0.1, 0.6)

    def pick(self) -> SimulatedReplica | None:
        """Whom to call, if there is anybody."""
        replicas = self.simulation.replicas
        if self.random.random() >= SELDOM:
            owner = next((its for its in self.simulation.rows.owners.values() if its.name == self.namespace), None)
            for replica in replicas:
                if owner is not None and owner.instance is not None and owner.instance.startswith(f"{replica.name}-"):
                    return replica
        return self.random.choice(replicas) if replicas else None


class Agent(Client):
    """Submits tasks under keys, looks at them, and cancels some."""

    async def run(self, count: int) -> None:
        """Submit so many tasks."""
        for number in range(count):
            await asyncio.sleep(self.random.expovariate(1.2))
            await self._submit(f"{self.name} {number}")

    async def _submit(self, key: str) -> None:
        draw = self.random
        options = TaskOptions(
            key=IdempotencyKey(key, key.encode()),
            target=f"target {draw.randrange(2)}" if draw.random() < 0.5 else None,
            callback_url="https://example.com/done" if draw.random() < 0.3 else None,
            retry=RetryPolicy(3, 0.5, 2.0, 2.0) if draw.random() < 0.5 else None,
        )
        submission = Submission(self.name, "work", options=options)
        task = await self.insist("SubmitTask", submission)
        self.witness.submitted(self.namespace, key, task)
        if draw.random() < 0.3:
            self.witness.submitted(self.namespace, key, await self.insist("SubmitTask", submission))
        for _ in range(draw.randrange(3)):
            await asyncio.sleep(draw.expovariate(1.0))
            await self._read(task.id)
        if draw.random() < 0.15:
            with contextlib.suppress(Conflict, NotFound):
                await self.insist("CancelTask", task.id)
            await self._read(task.id)

    async def _read(self, task_id: str) -> None:
        floor = self.witness.floor(task_id)
        assert floor is not None
        try:
            task = await self.insist("GetTask", task_id)
        except NotFound:
            task = None
        self.witness.read(floor, task)


class Host(Client):
    """Claims tasks, works on them under their leases, and reports."""

    def __init__(self, simulation: OwnersSimulation, namespace: str, name: str) -> None:
        super().__init__(simulation, namespace, name)
        self._works: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work for ever."""
        await self.insist("RegisterHost", self.name)
        while True:
            asked_after = self.witness.last_token.get(self.namespace, 0)
            request = (self.name, 1 + self.random.randrange(2), self.random.choice([0.0, 1.0, 3.0]))
            try:
                leases = await self.call("ClaimTasks", request, 5.0)
            except NotFound:
                await self.insist("RegisterHost", self.name)
                continue
            except (NoAnswer, Unavailable) as error:
                await asyncio.sleep(self.pause(error))
                continue
            for lease in leases:
                held = self.witness.granted(self.namespace, self.name, lease, asked_after)
                work = asyncio.get_running_loop().create_task(self._work(lease, held))
                self._works.add(work)
                work.add_done_callback(self._done)
            await asyncio.sleep(self.random.uniform(0.02, 0.5))

    def _done(self, work: asyncio.Task[None]) -> None:
        self._works.discard(work)
        if not work.cancelled():
            work.result()

    async def _work(self, lease: Granted, held: Held) -> None:
        draw, task = self.random, lease.task
        kind = draw.choices([ReportKind.COMPLETED, ReportKind.FAILED, ReportKind.RELEASED, None], weights=[8, 2, 1, 1])[
            0
        ]
        if draw.random() < 0.5:
            await self._report(Report(ReportKind.STARTED, task.id, lease.token), held)
        for _ in range(draw.choice([0, 0, 1, 3, 6])):
            await asyncio.sleep(draw.uniform(0.2, 1.5))
            if not held.holds(self.simulation.time.now):
                break
            try:
                until = await self.call("RenewLease", (self.name, task.id, lease.token), 2.0)
                held.until = max(held.until, until)
            except (NoAnswer, Unavailable):
                continue
            except (LeaseLost, NotFound):
                await self._stop(lease, held)
                return
        if kind is None:
            # It has crashed, or is cut off: nothing more is heard of it.
            return
        result = Value(string_value=f"{self.name} {lease.token}").SerializeToString()
        report = Report(kind, task.id, lease.token, payload=result if kind is ReportKind.COMPLETED else None)
        if kind is ReportKind.FAILED:
            report = report._replace(error="it failed", retryable=draw.random() < 0.7)
        # What it reports it works on no more, whatever comes of the report.
        held.is_over = True
        outcome = await self._report(report, held)
        if kind is ReportKind.COMPLETED and outcome in ENDS:
            self.witness.ends(self.namespace, task.id, (outcome, result))

    async def _stop(self, lease: Granted, held: Held) -> None:
        held.is_over = True
        await self._report(Report(ReportKind.RELEASED, lease.task.id, lease.token), held)

    async def _report(self, report: Report, held: Held) -> str | None:
        try:
            outcome = await self.insist("Report", (self.name, report))
        except (NotFound, LeaseLost, Conflict) as refusal:
            outcome = refusal
        if isinstance(outcome, Refusal):
            if report.kind is ReportKind.STARTED:
                held.is_over = True
            return None
        assert isinstance(outcome, str)
        return outcome


class Watcher(Client):
    """Watches a namespace for ever, from one replica to the next, by its cursor."""

    def __init__(self, simulation: OwnersSimulation, namespace: str, name: str) -> None:
        super().__init__(simulation, namespace, name)
        self._cursor = ""
        self._watched = Watched()
        self.witness.watchers.append((namespace, self._watched))

    async def run(self) -> None:
        """Watch."""
        while True:
            try:
                patience_secs = self.random.uniform(3.0, 30.0)
                await self.call("WatchTasks", self._cursor, patience_secs, on_message=self._hear)
            except CursorExpired:
                self._cursor = ""
                self._watched.since = inf
                self.simulation.happened["cursor expired"] += 1
            except (NoAnswer, Refusal) as error:
                await asyncio.sleep(self.pause(error))

    def _hear(self, message: bytes) -> None:
        read = read_message(message)
        if read.HasField("cursor"):
            self._cursor = read.cursor
            self._watched.since = min(self._watched.since, self.simulation.time.now)
        for task in tasks_in(message):
            if task.state in ENDS:
                self._watched.ends.add(task.id)


class Janitor(Client):
    """Cancels what has failed and blocks its target."""

    async def run(self) -> None:
        """Do so for ever."""
        while True:
            await asyncio.sleep(1.0)
            for task_id in self.witness.blocking(self.namespace):
                with contextlib.suppress(Conflict, NotFound):
                    await self.insist("CancelTask", task_id)


class Planner(Client):
    """Makes a schedule, and deletes it at the end."""

    def __init__(self, simulation: OwnersSimulation, namespace: str, name: str) -> None:
        super().__init__(simulation, namespace, name)
        self._made = asyncio.Event()

    async def make(self, interval: str) -> None:
        """Make it."""
        # If the first call had made it, without an answer, it is refused.
        with contextlib.suppress(AlreadyExists, Conflict):
            await self.insist("CreateSchedule", (self.name, interval))
        self._made.set()

    async def delete(self) -> None:
        """Delete it, once it is known to be there: before that, a repeated call would make it anew after its end."""
        if not self._made.is_set():
            await self._made.wait()
            # A replica may have missed the namespace just before, and remember that for a moment.
            await asyncio.sleep(2 * MISSES_SECS)
        with contextlib.suppress(NotFound):
            await self.insist("DeleteSchedule", self.name)
