"""Posts ended tasks to their `callbackUrl` (scheduler-reference, Webhook Callbacks; DESIGN, Webhooks).

Delivery is best effort and never touches the task: a bounded queue, a fixed number of workers, three tries. An address
is checked after it was resolved and that very address is dialled, so that no name can lead into a private network.
"""

import asyncio
import contextlib
import ipaddress
import json
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import httpcore
import structlog
from standardwebhooks import Webhook

from taskyard_server.config import WebhookSettings
from taskyard_server.conversion.payload import message_to_json
from taskyard_server.conversion.responses import task_message
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.task import CANCELLED, DONE, FAILED

log = structlog.get_logger(__name__)

TOLD: Final = frozenset({DONE, FAILED, CANCELLED})
CHANGED: Final = EventKind.CHANGED
TRIES: Final = 3
BACKOFF_SECS: Final = (0.5, 2.0)
GLOBAL_UNICAST: Final = ipaddress.IPv6Network("2000::/3")
NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """The URL leads to a loopback, private, link-local or otherwise special address."""


@dataclass(slots=True)
class WebhookCounts:
    """What became of deliveries since the start."""

    delivered: int = 0
    failed: int = 0
    dropped: int = 0
    """Not even tried, because the queue was full or the server stopped."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One post that is due."""

    task_id: str
    url: str
    body: bytes
    traceparent: str | None


class Webhooks:
    """An engine listener, and the workers that deliver what it queues."""

    def __init__(self, settings: WebhookSettings) -> None:
        self.counts = WebhookCounts()
        self._settings = settings
        secret = settings.secret.get_secret_value() if settings.secret else None
        self._signer = Webhook(secret) if secret else None
        self._pending: asyncio.Queue[Delivery] = asyncio.Queue(settings.max_pending)
        self._under_way = 0
        self._http = httpcore.AsyncConnectionPool(
            network_backend=GuardedBackend(settings.allow_private), max_connections=settings.workers
        )

    def __call__(self, namespace: str, happened: Sequence[Event]) -> None:
        """Queue a delivery for each task that ended with a `callbackUrl`; never waits."""
        for event in happened:
            task = event.task
            if event.state in TOLD and event.kind is CHANGED and task.options.callback_url is not None:
                body = json.dumps(message_to_json(task_message(task))).encode()
                delivery = Delivery(task.id, task.options.callback_url, body, task.options.traceparent)
                try:
                    self._pending.put_nowait(delivery)
                except asyncio.QueueFull:
                    self.counts.dropped += 1
                    log.warning("webhook_dropped", task_id=task.id, namespace=namespace, reason="queue full")

    async def run(self) -> None:
        """Deliver until cancelled."""
        async with asyncio.TaskGroup() as workers, self._http:
            for _ in range(self._settings.workers):
                workers.create_task(self._work())

    async def finish(self, secs: float) -> None:
        """Let what is pending be delivered within `secs`, and log what was not."""
        try:
            async with asyncio.timeout(secs):
                await self._pending.join()
        except TimeoutError:
            left = self._pending.qsize() + self._under_way
            self.counts.dropped += left
            log.warning("webhooks_undelivered", pending=left)

    async def _work(self) -> None:
        while True:
            delivery = await self._pending.get()
            self._under_way += 1
            try:
                await self._deliver(delivery)
            except Exception:
                self.counts.failed += 1
                log.exception("webhook_error", task_id=delivery.task_id)
            finally:
                self._under_way -= 1
                self._pending.task_done()

    async def _deliver(self, delivery: Delivery) -> None:
        problem = ""
        for number in range(TRIES):
            if number:
                await asyncio.sleep(BACKOFF_SECS[number - 1])
            try:
                async with asyncio.timeout(self._settings.timeout_secs):
                    status = await self._post(delivery)
            except AddressRefused as error:
                problem = str(error)
                break
            except TimeoutError:
                problem = f"no answer within {self._settings.timeout_secs:g} s"
            except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
                problem = str(error) or type(error).__name__
            else:
                if 200 <= status < 300:
                    self.counts.delivered += 1
                    log.info("webhook_delivered", task_id=delivery.task_id, status=status, tries=number + 1)
                    return
                problem = f"status {status}"
                if status < 500 and status not in (408, 429):
                    break
        self.counts.failed += 1
        log.warning("webhook_failed", task_id=delivery.task_id, tries=number + 1, problem=problem)

    async def _post(self, delivery: Delivery) -> int:
        headers: dict[bytes | str, bytes | str] = {
            "content-type": "application/json",
            "user-agent": "taskyard",
            "X-PinchTab-Event": "task.completed",
            "X-PinchTab-Task-ID": delivery.task_id,
        }
        if delivery.traceparent:
            headers["traceparent"] = delivery.traceparent
        if self._signer:
            now = datetime.now(UTC)
            headers["webhook-id"] = delivery.task_id
            headers["webhook-timestamp"] = str(int(now.timestamp()))
            headers["webhook-signature"] = self._signer.sign(delivery.task_id, now, delivery.body.decode())
        async with self._http.stream("POST", delivery.url, headers=headers, content=delivery.body) as response:
            return response.status


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections only to addresses that deliveries may go to, and to just the address that was checked."""

    def __init__(self, allow_private: bool) -> None:
        self._allow_private = allow_private
        self._backend = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check, dial."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]) for entry in found]
        usable = [address for address in addresses if self._allow_private or is_public(address)]
        if not usable:
            raise AddressRefused(f"{host} is not a public address")
        for address in usable[:-1]:
            with contextlib.suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._backend.connect_tcp(address, port, timeout, local_address, socket_options)
        return await self._backend.connect_tcp(usable[-1], port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        """Part of httpcore's interface."""
        await asyncio.sleep(seconds)


def is_public(address: str) -> bool:
    """Whether an address is globally reachable, also where it carries another one inside."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo or (None, None))[1]
        if ip in NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
        if ip not in GLOBAL_UNICAST:
            return False
    return ip.is_global and not ip.is_multicast
