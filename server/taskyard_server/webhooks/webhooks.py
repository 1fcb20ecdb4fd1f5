"""Posts tasks that have ended, or ask something, to their `callbackUrl` (docs/rules.md, Webhooks).

Delivery never changes the task: a bounded queue, a fixed number of workers, three tries. With a store each delivery is
kept in the outbox of the engine until it is done, and made at least once; without one it is best effort.

The `webhook-id` of a delivery is TASK-RUN-STATE, such as `tsk_5f0c2e91-2-done`. All tries of a delivery have the
same one. Each run of a task has its own, and so has a failed task that is resolved or cancelled in the same run, and
each park, as `tsk_5f0c2e91-2-parked-17` with its fencing token: receivers drop deliveries whose id they have seen.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from msgspec import MsgspecError
from standardwebhooks import Webhook

from taskyard.v1.task_pb2 import Task, WatchTasksResponse
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.events import CHANGED, Event, changes_to
from taskyard_server.core.history import ANSWER
from taskyard_server.core.task import CANCELLED, DONE, FAILED, PARKED
from taskyard_server.engine.outbox import Outbox
from taskyard_server.engine.views import DueDelivery
from taskyard_server.settings.config import WebhookSettings
from taskyard_server.settings.setting_types import secret
from taskyard_server.store.records.deliveries import DeliveryRecord, decode_delivery
from taskyard_server.store.records.tasks import encode

from .addresses import AddressRefused
from .backlog import Backlog

if TYPE_CHECKING:
    from .posts import Posts

log = structlog.get_logger(__name__)

POSTED_STATES: Final = frozenset({DONE, FAILED, CANCELLED, PARKED})
COMPLETED: Final = "task.completed"
ASKS: Final = "task.asks"
TRIES: Final = 3
BACKOFF_SECS: Final = (0.5, 2.0)


class PostTracer(Protocol):
    """Makes spans of tries."""

    async def around(
        self, task_id: str, run: int, url: str, traceparent: str | None, post: Callable[[str | None], Awaitable[int]]
    ) -> int:
        """Make one try, which is told the trace context to send; the status of the answer."""


@dataclass(slots=True)
class WebhookCounts:
    """Counts of deliveries since the start of the process."""

    delivered: int = 0
    failed: int = 0
    """Given up after the last try."""
    dropped: int = 0
    """Not tried, or not to the end, because the queue was full or the server stopped; with an outbox neither happens.

    Or because their namespace was deleted.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """One post that is due, with its `number` in the outbox, if there is one."""

    id: str
    namespace: str
    task_id: str
    run: int
    url: str
    body: bytes
    traceparent: str | None
    number: int | None = None
    event: str = COMPLETED


def encode_delivery(event: Event) -> bytes | None:
    """A `DeliveryRecord` of an event that is posted: its task ended, or asks, and has a `callbackUrl`."""
    record = _record(event)
    return None if record is None else encode(record)


class Webhooks:
    """A queue of deliveries, and the workers that make them.

    They come from an `outbox`, which was given `encode_delivery`, and are done there once they are made or given up.
    Without one this is an engine listener. `counts` are those of all namespaces.
    """

    def __init__(
        self, settings: WebhookSettings, outbox: Outbox | None = None, tracer: PostTracer | None = None
    ) -> None:
        self._tracer = tracer
        self.counts = WebhookCounts()
        self._by_namespace: defaultdict[str, WebhookCounts] = defaultdict(WebhookCounts)
        self._settings = settings
        self._signer: Webhook | None = None
        self.take_secret(secret(settings.secret))
        self._pending: asyncio.Queue[Delivery] = asyncio.Queue(settings.max_pending)
        self._under_way: set[Delivery] = set()
        self._dropped: set[Delivery] = set()
        self._outbox = outbox
        self._backlog: Backlog | None = None
        if outbox is not None:
            half = (settings.max_pending + 1) // 2
            self._backlog = Backlog(outbox, self._room, self._add_due, read_at=half)
        self._posts: Posts | None = None

    def __call__(self, namespace: str, events: Sequence[Event]) -> None:
        """Queue a delivery for each task that ended and has a `callbackUrl`. Never waits."""
        for event in changes_to(POSTED_STATES, events):
            record = _record(event)
            if record is not None:
                delivery = _delivery(namespace, record)
                try:
                    self._pending.put_nowait(delivery)
                except asyncio.QueueFull:
                    self._count_dropped(delivery)
                    log.warning("webhook_dropped", task_id=record.task_id, namespace=namespace, reason="queue full")

    def take_secret(self, signing: str | None) -> None:
        """Sign with this secret from now on."""
        self._signer = Webhook(signing) if signing else None

    def counts_of(self, namespace: str) -> WebhookCounts:
        """The counts of one namespace."""
        return self._by_namespace.get(namespace, WebhookCounts())

    def deleted(self, namespace: str) -> None:
        """Drop what waits of a namespace that was deleted. What is being tried is not tried again."""
        self._by_namespace.pop(namespace, None)
        if self._backlog is not None:
            self._backlog.forget(namespace)
        self._dropped.update(delivery for delivery in self._under_way if delivery.namespace == namespace)
        for _ in range(self._pending.qsize()):
            delivery = self._pending.get_nowait()
            if delivery.namespace == namespace:
                self.counts.dropped += 1
            else:
                self._pending.put_nowait(delivery)
            # After the others are back, so that nobody takes the queue for done.
            self._pending.task_done()

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(self._settings.workers):
                    workers.create_task(self._work())
                if self._backlog is not None:
                    workers.create_task(self._backlog.run())
        finally:
            if self._posts is not None:
                await self._posts.close()

    def begin(self, namespace: str) -> None:
        """Deliver what is due of a namespace that is served here from now on."""
        if self._backlog is not None:
            self._backlog.begin(namespace)

    def leave(self, namespace: str) -> None:
        """Leave what is due of a namespace to another replica."""
        if self._backlog is not None:
            self._backlog.leave(namespace)

    async def finish(self, secs: float) -> None:
        """Wait up to `secs` seconds until all is delivered. What is left then stays in the outbox.

        Without one it is dropped, counted and logged.
        """
        try:
            async with asyncio.timeout(secs):
                await self._delivered()
        except TimeoutError:
            if self._outbox is not None:
                log.info("webhooks_kept", pending=self._pending.qsize() + len(self._under_way))
                return
            left = list(self._under_way)
            while not self._pending.empty():
                left.append(self._pending.get_nowait())
            for delivery in left:
                self._count_dropped(delivery)
            log.warning("webhooks_undelivered", pending=len(left))

    async def _delivered(self) -> None:
        if self._outbox is None or self._backlog is None:
            await self._pending.join()
            return
        await self._outbox.settled()
        while not self._backlog.is_empty or self._pending.qsize() or self._under_way:
            await self._backlog.emptied()
            await self._pending.join()

    def _room(self) -> int:
        """How many more deliveries may wait."""
        return self._settings.max_pending - self._pending.qsize()

    def _add_due(self, due: DueDelivery) -> None:
        """Queue what the outbox holds."""
        try:
            record = decode_delivery(due.record)
        except MsgspecError as error:
            # It stays there, for who can read it.
            log.error("webhook_unreadable", namespace=due.namespace, number=due.number, error=str(error))
        else:
            self._pending.put_nowait(_delivery(due.namespace, record, due.number))

    async def _work(self) -> None:
        while True:
            delivery = await self._pending.get()
            if self._backlog is not None:
                self._backlog.room_made()
            if self._outbox is not None and not self._outbox.is_here(delivery.namespace):
                # Its owner delivers it.
                self._pending.task_done()
                continue
            self._under_way.add(delivery)
            try:
                await self._deliver_or_give_up(delivery)
                if self._outbox is not None and delivery.number is not None:
                    self._outbox.done(delivery.namespace, delivery.number)
            finally:
                self._under_way.discard(delivery)
                self._dropped.discard(delivery)
                self._pending.task_done()

    async def _deliver_or_give_up(self, delivery: Delivery) -> None:
        try:
            await self._deliver(delivery)
        except Exception:
            self._count_failed(delivery)
            log.exception("webhook_error", task_id=delivery.task_id)

    async def _deliver(self, delivery: Delivery) -> None:
        problem, posts = "", self._shared_posts()
        for number in range(TRIES):
            if number:
                await asyncio.sleep(BACKOFF_SECS[number - 1])
            if delivery in self._dropped:
                self.counts.dropped += 1
                return
            try:
                async with asyncio.timeout(self._settings.timeout_secs):
                    status = await self._try(delivery)
            except AddressRefused as error:
                problem = str(error)
                break
            except TimeoutError:
                problem = f"no answer within {self._settings.timeout_secs:g} s"
            except posts.failures as error:
                problem = str(error) or type(error).__name__
            else:
                if 200 <= status < 300:
                    self._count_delivered(delivery)
                    log.info("webhook_delivered", task_id=delivery.task_id, status=status, tries=number + 1)
                    return
                problem = f"status {status}"
                if status < 500 and status not in (408, 429):
                    break
        self._count_failed(delivery)
        log.warning("webhook_failed", task_id=delivery.task_id, tries=number + 1, problem=problem)

    async def _try(self, delivery: Delivery) -> int:
        """One try; the status of the answer."""
        if self._tracer is None:
            return await self._post(delivery, delivery.traceparent)
        its = delivery
        return await self._tracer.around(its.task_id, its.run, its.url, its.traceparent, partial(self._post, its))

    async def _post(self, delivery: Delivery, traceparent: str | None) -> int:
        headers = {
            "content-type": "application/json",
            "user-agent": "taskyard",
            "X-PinchTab-Event": delivery.event,
            "X-PinchTab-Task-ID": delivery.task_id,
            "webhook-id": delivery.id,
        }
        if traceparent:
            headers["traceparent"] = traceparent
        if self._signer:
            now = datetime.now(UTC)
            headers["webhook-timestamp"] = str(int(now.timestamp()))
            headers["webhook-signature"] = self._signer.sign(delivery.id, now, delivery.body.decode())
        return await self._shared_posts().post(delivery.url, headers, delivery.body)

    def _shared_posts(self) -> Posts:
        """The client of all workers, from the first delivery on."""
        if self._posts is None:
            from .posts import Posts

            self._posts = Posts(self._settings.allow_private, self._settings.workers)
        return self._posts

    def _counts_with(self, delivery: Delivery) -> tuple[WebhookCounts, WebhookCounts]:
        """The counts that a delivery is part of."""
        return self.counts, self._by_namespace[delivery.namespace]

    def _count_delivered(self, delivery: Delivery) -> None:
        for counts in self._counts_with(delivery):
            counts.delivered += 1

    def _count_failed(self, delivery: Delivery) -> None:
        for counts in self._counts_with(delivery):
            counts.failed += 1

    def _count_dropped(self, delivery: Delivery) -> None:
        for counts in self._counts_with(delivery):
            counts.dropped += 1


def _record(event: Event) -> DeliveryRecord | None:
    """The body of an event's post; None for those that are not posted."""
    task = event.task
    if event.state not in POSTED_STATES or event.kind is not CHANGED or task.options.callback_url is None:
        return None
    state: str = event.state
    if event.state is PARKED:
        park = event.history.park
        # What was answered while the task ran is asked no more.
        if park is None or ANSWER not in [wait.kind for wait in park.waits if wait.key not in park.met]:
            return None
        state = f"{state}-{park.token}"
    return DeliveryRecord(
        task.id,
        event.history.run,
        state,
        task.options.callback_url,
        json.dumps(message_to_json(_task_then(event))).encode(),
        task.options.traceparent,
    )


def _delivery(namespace: str, record: DeliveryRecord, number: int | None = None) -> Delivery:
    return Delivery(
        f"{record.task_id}-{record.run}-{record.state}",
        namespace,
        record.task_id,
        record.run,
        record.url,
        record.body,
        record.traceparent,
        number,
        ASKS if record.state.startswith(PARKED.value) else COMPLETED,
    )


def _task_then(event: Event) -> Task:
    """The task just after it ended or was parked: it may be in another run already."""
    (ended,) = WatchTasksResponse.FromString(encode_event(event)).events
    if event.task.params is not None:
        ended.task.params.ParseFromString(event.task.params)
    if event.task.options.input is not None:
        ended.task.input.ParseFromString(event.task.options.input)
    if event.history.traceback is not None:
        ended.task.traceback = event.history.traceback
    return ended.task
