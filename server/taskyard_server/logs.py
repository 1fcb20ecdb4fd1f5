"""Structured logs: one line an event, as JSON unless a person reads along; and in a file, if one is wanted.

Events that can come by the thousand pass a `Throttle`: above a hundred a second, one counted line a second stands for
the rest.
"""

import asyncio
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.schedules.schedule import TriggerEvent, TriggerEventKind
from taskyard_server.log_file import LogFile, ToFile

MOST_A_SECOND: Final = 100

log = structlog.get_logger(__name__)


def configure(level: str = "info", as_json: bool | None = None, file: LogFile | None = None) -> None:
    """Send all logs to standard error; `as_json` None means unless that is a terminal. To `file` they go as JSON."""
    renderer: structlog.typing.Processor
    if sys.stderr.isatty() if as_json is None else not as_json:
        renderer = structlog.dev.ConsoleRenderer()
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            # Not "iso", which leaves the fraction out where it is zero.
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%S.%fZ", utc=True, key="timestamp"),
            structlog.processors.format_exc_info,
            *([] if file is None else [ToFile(file)]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


class Throttle:
    """Admits a hundred lines a second, counts the others by kind, and logs the counts when the second is over."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._second = -1
        self._seen = 0
        self._counts: Counter[str] = Counter()

    def admits(self, kind: str) -> bool:
        """Whether this event gets a line of its own."""
        return bool(self.admits_of((kind,)))

    def admits_of(self, kinds: Sequence[str]) -> int:
        """How many of these events, the first ones, get a line of their own."""
        second = int(self._clock())
        if second != self._second:
            self.flush()
            self._second, self._seen = second, 0
        admitted = min(max(MOST_A_SECOND - self._seen, 0), len(kinds))
        self._seen += len(kinds)
        if admitted < len(kinds):
            if not self._counts:
                asyncio.get_running_loop().call_later(1, partial(self._flush_if_still, second))
            for kind in kinds[admitted:]:
                self._counts[kind] += 1
        return admitted

    def _flush_if_still(self, second: int) -> None:
        """Nothing came after that second which would have told its counts."""
        if self._second == second:
            self.flush()

    def flush(self) -> None:
        """Log what was counted."""
        if self._counts:
            counts, self._counts = self._counts, Counter()
            log.info(f"{self._what}_counted", count=counts.total(), by_kind=dict(counts))


TRANSITIONS: Final = frozenset({EventKind.SUBMITTED, EventKind.CHANGED})


class TransitionLog:
    """An engine listener: one line for each state that a task takes (scheduler-architecture, Lifecycle Logging)."""

    def __init__(self) -> None:
        self._throttle = Throttle("transitions")

    def __call__(self, namespace: str, happened: Sequence[Event]) -> None:
        """Log what happened in one turn."""
        told = [event for event in happened if event.kind in TRANSITIONS]
        for event in told[: self._throttle.admits_of([event.state for event in told])]:
            task = event.task
            fields = {"error": event.error} if event.error else {}
            if task.options.traceparent:
                fields["trace_id"] = trace_id(task.options.traceparent)
            log.info(
                f"task_{event.state}",
                task_id=task.id,
                agent_id=task.agent_id,
                action=task.action,
                namespace=namespace,
                **fields,
            )


AFTER_FIRING: Final = frozenset(TriggerEventKind) - {TriggerEventKind.DUE, TriggerEventKind.DEFERRED}


class TriggerLog:
    """A listener of triggers: one line for each thing that happens to one (scheduler-daemon, Structured Logging)."""

    def __init__(self) -> None:
        # One for each kind, so that what fails is not drowned by what comes due.
        self._throttles = {kind: Throttle(f"trigger_{kind}") for kind in TriggerEventKind}

    def __call__(self, namespace: str, happened: Sequence[TriggerEvent]) -> None:
        """Log what happened in one turn."""
        for event in happened:
            if self._throttles[event.kind].admits(event.kind):
                trigger = event.trigger
                known = {"task_id": trigger.task_id, "reason": trigger.reason} if event.kind in AFTER_FIRING else {}
                log.info(
                    f"trigger_{event.kind}",
                    trigger_id=trigger.id,
                    schedule_id=trigger.schedule.id,
                    trace_id=trace_id(trigger.traceparent),
                    namespace=namespace,
                    **{name: value for name, value in known.items() if value},
                )


def trace_id(traceparent: str) -> str:
    """The trace that a W3C trace context belongs to."""
    return traceparent.split("-")[1]
