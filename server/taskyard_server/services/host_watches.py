"""WatchHosts: the current hosts of a namespace, then their changes.

Most changes of a host follow from its silence, for which there is no event. A namespace that is watched is therefore
polled once a second, and the differences from the last snapshot are sent to all watchers. A watcher holds the snapshot
that it was last sent and no queue: a slow one is sent the differences from that snapshot to the current one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import NotFound, NotOwner, Refusal, Unavailable
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.event_feeds import MAX_SLICE_BYTES, MAX_SLICE_EVENTS
from taskyard_server.engine.event_log import DELETED

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Describe: TypeAlias = Callable[[Host], pb.RuntimeHost]

POLL_INTERVAL_SECS: Final = 1.0
KEEPALIVE_SECS: Final = 15.0

SHUTDOWN: Final = "the server shuts down"
KEEPALIVE: Final = b""
"""A message without events."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HostView:
    """One host in a snapshot: the parts whose changes are sent, registration and state, and the host at their time."""

    registration: tuple[int, str, HostProfile, int | None, tuple[tuple[str, str], ...]]
    state: tuple[bool, HostStatus, bool, str | None, float | None]
    message: pb.RuntimeHost = field(compare=False)


HostSnapshot: TypeAlias = dict[str, HostView]
"""The hosts of a namespace at one time, by id."""


class HostWatches:
    """The watches of hosts of all namespaces.

    A watched namespace is polled every `poll_secs`. A watch without changes is sent an empty message after
    `keepalive_secs`.
    """

    def __init__(
        self,
        engine: Engine,
        describe: Describe,
        poll_secs: float = POLL_INTERVAL_SECS,
        keepalive_secs: float = KEEPALIVE_SECS,
    ) -> None:
        self._engine = engine
        self._describe = describe
        self._poll_secs = poll_secs
        self._keepalive_secs = keepalive_secs
        self._watches: dict[str, HostWatch] = {}
        self._closed = False

    async def watch(self, namespace: str, context: Context) -> None:
        """Write the encoded messages of one watch. Raises `Unavailable` once the server shuts down.

        A coroutine that writes: a generator would be held by grpc after the call, and all that it refers to.
        """
        if self._closed:
            raise Unavailable(SHUTDOWN)
        watch = self._watches.get(namespace)
        if watch is None:
            watch = self._watches[namespace] = HostWatch(namespace, self._engine, self._describe, self._poll_secs)
        watch.watchers += 1
        try:
            sent, current = await watch.begin()
            for message in current or [KEEPALIVE]:
                await context.write(message)
            while not self._closed and watch.ended is None:
                if sent is not watch.snapshot:
                    messages, sent = watch.changes_since(sent), watch.snapshot
                    for message in messages:
                        await context.write(message)
                elif not await watch.wait_for_change(self._keepalive_secs):
                    await context.write(KEEPALIVE)
        finally:
            self._leave(watch)
        raise watch.ended or Unavailable(SHUTDOWN)

    def is_watched(self, namespace: str) -> bool:
        """True if anybody watches the hosts of a namespace."""
        return namespace in self._watches

    def leave(self, namespace: str) -> None:
        """End the watches of a namespace that another replica serves from now on."""
        self._end(namespace, NotOwner())

    def deleted(self, namespace: str) -> None:
        """End the watches of a namespace that was deleted."""
        self._end(namespace, NotFound(DELETED))

    def _end(self, namespace: str, reason: Refusal) -> None:
        watch = self._watches.pop(namespace, None)
        if watch is not None:
            watch.ended = reason
            watch.wake()

    def close(self) -> None:
        """End every watch, and refuse new ones."""
        self._closed = True
        for watch in self._watches.values():
            watch.wake()

    def _leave(self, watch: HostWatch) -> None:
        watch.watchers -= 1
        if not watch.watchers:
            watch.close()
            if self._watches.get(watch.namespace) is watch:
                del self._watches[watch.namespace]


class HostWatch:
    """The latest snapshot of the hosts of one namespace, refreshed while the namespace has watchers."""

    def __init__(self, namespace: str, engine: Engine, describe: Describe, poll_secs: float) -> None:
        self.namespace = namespace
        self.watchers = 0
        self.snapshot: HostSnapshot = {}
        self.ended: Refusal | None = None
        self._engine = engine
        self._describe = describe
        self._previous: HostSnapshot = {}
        self._latest_changes: list[bytes] = []
        self._refreshing = asyncio.Lock()
        self._waiting: set[asyncio.Future[bool]] = set()
        self._polling: asyncio.Task[None] | None = asyncio.create_task(self._poll(poll_secs))

    async def begin(self) -> tuple[HostSnapshot, list[bytes]]:
        """The current snapshot, and its hosts as they are now, as messages."""
        async with self._refreshing:
            current = await self._engine.hosts.list_hosts(self.namespace, 0, show=self._look)
            self._update(current)
            return self.snapshot, self.messages((pb.HostEvent.current, view) for view in current.values())

    async def refresh(self) -> None:
        """Take a snapshot. It is a new object only if something has changed."""
        async with self._refreshing:
            self._update(await self._engine.hosts.list_hosts(self.namespace, 0, show=self._look_for_changes))

    def changes_since(self, earlier: HostSnapshot) -> list[bytes]:
        """The changes since an earlier snapshot, as messages. Those since the previous one are made only once."""
        return self._latest_changes if earlier is self._previous else self.messages(_changes(earlier, self.snapshot))

    def messages(self, events: Iterable[tuple[pb.HostEvent.Kind.ValueType, HostView]]) -> list[bytes]:
        """Events as encoded messages of bounded size."""
        messages: list[bytes] = []
        count = size = 0
        now = timestamp(self._engine.now())
        for kind, view in events:
            event = pb.HostEvent(kind=kind, occurred_at=now, host=view.message)
            part = pb.WatchHostsResponse(events=[event]).SerializeToString()
            # Concatenated encodings merge into one message.
            if not messages or count == MAX_SLICE_EVENTS or size + len(part) > MAX_SLICE_BYTES:
                messages.append(b"")
                count = size = 0
            messages[-1] += part
            count, size = count + 1, size + len(part)
        return messages

    async def wait_for_change(self, secs: float) -> bool:
        """Wait up to `secs` for a changed snapshot or a `wake`. Returns whether either happened."""
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(secs, _resolve, changed, False)
        self._waiting.add(changed)
        try:
            return await changed
        finally:
            timer.cancel()
            self._waiting.discard(changed)

    def wake(self) -> None:
        """Wake all watchers."""
        for changed in self._waiting:
            _resolve(changed, True)

    def close(self) -> None:
        """Stop polling."""
        # A cancelled task keeps its frames, which lead back to this watch.
        polling, self._polling = self._polling, None
        if polling is not None:
            polling.cancel()

    def _look(self, hosts: list[Host], known: HostSnapshot | None = None) -> HostSnapshot:
        """A snapshot of these hosts. Those that are unchanged in a known one are taken from it."""
        look: HostSnapshot = {}
        now, limits = self._engine.now(), self._engine.limits
        for host in hosts:
            if host.built_in:
                continue
            registration = (host.number, host.display_name, host.profile, host.slots, host.labels)
            state = (
                host.online(now, limits.heartbeat_timeout_secs),
                host.status(now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold),
                host.draining,
                host.instance if host.stream is not None else None,
                host.lost_at,
            )
            view = known.get(host.id) if known else None
            if view is None or view.registration != registration or view.state != state:
                view = HostView(registration, state, self._describe(host))
            look[host.id] = view
        return look

    def _look_for_changes(self, hosts: list[Host]) -> HostSnapshot:
        return self._look(hosts, self.snapshot)

    def _update(self, current: HostSnapshot) -> None:
        if current != self.snapshot:
            self._latest_changes = self.messages(_changes(self.snapshot, current))
            self._previous, self.snapshot = self.snapshot, current
            self.wake()

    async def _poll(self, interval_secs: float) -> None:
        while True:
            await asyncio.sleep(interval_secs)
            try:
                await self.refresh()
            except NotOwner:
                return
            except Exception:
                # The next refresh may succeed, and then finds the same changes.
                log.exception("look_at_hosts_failed", namespace=self.namespace)


def _resolve(changed: asyncio.Future[bool], value: bool) -> None:
    if not changed.done():
        changed.set_result(value)


def _changes(before: HostSnapshot, after: HostSnapshot) -> Iterator[tuple[pb.HostEvent.Kind.ValueType, HostView]]:
    """The event and the host of each change between two snapshots."""
    for host_id, view in before.items():
        if host_id not in after:
            yield pb.HostEvent.deregistered, view
    for host_id, view in after.items():
        previous = before.get(host_id)
        if previous is None or previous.registration != view.registration:
            yield pb.HostEvent.registered, view
        elif previous.state != view.state:
            yield pb.HostEvent.changed, view
