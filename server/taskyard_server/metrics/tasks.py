"""Counts of tasks by namespace, action and outcome, and how each namespace stands.

Callers choose the names of namespaces and actions, and each name is a series that Prometheus stores. So only the first
`most` namespaces, and the first `most` actions of each, have their own; all others are counted as `other`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from taskyard_server.core.events import CHANGED, SUBMITTED, Event
from taskyard_server.core.figures.queue_health import QueueHealth
from taskyard_server.core.task import ASSIGNED, FAILED, TERMINAL

from .histograms import Histogram

OTHER: Final = "other"
EXPIRED: Final = "expired"
"""The outcome of a task that failed since its deadline passed while it waited."""


class ActionCounts:
    """Counts of the tasks of one action in one namespace."""

    __slots__ = ("dispatched", "ended", "run_secs", "runs", "submitted")

    def __init__(self) -> None:
        self.submitted = 0
        self.dispatched = 0
        self.ended: dict[str, int] = {}
        self.runs = 0
        self.run_secs = 0.0

    def end(self, event: Event) -> None:
        """Count a task that ended with an event, or was refused."""
        state = event.state
        outcome = EXPIRED if state is FAILED and event.task.expired else state.value
        self.ended[outcome] = self.ended.get(outcome, 0) + 1
        if event.begun_at != inf:
            self.runs += 1
            self.run_secs += event.at - event.begun_at


class TaskMetrics:
    """Sees the events of all namespaces. `most` is how many names there are of each kind, beside `other`.

    `queue_wait` and `run_time` are of all tasks, in seconds: of each dispatch, and of each task that ran.
    """

    def __init__(self, most: int) -> None:
        self.queue_wait = Histogram()
        self.run_time = Histogram()
        self._most = most
        self._counts: dict[str, dict[str, ActionCounts]] = {}

    def see(self, namespace: str, events: Sequence[Event]) -> None:
        """Count the events of a turn of a namespace."""
        actions: dict[str, ActionCounts] | None = None
        for event in events:
            kind, state = event.kind, event.state
            if kind is not CHANGED and kind is not SUBMITTED:
                continue
            has_ended = state in TERMINAL
            if not has_ended and kind is CHANGED and state is not ASSIGNED:
                continue
            if actions is None:
                actions = self._actions(namespace)
            counts = actions.get(event.task.action) or self._new(actions, event.task.action)
            if has_ended:
                counts.end(event)
                if kind is CHANGED and event.begun_at != inf:
                    self.run_time.observe(event.at - event.begun_at)
            elif kind is SUBMITTED:
                counts.submitted += 1
            else:
                counts.dispatched += 1
                # A task that was returned in the turn in which it was dispatched has been queued again since.
                self.queue_wait.observe(max(0.0, event.at - event.task.queued_at))

    def _new(self, actions: dict[str, ActionCounts], action: str) -> ActionCounts:
        """The counts of an action that has none of its own yet."""
        if action not in actions and len(actions) - (OTHER in actions) >= self._most:
            action = OTHER
        counts = actions.get(action)
        if counts is None:
            counts = actions[action] = ActionCounts()
        return counts

    def deleted(self, namespace: str) -> None:
        """A namespace was deleted: its counts go, and another one may have a name."""
        if namespace != OTHER:
            self._counts.pop(namespace, None)

    def _actions(self, namespace: str) -> dict[str, ActionCounts]:
        actions = self._counts.get(namespace)
        if actions is None:
            if len(self._counts) - (OTHER in self._counts) >= self._most:
                namespace = OTHER
            actions = self._counts.setdefault(namespace, {})
        return actions

    def families(self) -> list[Metric]:
        """One scrape. It may run in another thread, since there may be many series."""
        names = ["namespace", "action"]
        submitted = CounterMetricFamily("taskyard_action_submitted", "Tasks accepted, by action.", labels=names)
        dispatched = CounterMetricFamily("taskyard_action_dispatched", "Hand-outs to hosts, by action.", labels=names)
        ended = CounterMetricFamily(
            "taskyard_action_ended", "Tasks that ended, by action and outcome.", labels=[*names, "outcome"]
        )
        runs = CounterMetricFamily("taskyard_action_runs", "Tasks that ended after they had begun.", labels=names)
        run_secs = CounterMetricFamily(
            "taskyard_action_run_seconds", "From the first start of these tasks to their end, summed up.", labels=names
        )
        for namespace, actions in list(self._counts.items()):
            for action, counts in list(actions.items()):
                submitted.add_metric([namespace, action], counts.submitted)
                dispatched.add_metric([namespace, action], counts.dispatched)
                for outcome, count in list(counts.ended.items()):
                    ended.add_metric([namespace, action, outcome], count)
                runs.add_metric([namespace, action], counts.runs)
                run_secs.add_metric([namespace, action], counts.run_secs)
        return [submitted, dispatched, ended, runs, run_secs]

    def standing_families(self, standings: Mapping[str, QueueHealth]) -> list[Metric]:
        """How the namespaces stand that have a name here, and all others together."""
        named: dict[str, QueueHealth] = {}
        for namespace, standing in standings.items():
            label = namespace
            if label not in self._counts:
                if len(self._counts) - (OTHER in self._counts) < self._most:
                    self._counts[label] = {}
                else:
                    label = OTHER
            named[label] = named[label].plus(standing) if label in named else standing
        families: list[Metric] = []
        for name, text in (
            ("queued", "Tasks that wait, by namespace."),
            ("inflight", "Tasks that are assigned or running, by namespace."),
            ("paused", "Tasks that were interrupted and can be resumed, by namespace."),
            ("parked", "Tasks that wait for answers, times or other tasks, by namespace."),
            ("questions", "Questions that nobody has answered yet, by namespace."),
            ("oldest_question_seconds", "How long the task has been parked whose question has waited longest."),
            ("oldest_seconds", "How long the task that could be claimed and waits longest has been queued."),
            ("starving", "Agents that have tasks which could be claimed, and none in flight."),
            ("starving_seconds", "How long the tasks of these agents have been queued, the longest of all."),
        ):
            family = GaugeMetricFamily(f"taskyard_namespace_{name}", text, labels=["namespace"])
            for label, standing in named.items():
                family.add_metric([label], getattr(standing, name.replace("_seconds", "_secs")))
            families.append(family)
        return families
