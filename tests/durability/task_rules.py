"""Rules of submitted tasks: none is lost, changed, doubled or invented, and they keep their order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from .evidence import Evidence, Intent, number_of, seconds_of
from .history import ALWAYS, Json, Move, Outcome, Reading, Report, Submission

PASSING = frozenset({"hold", "notBefore", "deadline"})
"""What is asked for and shown only while it matters."""


def acknowledged_tasks_are_there(evidence: Evidence) -> Iterator[str]:
    for number, intent in evidence.intents.items():
        ids = sorted({each.task_id or "" for each in intent.acknowledged})
        if len(ids) > 1:
            yield f"task {number} was acknowledged as {ids}"
        for task_id in ids:
            if task_id not in evidence.tasks:
                yield f"task {number}, acknowledged as {task_id}, is lost"


def tasks_are_unchanged(evidence: Evidence) -> Iterator[str]:
    for task_id, task in evidence.tasks.items():
        intent = evidence.intents.get(number_of(task))
        if intent is None:
            continue
        for name, value in intent.asked.items():
            if name not in PASSING and task.get(name) != value:
                yield f"{task_id}: {name} is {task.get(name)!r}, {value!r} was submitted"
        for each in intent.acknowledged:
            if each.task_id != task_id:
                yield f"{task_id} is task {number_of(task)}, which was acknowledged as {each.task_id}"
            for name, told in (("createdAt", each.created_at), ("batchId", each.batch_id)):
                # An answer to a repeat within another batch names that one, and the task stays in the first.
                if told is not None and task.get(name) != told and not (name == "batchId" and len(intent.tries) > 1):
                    yield f"{task_id}: {name} is {task.get(name)!r}, {told!r} was acknowledged"


def no_task_is_made_twice_or_without_being_asked_for(evidence: Evidence) -> Iterator[str]:
    by_number: dict[Json, list[str]] = defaultdict(list)
    for task_id, task in evidence.tasks.items():
        if task_id not in evidence.trigger_tasks:
            by_number[number_of(task)].append(task_id)
    for number, ids in by_number.items():
        intent = evidence.intents.get(number)
        if intent is None or not intent.may_exist:
            yield f"nobody asked for {ids}, or they were refused"
        elif len(ids) > 1:
            yield f"task {number} was made {len(ids)} times: {ids}"
    keys = Counter(
        (task["agentId"], task["idempotencyKey"]) for task in evidence.final.tasks if "idempotencyKey" in task
    )
    for key, count in keys.items():
        if count > 1:
            yield f"{count} tasks have the key {key}"


def tasks_are_in_the_order_of_their_submission(evidence: Evidence) -> Iterator[str]:
    """What was begun after something else was acknowledged comes after it; lanes keep their places."""
    latest, latest_id = ALWAYS, ""
    for task_id, task in evidence.tasks.items():
        intent = evidence.intents.get(number_of(task))
        if intent is None:
            continue
        if intent.ended < latest:
            yield f"{task_id} is listed after {latest_id}, which was submitted after it was acknowledged"
        if intent.begun > latest:
            latest, latest_id = intent.begun, task_id
    lanes: dict[str, list[Submission]] = defaultdict(list)
    for intent in evidence.intents.values():
        first = intent.tries[0]
        if len(intent.tries) == 1 and intent.acknowledged and first.task_id in evidence.position:
            lanes[first.lane].append(first)
    for lane, tries in lanes.items():
        tries.sort(key=lambda each: each.place)
        for one, other in pairwise(tries):
            if evidence.position[one.task_id or ""] > evidence.position[other.task_id or ""]:
                yield f"{lane}: {other.task_id} is listed before {one.task_id}, which was sent before it"


def ids_and_times_grow_with_the_order(evidence: Evidence) -> Iterator[str]:
    for one, other in pairwise(evidence.final.tasks):
        if one["taskId"] >= other["taskId"]:
            yield f"{one['taskId']} is listed before {other['taskId']}"
        if seconds_of(one["createdAt"]) > seconds_of(other["createdAt"]):
            yield f"{other['taskId']} was created before {one['taskId']}, which is listed before it"


def calls_are_whole(evidence: Evidence) -> Iterator[str]:
    """All tasks of a batch, or of a message of a stream, were made in one step, or none."""
    calls: dict[str, list[Intent]] = defaultdict(list)
    made = {number_of(task): task for task in evidence.final.tasks}
    for intent in evidence.intents.values():
        if intent.may_exist:
            calls[min(intent.tries, key=lambda each: each.begun).call].append(intent)
    for call, intents in calls.items():
        tasks = [task for intent in intents if (task := made.get(number_of(intent.asked)))]
        if tasks and len(tasks) < len(intents):
            yield f"of {len(intents)} tasks of {call} only {len(tasks)} are there"
        steps = {(task["createdAt"], task.get("batchId")) for task in tasks}
        if len(steps) > 1:
            yield f"the tasks of {call} were made in {len(steps)} steps: {sorted(map(str, steps))}"


def what_was_shown_is_never_unknown(evidence: Evidence) -> Iterator[str]:
    """Nobody learns the id of a task that may vanish. Reports on an ended task are refused in one way or the other."""
    known = {each.task_id: intent.ended for intent in evidence.intents.values() for each in intent.acknowledged}
    for each in evidence.of(Reading):
        if each.task is None and known.get(each.task_id, ALWAYS) < each.begun:
            yield f"{each.who}: {each.task_id} was not found"
    commands: list[Report | Move] = [*evidence.of(Report), *evidence.of(Move)]
    for command in commands:
        if command.outcome is Outcome.REFUSED and command.code == "not_found":
            ends: list[Report | Move] = [*evidence.tried(command.task_id, "cancel", "resolve")]
            ends += evidence.reported(command.task_id, "completed", "failed")
            of_live_tasks = command.kind not in ("resume", "resolve")
            if not (of_live_tasks and any(end.begun < command.ended for end in ends)):
                yield f"{command.who}: {command.kind} of {command.task_id} was refused as not_found"


def what_is_lost_is_the_newest(evidence: Evidence) -> Iterator[str]:
    """For a store that may lose its last moment: nothing is lost that was acknowledged before what is there began."""
    there = {number_of(task) for task in evidence.final.tasks}
    begun = [intent.begun for number, intent in evidence.intents.items() if number in there]
    latest = max(begun, default=ALWAYS)
    for number, intent in evidence.intents.items():
        if number not in there and intent.ended < latest:
            yield f"task {number} is lost, and one is there that was submitted {latest - intent.ended:.3f} s later"
