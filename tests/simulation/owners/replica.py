"""One replica of the simulation: a process with an engine, its ownership, and the calls that are open at it.

It is the server without gRPC: calls pass the door and the checks of what may be told that real ones pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.errors import NotFound, Refusal, Unavailable
from taskyard_server.core.events import Event
from taskyard_server.core.limits import Limits
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.engine.views import DueDelivery
from taskyard_server.interceptors.callers import Call, set_current_call
from taskyard_server.interceptors.calls import _behind
from taskyard_server.replicas.clock import SharedClock
from taskyard_server.replicas.ownership_check import OwnershipCheck
from taskyard_server.replicas.replica import ReplicaRun
from taskyard_server.replicas.serving import ReplicaServing
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.store.port import Committed, Group, StoreError
from taskyard_server.store.shared_port import Renewal, Taken
from taskyard_server.store.shared_port import Replica as Announced
from taskyard_server.webhooks.webhooks import encode_delivery
from tests.replicas.shared_dict_store import SharedDictStore

from .requests import METHODS, tasks_in
from .weather import Weather

if TYPE_CHECKING:
    from .network import Network, OpenCall
    from .witness import Witness

FAILOVER_SECS: Final = 10.0
LIMITS: Final = Limits(
    max_queue_size=10_000,
    max_per_agent=10_000,
    max_inflight=100,
    max_per_agent_inflight=100,
    result_ttl_secs=6.0,
    idempotency_secs=600.0,
    default_deadline_secs=3600.0,
    lease_secs=4.0,
    max_deliveries=1000,
    max_concurrent=1000,
    max_queued_triggers=1000,
    poll_secs=1.0,
    max_jitter_secs=0.0,
)


class WatchedStore(SharedDictStore):
    """A store of which a witness learns when renewals were sent that take effect."""

    witness: Witness

    async def join(self, replica: Announced) -> float:
        sent_at = self._network.time()  # type: ignore[union-attr]

        def join() -> float:
            at = self.shared.join(replica)
            self.witness.renewed(replica.instance, sent_at)
            return at

        at = await self._call("join", join)
        self._instance = replica.instance
        return at

    async def renew(self, instance: str, dead_after_secs: float) -> Renewal | None:
        sent_at = self._network.time()  # type: ignore[union-attr]

        def renew() -> Renewal | None:
            renewal = self.shared.renew(instance, dead_after_secs)
            if renewal is not None:
                self.witness.renewed(instance, sent_at)
            return renewal

        return await self._call("renew", renew)

    async def take(self, number: int, instance: str) -> Taken | None:
        def take() -> Taken | None:
            owner = self.shared.owners.get(number)
            before = None if owner is None else owner.row()
            taken = self.shared.take(number, instance)
            self.witness.took(before, taken, instance)
            return taken

        return await self._call("take", take)

    async def commit(self, group: Group) -> Committed:
        instance = self._instance

        def commit() -> Committed:
            committed = self.shared.commit(group, instance)
            self.witness.lost(instance, {number: group.fences[number] for number in committed.lost})
            return committed

        return await self._call("commit", commit)


TOGETHER: Final = frozenset({"r0", "r1"})
"""The replicas that share a machine."""


class SimulatedLives:
    """Those of a process of this name, which others of its machine are told the end of."""

    def __init__(self, name: str, network: Network) -> None:
        self._name = name
        self._network = network
        self._count = 0

    def begin(self) -> str:
        """See `Lives`."""
        self._count += 1
        return f"{self._name}-{self._count}"

    async def has_ended(self, replica: Announced, me: Announced) -> bool:
        """See `Lives`."""
        return replica.instance.rpartition("-")[0] in self._network.killed and {replica.name, me.name} <= TOGETHER

    def end(self) -> None:
        """See `Lives`."""


class SimulatedReplica:
    """One process. `seed` decides the ids that it makes, and `skew_secs` how wrong its machine's clock is."""

    def __init__(self, network: Network, name: str, seed: str, skew_secs: float) -> None:
        self.name = name
        self.network = network
        self.witness = network.witness
        self.process = network.time.process(name)
        self.weather = Weather(Random(f"weather of {seed}"))
        # Those that have arrived; without a task until the process, which may stand still, begins them.
        self.calls: dict[OpenCall, asyncio.Task[None] | None] = {}
        self.is_leaving = False
        self.has_ended = False
        self._random = Random(f"ids of {seed}")
        self._skew_secs = skew_secs
        self._stopped: asyncio.Event | None = None
        self._door: OwnershipCheck | None = None
        self.engine: Engine
        self.run: ReplicaRun
        self.watches: TaskWatches
        self.process.call_soon(lambda: self._watched(self.process.create_task(self._live())))

    def _watched(self, task: asyncio.Task[Any]) -> None:
        task.add_done_callback(lambda done: None if done.cancelled() or done.exception() is None else done.result())

    async def _live(self) -> None:
        network, process, rows = self.network, self.process, self.network.rows
        store = WatchedStore(rows, self.weather.fate, hears=self.weather.news, network=network.process)
        store.witness = self.witness
        clock = SharedClock(process.time)
        clock._offset = rows.clock() + self._skew_secs - process.time()
        engine = self.engine = Engine(
            LIMITS,
            clock,
            self._random.getrandbits(60),
            wall=clock.wall,
            store=store,
            store_options=StoreOptions(patience_secs=4.0),
            encode_delivery=encode_delivery,
            monotonic=process.time,
            worked=lambda: 0.0,
        )
        while True:
            try:
                await engine.open()
                break
            except Exception as error:
                self.network.note(f"{self.name} does not open: {error}")
                await asyncio.sleep(1.0)
        assert engine.owned is not None
        assert engine.persistence is not None
        assert engine.outbox is not None
        serving = ReplicaServing(
            store,
            engine,
            clock,
            self.name.partition(".")[0],
            f"{self.name}:1",
            FAILOVER_SECS,
            boot=process.time,
            steady=process.time,
            lives=SimulatedLives(self.name, network),
        )
        run = self.run = serving.replica
        logs = engine.event_logs(encode_event)
        self.watches = TaskWatches(engine, logs, bookmark_secs=5.0)
        engine.subscribe(logs)
        engine.subscribe(self._publish)
        serving.tell(logs, begun=lambda _: None, left=lambda _: None)
        engine.outbox.subscribe(self._post)
        while True:
            try:
                await run.start()
                break
            except StoreError as error:
                self.network.note(f"{self.name} does not start: {error}")
                await asyncio.sleep(0.5)
        self._door = serving.door
        running = [process.create_task(run.run()), process.create_task(engine.run())]
        for task in running:
            self._watched(task)
        self._stopped = asyncio.Event()
        await self._stopped.wait()
        await run.stop()
        engine.admin.drain()
        await asyncio.sleep(0.2)
        self._door = None
        for task in running:
            task.cancel()
        await run.leave()
        self.has_ended = True

    def stop(self) -> None:
        """Ask it to end in order, as SIGTERM does."""
        self.is_leaving = True
        self.process.call_soon_threadsafe(lambda: None if self._stopped is None else self._stopped.set())

    @property
    def instance(self) -> str:
        """Its present instance."""
        return self.run.membership.me.instance

    # Calls

    def arrive(self, call: OpenCall) -> None:
        """Begin a call as soon as the process runs; if that is killed before, its connection breaks like the others."""
        self.calls[call] = None
        self.process.call_soon_threadsafe(self._begin, call)

    def _begin(self, call: OpenCall) -> None:
        task = self.process.create_task(self._serve(call))
        self.calls[call] = task
        task.add_done_callback(lambda _: self.calls.pop(call, None))
        self._watched(task)

    async def _serve(self, call: OpenCall) -> None:
        door = self._door
        if door is None:
            call.answer(Unavailable("not ready"))
            return
        set_current_call(Call(call.namespace))
        service, handler = METHODS[call.method]
        begun_as: list[str] = []
        begun_at = 0.0

        async def handle(request: Any, context: Any) -> Any:
            nonlocal begun_at
            begun_at = self.process.time()
            begun_as.append(self.instance)
            return await handler(self, call.namespace, request, context)

        try:
            answer = await _behind(door, f"/taskyard.v1.{service}/{call.method}", handle)(
                call.request, Context(self, call, begun_as)
            )
        except Refusal as refusal:
            answer = refusal
        if not isinstance(answer, Unavailable):
            self._speaks(begun_as[0], f"{call.method} {call.namespace} -> {answer!r}")
            if not isinstance(answer, NotFound):
                # A miss is known for a moment after another replica has made the namespace.
                self.witness.answers(call.namespace, begun_as[0], begun_at)
            self.witness.told_of(call.namespace, tasks_in(answer))
        call.answer(answer)

    def _speaks(self, begun_as: str, what: str) -> None:
        self.witness.speaks(begun_as, self.instance, what)

    def _publish(self, namespace: str, events: Sequence[Event]) -> None:
        """Whoever listens to the engine may tell the world."""
        self._speaks(self.instance, f"{namespace}: {[(event.task.id, event.state) for event in events]}")

    def _post(self, due: Sequence[DueDelivery]) -> None:
        """Webhooks go out: what they tell is told to the world."""
        assert self.engine.outbox is not None
        for delivery in due:
            self._speaks(self.instance, f"webhook {delivery.namespace} {delivery.number}")
            self.process.call_later(0.05, self.engine.outbox.done, delivery.namespace, delivery.number)


class Context:
    """What a stream writes its messages to."""

    def __init__(self, replica: SimulatedReplica, call: OpenCall, begun_as: list[str]) -> None:
        self._replica = replica
        self._call = call
        self._begun_as = begun_as

    async def write(self, message: bytes) -> None:
        """Send a message of a stream."""
        replica, call = self._replica, self._call
        replica._speaks(self._begun_as[0], f"{call.method} {call.namespace} -> {message!r}")
        replica.witness.told_of(call.namespace, tasks_in(message))
        call.send(message)


Handler = Callable[[SimulatedReplica, str, Any, Context], Any]
