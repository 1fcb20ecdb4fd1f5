"""The parts by which a server is observed. Without telemetry it is given nothing, and pays nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from prometheus_client.registry import Collector

from taskyard_server.core.task import Task
from taskyard_server.engine.listeners import Listener
from taskyard_server.interceptors.calls import CallTracer
from taskyard_server.webhooks.webhooks import PostTracer


async def _export_nothing(_: Collector) -> None:
    await asyncio.Event().wait()


async def _close_nothing() -> None:
    pass


def _need_no_clock(_: Callable[[], float]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Telemetry:
    """`handed` makes of a task what its host is told of it; `listeners` are those of the engine.

    `log_processor` is one of structlog. `run` exports metrics until it is cancelled, `close` sends what is left, and
    `take_clock` takes the clock of the engine.
    """

    calls: CallTracer | None = None
    posts: PostTracer | None = None
    handed: Callable[[Task], Task] | None = None
    listeners: tuple[Listener, ...] = ()
    log_processor: Any = None
    run: Callable[[Collector], Coroutine[Any, Any, None]] = _export_nothing
    close: Callable[[], Awaitable[None]] = _close_nothing
    take_clock: Callable[[Callable[[], float]], None] = _need_no_clock


OFF = Telemetry()
