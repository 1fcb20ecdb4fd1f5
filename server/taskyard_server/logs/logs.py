"""Structured logs: one line per event, as JSON or in columns for a terminal, and in a file where one is configured.

Frequent events pass a `Throttle`: above a hundred per second, one line per second counts the rest.
"""

import logging
import sys
from collections.abc import Sequence
from typing import Final

import structlog

from taskyard_server.core.events import Event, transitions
from taskyard_server.core.leases import Loss
from taskyard_server.core.schedules.schedule import TriggerEvent, TriggerEventKind
from taskyard_server.core.task import PARKED, PAUSED, TERMINAL, TaskState
from taskyard_server.settings.config import ConfigError, LogSettings

from .log_file import LogFile, ToFile
from .throttle import Throttle

log = structlog.get_logger(__name__)

TOLD: Final = TERMINAL | {PAUSED, PARKED}
"""The states of which there is a line at the level info."""


def configure(
    level: str = "info",
    as_json: bool | None = None,
    file: LogFile | None = None,
    also: structlog.typing.Processor | None = None,
) -> None:
    """Write all logs to standard error, and as JSON to `file`; `also` sees each line.

    `as_json` None means JSON unless standard error is a terminal.
    """
    renderer: structlog.typing.Processor
    if sys.stderr.isatty() if as_json is None else not as_json:
        renderer = structlog.dev.ConsoleRenderer()
    else:
        renderer = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            # "iso" would omit a fraction of zero.
            structlog.processors.TimeStamper(fmt="%Y-%m-%dT%H:%M:%S.%fZ", utc=True, key="timestamp"),
            structlog.processors.format_exc_info,
            *([] if also is None else [also]),
            *([] if file is None else [ToFile(file)]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def configured_log_file(settings: LogSettings) -> LogFile | None:
    """The log file of these settings, if there is to be one. Raises `ConfigError`."""
    if settings.file is None:
        return None
    try:
        return LogFile(settings.file, settings.max_bytes, settings.backups)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ConfigError(f"cannot write the log to {settings.file}: {reason}") from None


class TransitionLog:
    """An engine listener that logs how tasks end, pause or park, and at the level debug each state that they take.

    The rule is docs/rules.md, Logs.
    """

    def __init__(self) -> None:
        self._throttle = Throttle("transitions")
        self._states = frozenset(TaskState) if log.is_enabled_for(logging.DEBUG) else TOLD

    def __call__(self, namespace: str, events: Sequence[Event]) -> None:
        """Log the events of one turn."""
        taken = [event for event in transitions(events) if event.state in self._states]
        for event in taken[: self._throttle.admits_of([event.state for event in taken])]:
            task = event.task
            fields = {"error": event.error} if event.error else {}
            if task.options.traceparent:
                fields["trace_id"] = trace_id(task.options.traceparent)
            say = log.info if event.state in TOLD else log.debug
            say(
                f"task_{event.state}",
                task_id=task.id,
                agent_id=task.agent_id,
                action=task.action,
                namespace=namespace,
                **fields,
            )


class LossLog:
    """A listener that logs each lease that is lost (docs/rules.md, Logs)."""

    def __init__(self) -> None:
        self._throttle = Throttle("leases_expired")

    def __call__(self, namespace: str, losses: Sequence[Loss]) -> None:
        """Log the losses of one turn."""
        for loss in losses[: self._throttle.admits_of([loss.state for loss in losses])]:
            fields = {} if loss.traceparent is None else {"trace_id": trace_id(loss.traceparent)}
            log.warning(
                "lease_expired",
                why=loss.reason,
                task_id=loss.task_id,
                agent_id=loss.agent_id,
                host_id=loss.host_id,
                attempt=loss.attempt,
                fencing_token=loss.token,
                state=loss.state,
                namespace=namespace,
                **fields,
            )


AFTER_FIRING: Final = frozenset(TriggerEventKind) - {TriggerEventKind.DUE, TriggerEventKind.DEFERRED}


class TriggerLog:
    """A listener that logs each event of a trigger (docs/rules.md, Logs)."""

    def __init__(self) -> None:
        # One for each kind, so that many due triggers do not hide failed ones.
        self._throttles = {kind: Throttle(f"trigger_{kind}") for kind in TriggerEventKind}

    def __call__(self, namespace: str, events: Sequence[TriggerEvent]) -> None:
        """Log the events of one turn."""
        for event in events:
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
    """The trace id in a W3C trace context."""
    return traceparent.split("-")[1]
