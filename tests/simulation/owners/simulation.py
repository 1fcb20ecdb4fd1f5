"""One seeded history of replicas that share a store, and of what happens to them, judged by a witness.

First everything goes wrong: replicas stand still, are killed, cut off, stopped in order, and their calls to the store
are slow, lost, or late. Then everything is well again, and all must come to rest. Every choice comes from the seed.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

import structlog

from taskyard_server.store.port import Table
from tests.replicas.shared_rows import SharedRows
from tests.replicas.virtual_time import Stuck, VirtualTime

from .clients import Agent, Host, Janitor, Planner, Watcher
from .network import Network
from .replica import FAILOVER_SECS, SimulatedReplica
from .witness import Broken, Witness

START: Final = 1_700_000_000.0
BAD_SECS: Final = 40.0
REST_SECS: Final = 120.0
MAX_SKEW_SECS: Final = 600.0
LAST_LINES: Final = 60


class Failure(AssertionError):
    """A promise was broken, or the replicas have crashed; names the seed."""

    def __init__(self, seed: int, at: float, why: str, story: list[str]) -> None:
        lines = "\n".join(f"  {line}" for line in story)
        super().__init__(
            f"seed {seed} at {at:.3f}: {why}\nwhat happened last:\n{lines}\n"
            f"to see it again: SEED={seed} pytest tests/simulation/owners/test_owners.py"
        )
        self.seed = seed
        self.why = why


class OwnersSimulation:
    """The history of one seed. `happened` counts what befell the replicas."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.happened: Counter[str] = Counter()
        self.story: deque[str] = deque(maxlen=LAST_LINES)
        self.time = VirtualTime(seed)
        self.random = Random(f"replicas of {seed}")
        self._store_rate = 1.0
        self._store_base = (0.0, START)
        self.rows = SharedRows(self._store_time)
        self.witness = Witness(self.rows, lambda: self.time.now, FAILOVER_SECS)
        self.network = Network(self.time, self.rows, self.witness, Random(f"network of {seed}"), self.note)
        self.replicas: list[SimulatedReplica] = []
        self._started = 0
        self._names = [f"r{number}" for number in range(self.random.choice([2, 3, 3]))]
        self._namespaces = [f"yard-{number}" for number in range(1 + self.random.randrange(3))]
        self._agents: list[Any] = []
        self._planners: list[Planner] = []

    def run(self) -> None:
        """Let it all happen; raises `Failure`."""
        before = structlog.get_config()
        structlog.configure(processors=[self._log])
        try:
            self._run()
        except Exception as error:
            error = self.witness.first_breach or error
            why = str(error) if isinstance(error, (Broken, Stuck)) else f"{type(error).__name__}: {error}"
            raise Failure(self.seed, self.time.now, why, list(self.story)) from error
        finally:
            structlog.configure(**before)
            self.time.close()

    def note(self, line: str) -> None:
        """Remember what happened, for a failure."""
        self.story.append(f"{self.time.now:8.3f} {line}")

    def _run(self) -> None:
        for name in self._names:
            self._start(name)
        self._begin_clients()
        while self.time.now < BAD_SECS:
            self._run_until(lambda: False, self.random.expovariate(0.7))
            self._befall()
        self.note("everything is well again")
        for name in self._names:
            self._heal(name)
        self._set_store_rate(1.0)
        for namespace in self._namespaces:
            self._begin(Janitor(self, namespace, "janitor").run())
        for planner in self._planners:
            self._agents.append(self.network.clients.create_task(planner.delete()))
        self._run_until(self._is_at_rest, REST_SECS)
        self.note("all has come to rest" if self._is_at_rest() else f"there is no rest after {REST_SECS:.0f} s")
        self._run_until(lambda: False, 8.0)
        if wrong := self.witness.at_rest():
            raise Broken("; ".join(wrong[:5]))

    def _run_until(self, is_over: Callable[[], bool], secs: float) -> None:
        witness = self.witness
        self.time.run_until(lambda: witness.first_breach is not None or is_over(), self.time.now + secs)
        if witness.first_breach is not None:
            raise witness.first_breach

    def _is_at_rest(self) -> bool:
        if not all(task.done() for task in self._agents):
            return False
        return not self.rows.kept.tables[Table.STATES]

    # Clients

    def _begin_clients(self) -> None:
        for namespace in self._namespaces:
            for number in range(1 + self.random.randrange(2)):
                agent = Agent(self, namespace, f"agent {number}")
                self._agents.append(self._begin(agent.run(8 + self.random.randrange(20))))
            for number in range(1 + self.random.randrange(3)):
                self._begin(Host(self, namespace, f"host {number}").run())
            if self.random.random() < 0.7:
                self._begin(Watcher(self, namespace, "watcher").run())
            if self.random.random() < 0.5:
                planner = Planner(self, namespace, "plan")
                self._planners.append(planner)
                self._agents.append(self._begin(planner.make(self.random.choice(["2s", "3s", "7s"]))))

    def _begin(self, work: Any) -> Any:
        task = self.network.clients.create_task(work)
        task.add_done_callback(lambda done: None if done.cancelled() else done.result())
        return task

    # Replicas

    def _start(self, name: str) -> None:
        self._started += 1
        skew_secs = self.random.uniform(-MAX_SKEW_SECS, MAX_SKEW_SECS)
        replica = SimulatedReplica(self.network, name, f"{name} {self._started} {self.seed}", skew_secs)
        replica.name = f"{name}.{self._started}"
        self.replicas.append(replica)
        self.note(f"{replica.name} starts, its clock is {skew_secs:+.0f} s wrong")

    def _kill(self, replica: SimulatedReplica) -> None:
        self.replicas.remove(replica)
        self.time.kill(replica.process)
        self.network.killed.add(replica.name)
        for call in replica.calls:
            call.broken()

    def _befall(self) -> None:
        """Something happens to a replica."""
        for replica in [each for each in self.replicas if each.has_ended]:
            self.note(f"{replica.name} has ended")
            self._kill(replica)
        names = {replica.name.partition(".")[0] for replica in self.replicas if not replica.is_leaving}
        missing = [name for name in self._names if name not in names]
        if missing and (len(names) == 0 or self.random.random() < 0.5):
            self._start(self.random.choice(missing))
            return
        if not self.replicas:
            return
        replica = self.random.choice(self.replicas)
        kinds = ["stands still", "is killed", "weather", "weather", "good weather", "stops", "drains", "store's clock"]
        kind = self.random.choices(kinds, [5, 2, 4, 4, 3, 1.5, 2.5, 1])[0]
        self.happened[kind] += 1
        befall: Callable[[SimulatedReplica], str] = {
            "stands still": self._freeze,
            "is killed": self._end,
            "weather": lambda replica: replica.weather.turn(),
            "good weather": lambda replica: replica.weather.clear() or "all is well",
            "stops": self._stop,
            "drains": self._drain,
            "store's clock": self._change_store_rate,
        }[kind]
        self.note(f"{replica.name}: {befall(replica)}")

    def _freeze(self, replica: SimulatedReplica) -> str:
        secs = self.random.choice([0.3, 2.0, 4.0, 6.0, 8.0, 12.0]) * self.random.uniform(0.7, 1.3)
        replica.process.stands_still = True

        def wake() -> None:
            replica.process.stands_still = False
            self.note(f"{replica.name} wakes")

        self.network.process.call_later(secs, wake)
        return f"stands still for {secs:.2f} s"

    def _end(self, replica: SimulatedReplica) -> str:
        self._kill(replica)
        return "is killed"

    def _stop(self, replica: SimulatedReplica) -> str:
        self._spoil(replica)
        replica.stop()
        return "stops"

    def _spoil(self, replica: SimulatedReplica) -> None:
        """Let answers about hand-overs be lost: then neither side knows at once who owns what."""
        if self.random.random() < 0.6:
            replica.weather.clear()
            replica.weather.lost_answers = 0.4

    def _drain(self, replica: SimulatedReplica) -> str:
        self._spoil(replica)
        is_draining = self.random.random() < 0.5
        self.rows.drain(replica.name.partition(".")[0], is_draining)
        return f"drains: {is_draining}"

    def _heal(self, name: str) -> None:
        for replica in list(self.replicas):
            replica.weather.clear()
            replica.process.stands_still = False
        self.rows.drain(name, False)
        if not any(replica.name.startswith(f"{name}.") and not replica.is_leaving for replica in self.replicas):
            self._start(name)

    # The store's clock

    def _store_time(self) -> float:
        since, at = self._store_base
        return at + (self.time.now - since) * self._store_rate

    def _set_store_rate(self, rate: float) -> None:
        self._store_base = self.time.now, self._store_time()
        self._store_rate = rate

    def _change_store_rate(self, replica: SimulatedReplica) -> str:
        del replica
        self._set_store_rate(self.random.choice([0.9, 1.0, 1.1]))
        return f"the store's clock runs at {self._store_rate}"

    def _log(self, logger: object, method: str, event: dict[str, Any]) -> Any:
        del logger
        words = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "exc_info"))
        error = event.get("exc_info")
        if method in ("error", "exception") and error is not None:
            words += " " + traceback.format_exc()
        self.note(f"  {_process()} {event.get('event')} {words}")
        raise structlog.DropEvent


def _process() -> str:
    try:
        return str(asyncio.get_running_loop())
    except RuntimeError:
        return ""
