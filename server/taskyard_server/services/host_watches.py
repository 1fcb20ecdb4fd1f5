"""What WatchHosts sends: the hosts as they stand, then what happens to them.

Most of what happens to a host happens by silence, which no event tells. So while somebody watches, all hosts of the
namespace are looked at once a second, and what differs from the last look is told to all watchers. A watcher holds the
look that it has seen and no queue: one that was slow is told the difference to the present.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import grpc
import structlog

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import Unavailable
from taskyard_server.core.hosts import Host, HostProfile, HostStatus
from taskyard_server.engine.event_feeds import MAX_SLICE_BYTES, MAX_SLICE_EVENTS
from taskyard_server.engine.port import Engine

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Describe: TypeAlias = Callable[[Host], pb.RuntimeHost]

LOOK_SECS: Final = 1.0
QUIET_SECS: Final = 15.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class HostView:
    """One host at one look, by all whose change is told: what it registered with, and how it stands."""

    host: Host
    words: tuple[int, str, HostProfile, int | None, tuple[tuple[str, str], ...]]
    standing: tuple[bool, HostStatus, bool, str | None]


HostSnapshot: TypeAlias = dict[str, HostView]


class HostWatches:
    """All watches of hosts. `look_secs` and `quiet_secs` are how often it looks, and when a silent watch is told so."""

    def __init__(
        self, engine: Engine, describe: Describe, look_secs: float = LOOK_SECS, quiet_secs: float = QUIET_SECS
    ) -> None:
        self._engine = engine
        self._describe = describe
        self._look_secs = look_secs
        self._quiet_secs = quiet_secs
        self._boards: dict[str, HostWatch] = {}
        self._closed = False

    async def watch(self, namespace: str, context: Context) -> AsyncIterator[bytes]:
        """The encoded messages of one watch. Raises `Unavailable` once the server shuts down."""
        if self._closed:
            raise Unavailable(SHUTDOWN)
        board = self._boards.get(namespace)
        if board is None:
            board = self._boards[namespace] = HostWatch(namespace, self._engine, self._describe, self._look_secs)
        board.watchers += 1
        context.add_done_callback(lambda _: self._leave(board))  # type: ignore[arg-type]
        seen = await board.look()
        for message in board.messages((pb.HostEvent.current, one) for one in seen.values()) or [EMPTY]:
            yield message
        while not self._closed:
            if seen is not board.seen:
                messages, seen = board.changes_since(seen), board.seen
                for message in messages:
                    yield message
            elif not await board.news(self._quiet_secs):
                yield EMPTY
        raise Unavailable(SHUTDOWN)

    def close(self) -> None:
        """End every watch; new ones are refused."""
        self._closed = True
        for board in self._boards.values():
            board.wake()

    def _leave(self, board: HostWatch) -> None:
        board.watchers -= 1
        if not board.watchers:
            board.close()
            del self._boards[board.namespace]


SHUTDOWN: Final = "the server shuts down"
EMPTY: Final = b""
"""A message without events."""


class HostWatch:
    """The hosts of one namespace as they were at the last look, while somebody watches them."""

    def __init__(self, namespace: str, engine: Engine, describe: Describe, look_secs: float) -> None:
        self.namespace = namespace
        self.watchers = 0
        self.seen: HostSnapshot = {}
        self._engine = engine
        self._describe = describe
        self._before: HostSnapshot = {}
        self._latest: list[bytes] = []
        self._looking = asyncio.Lock()
        self._news = asyncio.get_running_loop().create_future()
        self._looks = asyncio.create_task(self._look_again(look_secs))

    async def look(self) -> HostSnapshot:
        """HostSnapshot at all hosts now. The look is another object than the last one only if something differs."""
        async with self._looking:
            look: HostSnapshot = {}
            now, limits = self._engine.now(), self._engine.limits
            for host in await self._engine.hosts.list_hosts(self.namespace, 0):
                if host.built_in:
                    continue
                status = host.status(now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold)
                look[host.id] = HostView(
                    host,
                    (host.number, host.display_name, host.profile, host.slots, host.labels),
                    (
                        host.online(now, limits.heartbeat_timeout_secs),
                        status,
                        host.draining,
                        host.instance if host.stream is not None else None,
                    ),
                )
            if look != self.seen:
                self._latest = self.messages(_differences(self.seen, look))
                self._before, self.seen = self.seen, look
                self.wake()
            return self.seen

    def changes_since(self, seen: HostSnapshot) -> list[bytes]:
        """What happened since that look, as messages; made once for all who have seen the last look but one."""
        return self._latest if seen is self._before else self.messages(_differences(seen, self.seen))

    def messages(self, events: Iterable[tuple[pb.HostEvent.Kind.ValueType, HostView]]) -> list[bytes]:
        """Events as encoded messages of bounded size."""
        messages: list[bytes] = []
        count = size = 0
        now = timestamp(self._engine.now())
        for kind, one in events:
            event = pb.HostEvent(kind=kind, occurred_at=now, host=self._describe(one.host))
            part = pb.WatchHostsResponse(events=[event]).SerializeToString()
            # Encoded messages that stand one after the other are one message.
            if not messages or count == MAX_SLICE_EVENTS or size + len(part) > MAX_SLICE_BYTES:
                messages.append(b"")
                count = size = 0
            messages[-1] += part
            count, size = count + 1, size + len(part)
        return messages

    async def news(self, secs: float) -> bool:
        """Wait for a look that differs, or for the end, at most so long; whether it came."""
        done, _ = await asyncio.wait((self._news,), timeout=secs)
        return bool(done)

    def wake(self) -> None:
        """Let all look at what there is."""
        self._news.set_result(None)
        self._news = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Nobody watches any more."""
        self._looks.cancel()

    async def _look_again(self, secs: float) -> None:
        while True:
            await asyncio.sleep(secs)
            try:
                await self.look()
            except Exception:
                # The next look may succeed, and tells what this one would have told.
                log.exception("look_at_hosts_failed", namespace=self.namespace)


def _differences(before: HostSnapshot, after: HostSnapshot) -> Iterator[tuple[pb.HostEvent.Kind.ValueType, HostView]]:
    """What happened to which host between two looks."""
    for host_id, gone in before.items():
        if host_id not in after:
            yield pb.HostEvent.deregistered, gone
    for host_id, one in after.items():
        last = before.get(host_id)
        if last is None or last.words != one.words:
            yield pb.HostEvent.registered, one
        elif last.standing != one.standing:
            yield pb.HostEvent.changed, one
