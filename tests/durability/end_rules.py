"""Rules of ends: every task ends once in each run, as was acknowledged, and everybody is shown the same."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from .evidence import Evidence
from .history import ALWAYS, ENDED_STATES, Delivery, Json, Move, Reading, Report

OF_THE_SERVER = re.compile(r"deadline exceeded|lease expired|token limit exceeded")
"""Errors of failed tasks that no host reported."""
STEADY = ("taskId", "agentId", "action", "createdAt", "target", "priority", "idempotencyKey", "batchId", "startedAt")
"""What never changes once it is shown."""
OUTCOME = ("state", "completedAt", "error", "result", "hostId")


def all_tasks_have_ended(evidence: Evidence) -> Iterator[str]:
    for task_id, task in evidence.tasks.items():
        if task["state"] not in ENDED_STATES:
            yield f"{task_id} is {task['state']}"


def no_task_ends_twice(evidence: Evidence) -> Iterator[str]:
    for task_id in {*evidence.reports, *evidence.moves}:
        done = [each for each in evidence.taken(task_id, "completed") if each.state == "done"]
        for_good = [*done, *evidence.moved(task_id, "cancel", "resolve")]
        if len(for_good) > 1:
            yield f"{task_id} ended for good {len(for_good)} times: {for_good}"
        failed = [each for each in evidence.taken(task_id, "failed") if each.state == "failed"]
        if len(failed) > 1 + len(evidence.tried(task_id, "resume")):
            yield f"{task_id} failed {len(failed)} times: {failed}"


def ends_are_those_that_were_acknowledged(evidence: Evidence) -> Iterator[str]:
    for task_id, task in evidence.tasks.items():
        shown = {name: task.get(name) for name in OUTCOME}
        for each in evidence.taken(task_id, "completed"):
            expected = {"state": "done", "result": each.value, "hostId": each.who}
            if each.state == "done" and not shown.items() >= expected.items():
                yield f"{task_id} is {shown}, acknowledged was {expected}"
        for move in evidence.moved(task_id, "cancel", "resolve"):
            expected = {"state": "cancelled"} if move.kind == "cancel" else {"state": "done", "result": move.value}
            if not shown.items() >= expected.items():
                yield f"{task_id} is {shown}, acknowledged was {expected}"
        if not evidence.tried(task_id, "cancel", "resolve", "resume"):
            for each in evidence.taken(task_id, "failed"):
                expected = {"state": "failed", "error": each.value, "hostId": each.who}
                if each.state == "failed" and not shown.items() >= expected.items():
                    yield f"{task_id} is {shown}, acknowledged was {expected}"


def ends_have_a_cause(evidence: Evidence) -> Iterator[str]:
    for task_id, task in evidence.tasks.items():
        match task["state"]:
            case "done":
                ends: list[Report | Move] = [
                    *evidence.reported(task_id, "completed"),
                    *evidence.tried(task_id, "resolve"),
                ]
                if all(each.value != task.get("result") for each in ends):
                    yield f"{task_id} is done with {task.get('result')!r}, which nobody reported"
            case "cancelled":
                if not evidence.tried(task_id, "cancel"):
                    yield f"{task_id} is cancelled, and nobody did that"
            case "failed":
                error = task.get("error", "")
                told = any(each.value == error for each in evidence.reported(task_id, "failed"))
                if not told and not OF_THE_SERVER.search(error):
                    yield f"{task_id} failed with {error!r}, which nobody reported"


def runs_are_counted(evidence: Evidence) -> Iterator[str]:
    for task_id, task in evidence.tasks.items():
        least = 1 + len(evidence.moved(task_id, "resume"))
        most = 1 + len(evidence.tried(task_id, "resume"))
        if not least <= task.get("run", 1) <= most:
            yield f"{task_id} is in run {task.get('run', 1)}, {least} to {most} were begun"


def acknowledged_starts_are_kept(evidence: Evidence) -> Iterator[str]:
    for task_id, task in evidence.tasks.items():
        if evidence.taken(task_id, "started", "progress", "completed") and "startedAt" not in task:
            yield f"{task_id} has no startedAt, and a start was acknowledged"


def acknowledged_attempts_are_kept(evidence: Evidence) -> Iterator[str]:
    for task_id, task in evidence.tasks.items():
        errors = {attempt.get("error") for attempt in task.get("attempts", ())}
        for each in evidence.taken(task_id, "failed"):
            if each.state == "pending" and task.get("run", 1) == 1 and each.value not in errors:
                yield f"{task_id} has no attempt with {each.value!r}, which was acknowledged"


def what_is_shown_is_never_taken_back(evidence: Evidence) -> Iterator[str]:
    """Nobody learns of what is not committed: what one saw, all see who ask later."""
    for task_id, readings in evidence.readings.items():
        shown = [(each, each.task) for each in readings if each.task is not None]
        steady: dict[str, Json] = {}
        ends: dict[tuple[int, bool], dict[str, Json]] = {}
        for each, task in shown:
            for name in STEADY:
                if name in task and steady.setdefault(name, task[name]) != task[name]:
                    yield f"{task_id}: {name} was {steady[name]!r}, {each.who} saw {task[name]!r}"
            if task["state"] in ENDED_STATES:
                # A failed task may still be resolved or cancelled in the same run.
                key = task.get("run", 1), task["state"] == "failed"
                outcome = {name: task.get(name) for name in OUTCOME}
                if ends.setdefault(key, outcome) != outcome:
                    yield f"{task_id}: run {key[0]} ended with {ends[key]}, {each.who} saw {outcome}"
        by_end = sorted(shown, key=lambda pair: pair[0].ended)
        best, place = (ALWAYS, 0, False), 0
        for each, task in sorted(shown, key=lambda pair: pair[0].begun):
            while by_end[place][0].ended < each.begun:
                best = max(best, _progress(by_end[place][1]))
                place += 1
            if _progress(task) < best:
                yield f"{task_id}: {each.who} saw it {_progress(task)}, after it had been {best}"


def ends_after_a_failure_have_a_cause(evidence: Evidence) -> Iterator[str]:
    for task_id, readings in evidence.readings.items():
        states: dict[int, set[str]] = defaultdict(set)
        for each in readings:
            if each.task is not None and each.task["state"] in ENDED_STATES:
                states[each.task.get("run", 1)].add(each.task["state"])
        for run, seen in states.items():
            if len(seen) > 1 and not evidence.tried(task_id, "resolve", "cancel"):
                yield f"{task_id} ended run {run} as {sorted(seen)}"


def watches_show_every_end(evidence: Evidence) -> Iterator[str]:
    """Each watcher watched from before the first task, and went on by cursors."""
    seen: dict[str, dict[str, set[tuple[int, str]]]] = defaultdict(lambda: defaultdict(set))
    for each in evidence.of(Reading):
        if each.via in ("watch", "current") and each.task is not None:
            seen[each.who][each.task_id].add((each.task.get("run", 1), each.task["state"]))
    for who, shown in seen.items():
        for task_id, task in evidence.tasks.items():
            if (end := (task.get("run", 1), task["state"])) not in shown[task_id]:
                yield f"{who} never saw {task_id} as {end}, but {sorted(shown[task_id])}"


def watches_repeat_nothing(evidence: Evidence) -> Iterator[str]:
    """What a cursor has passed does not come again, and no task goes back from what was shown."""
    best: dict[tuple[str, str], tuple[float, int, bool]] = {}
    ends: set[tuple[str, str, int, str]] = set()
    for each in evidence.of(Reading):
        if each.via != "watch" or each.task is None:
            continue
        key = each.who, each.task_id
        progress = _progress(each.task)
        if progress < best.get(key, progress):
            yield f"{each.who} saw {each.task_id} {progress} after {best[key]}"
        best[key] = progress
        end = *key, each.task.get("run", 1), each.task["state"]
        if each.task["state"] in ENDED_STATES and end in ends:
            yield f"{each.who} was shown twice that {each.task_id} is {each.task['state']}"
        ends.add(end)


def webhooks_tell_every_end(evidence: Evidence) -> Iterator[str]:
    """At least once, to a receiver that is always there; all of an id tell the same."""
    told: dict[str, set[str]] = defaultdict(set)
    for each in evidence.of(Delivery):
        expected = f"{each.task['taskId']}-{each.task.get('run', 1)}-{each.task['state']}"
        told[each.task["taskId"]].add(each.webhook_id)
        if each.webhook_id != expected:
            yield f"the webhook {each.webhook_id} tells {expected}"
        if each.task["taskId"] not in evidence.tasks:
            yield f"the webhook {each.webhook_id} tells of a task that does not exist"
    for task_id, task in evidence.tasks.items():
        expected = f"{task_id}-{task.get('run', 1)}-{task['state']}"
        if "callbackUrl" in task and expected not in told[task_id]:
            yield f"no webhook told {expected}"


def _progress(task: dict[str, Json]) -> tuple[float, int, bool]:
    """How far a task has come; it never goes back."""
    ended = task["state"] in ENDED_STATES
    return task.get("run", 1), ended + (ended and task["state"] != "failed"), "startedAt" in task
