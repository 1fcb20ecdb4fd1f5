"""Spans of tasks, made from the events of the core: each when it ends, with the times that the core knows.

A run of a task is one span, from its submission or its resume to its end. Below it are those of its waits for a host,
of its attempts, and of the times that it was parked. A host is handed the trace context of its attempt, so that what
the handler does is below that.
Span ids are made of the task, its run and the number of the attempt: so anyone who needs one knows it, also another
replica, or this server after a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Final

from opentelemetry.trace import SpanKind

from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.task import (
    ASSIGNED,
    FAILED,
    IN_FLIGHT,
    NO_OPTIONS,
    PARKED,
    PAUSED,
    QUEUED,
    REJECTED,
    RUNNING,
    STOPPED,
    TERMINAL,
    WAITING,
    Task,
)

from .sampling import Sampler
from .spans import SpanId, Spans, span_of

MAX_TRACKS: Final = 20_000
"""Tasks whose times are noted; of more the oldest are forgotten, and what is left of them is told from the task."""
ENDS: Final = TERMINAL | {PAUSED}
"""The states in which a run has ended."""
SUBMITTED, CHANGED = EventKind.SUBMITTED, EventKind.CHANGED


@dataclass(slots=True)
class _Track:
    """The times of a traced task: since when its run goes on, it waits, it is handed out, its host works,
    it is parked.

    `attempt` is the number of the attempt under way.
    """

    begun: float
    queued: float
    assigned: float | None = None
    started: float | None = None
    parked: float | None = None
    attempt: int = 1


class TaskSpans:
    """Makes the spans of sampled tasks, as a listener of the engine."""

    def __init__(self, spans: Spans, sampler: Sampler) -> None:
        self._spans = spans
        self._takes = sampler.takes
        self._tracks: OrderedDict[str, _Track] = OrderedDict()

    def __call__(self, namespace: str, events: Sequence[Event]) -> None:
        """Look at the events of one turn."""
        for event in events:
            options = event.task.options
            if options is NO_OPTIONS:
                continue
            traceparent = options.traceparent
            if traceparent is not None and self._takes(traceparent):
                self._see(namespace, event, span_of(traceparent))

    def handed(self, task: Task) -> Task:
        """A task as its host is told of it: with the trace context of the attempt, if it is traced."""
        options = task.options
        if options is NO_OPTIONS or options.traceparent is None or not self._takes(options.traceparent):
            return task
        attempt = attempt_span(span_of(options.traceparent), task.id, task.history.run, task.history.last_number + 1)
        shown = copy(task)
        shown.options = options._replace(traceparent=attempt.traceparent)
        return shown

    def _see(self, namespace: str, event: Event, above: SpanId) -> None:
        if event.kind is SUBMITTED:
            self._add_track(event.task.id, _Track(event.at, event.at))
            if event.state is REJECTED:
                self._end_run(namespace, event, above)
        elif event.kind is CHANGED:
            self._change(namespace, event, above)

    def _change(self, namespace: str, event: Event, above: SpanId) -> None:
        task, state, at = event.task, event.state, event.at
        if event.before in STOPPED:
            if state is not QUEUED:
                # It was resolved or cancelled: its run had ended before.
                self._tracks.pop(task.id, None)
                return
            self._add_track(task.id, _Track(at, at))
        track = self._tracks.get(task.id)
        if track is None:
            # This server has not seen it from its beginning.
            track = self._add_track(task.id, _Track(task.created_at, min(task.queued_at, at)))
        if state is ASSIGNED:
            track.assigned, track.started, track.attempt = at, None, event.history.last_number + 1
            self._end_wait(namespace, event, above, "queue", track.queued)
            return
        if state is RUNNING:
            track.started = at
            return
        if event.before in IN_FLIGHT:
            self._end_attempt(namespace, event, above, track)
        elif event.before is QUEUED:
            self._end_wait(namespace, event, above, "queue", track.queued)
        elif event.before is PARKED and track.parked is not None:
            self._end_wait(namespace, event, above, "park", track.parked)
        if state is QUEUED:
            track.queued = at
        elif state is PARKED:
            track.parked = at
        elif state in ENDS:
            self._end_run(namespace, event, above)

    def _end_wait(self, namespace: str, event: Event, above: SpanId, what: str, since: float) -> None:
        its, name = run_span(above, event.task.id, event.history.run), f"{what} {event.task.action}"
        attributes = self._attributes(namespace, event)
        self._spans.end(its.child(), its.span, name, SpanKind.INTERNAL, since, event.at, attributes)

    def _end_attempt(self, namespace: str, event: Event, above: SpanId, track: _Track) -> None:
        task, history, state = event.task, event.history, event.state
        last = history.attempts[-1] if history.attempts and history.last_number >= track.attempt else None
        if track.assigned is None:
            # It was handed out by a server before this one.
            track.attempt = max(1, history.last_number)
            track.started = event.started_at if last is None else last.started_at
            track.assigned = event.at if track.started is None else track.started
        its = run_span(above, task.id, history.run)
        if state is PARKED or (state is QUEUED and last is None):
            # It was parked, or its host gave it back, or did not begin it: the next attempt has this number, too.
            attempt = its.child()
        else:
            attempt = attempt_span(above, task.id, history.run, track.attempt)
        error = event.error if state is FAILED else last.error if last is not None and state in WAITING else None
        attributes = {**self._attributes(namespace, event), "taskyard.task.attempt": track.attempt}
        if event.host_id is not None:
            attributes["taskyard.host.id"] = event.host_id
        moments = [] if track.started is None else [("started", track.started)]
        self._spans.end(
            attempt,
            its.span,
            f"run {task.action}",
            SpanKind.PRODUCER,
            track.assigned,
            event.at,
            attributes,
            error,
            moments,
        )
        track.assigned = track.started = None

    def _end_run(self, namespace: str, event: Event, above: SpanId) -> None:
        task = event.task
        track = self._tracks.pop(task.id, None)
        its = run_span(above, task.id, event.history.run)
        begun = task.created_at if track is None else track.begun
        failed = event.state is FAILED or event.state is REJECTED
        attributes = self._attributes(namespace, event)
        error = (event.error or event.state.value) if failed else None
        name = f"task {task.action}"
        self._spans.end(its, above.span, name, SpanKind.INTERNAL, begun, event.at, attributes, error)

    def _attributes(self, namespace: str, event: Event) -> dict[str, str | int]:
        task = event.task
        attributes: dict[str, str | int] = {
            "messaging.system": "taskyard",
            "messaging.destination.name": task.action,
            "messaging.message.id": task.id,
            "taskyard.namespace": namespace,
            "taskyard.agent.id": task.agent_id,
            "taskyard.task.run": event.history.run,
            "taskyard.task.state": event.state.value,
        }
        if event.state is FAILED:
            attributes["error.type"] = event.history.code or "failed"
        return attributes

    def _add_track(self, task_id: str, track: _Track) -> _Track:
        self._tracks[task_id] = track
        if len(self._tracks) > MAX_TRACKS:
            self._tracks.popitem(last=False)
        return track


def run_span(above: SpanId, task_id: str, run: int) -> SpanId:
    """The span of a run of a task."""
    return above.named(task_id, run)


def attempt_span(above: SpanId, task_id: str, run: int, attempt: int) -> SpanId:
    """The span of an attempt, from its hand-out to its end."""
    return above.named(task_id, run, attempt)
