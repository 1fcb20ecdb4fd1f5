"""Rules of schedules: each trigger fires once, and no due time is left out or comes twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .evidence import Evidence, seconds_of
from .history import ENDED_STATES, Firing, Outcome, ScheduleMade, TriggerReading

ALIGNED_SECS = 0.002
FIRED = frozenset({"executing", "completed", "failed"})


def each_trigger_has_one_task(evidence: Evidence) -> Iterator[str]:
    by_trigger: dict[str, set[str]] = defaultdict(set)
    for each in evidence.of(TriggerReading):
        if "taskId" in each.trigger:
            by_trigger[each.trigger["triggerId"]].add(each.trigger["taskId"])
    for trigger_id, trigger in evidence.triggers.items():
        if "taskId" in trigger:
            by_trigger[trigger_id].add(trigger["taskId"])
    for task_id, task in evidence.trigger_tasks.items():
        by_trigger[task["idempotencyKey"]].add(task_id)
    owner: dict[str, str] = {}
    for trigger_id, ids in by_trigger.items():
        if len(ids) > 1:
            yield f"{trigger_id} fired {len(ids)} times: {sorted(ids)}"
        for task_id in ids:
            if task_id not in evidence.tasks:
                yield f"the task {task_id} of {trigger_id} is lost"
            if owner.setdefault(task_id, trigger_id) != trigger_id:
                yield f"{task_id} is of the triggers {owner[task_id]} and {trigger_id}"


def each_key_of_a_schedule_has_one_trigger(evidence: Evidence) -> Iterator[str]:
    ids: dict[tuple[str, str], set[str]] = defaultdict(set)
    for trigger_id, trigger in evidence.triggers.items():
        ids[trigger["scheduleId"], trigger["idempotencyKey"]].add(trigger_id)
    for firing in evidence.of(Firing):
        if firing.outcome is Outcome.ACKNOWLEDGED and firing.trigger_id is not None:
            ids[firing.schedule_id, firing.key].add(firing.trigger_id)
            if firing.trigger_id not in evidence.triggers:
                yield f"the trigger {firing.trigger_id} was acknowledged and is lost"
    for key, found in ids.items():
        if len(found) > 1:
            yield f"the key {key} has the triggers {sorted(found)}"


def intervals_fire_at_every_due_time(evidence: Evidence) -> Iterator[str]:
    for schedule in evidence.of(ScheduleMade):
        first = seconds_of(schedule.created_at)
        counts: dict[int, list[str]] = defaultdict(list)
        for trigger_id, trigger in evidence.triggers.items():
            # The key of a due time is that time; keys of calls have letters.
            if trigger["scheduleId"] != schedule.schedule_id or not trigger["idempotencyKey"].isdigit():
                continue
            times = (seconds_of(trigger["dueAt"]) - first) / schedule.every_secs
            if abs(times - round(times)) * schedule.every_secs > ALIGNED_SECS:
                yield f"{schedule.schedule_id} was due at {trigger['dueAt']}, {times} intervals after its beginning"
            counts[round(times)].append(trigger_id)
        for count, ids in counts.items():
            if len(ids) > 1:
                yield f"{schedule.schedule_id} came due {len(ids)} times after {count} intervals: {ids}"
        if missing := set(range(1, max(counts, default=0))) - counts.keys():
            yield f"{schedule.schedule_id} left out its due times {sorted(missing)} of {max(counts)}"


def triggers_end_as_their_tasks(evidence: Evidence) -> Iterator[str]:
    for trigger_id, trigger in evidence.triggers.items():
        task = evidence.tasks.get(trigger.get("taskId", ""))
        # One that is no longer kept was shown last while it was open, perhaps.
        kept = any(each["triggerId"] == trigger_id for each in evidence.final.triggers)
        # The planner pauses its schedules in the end, and what waits for a place then is never fired.
        is_passed_over = trigger["state"] == "skipped" and trigger.get("reason") == "the schedule was paused"
        if trigger["state"] not in FIRED and not is_passed_over:
            yield f"{trigger_id} is {trigger['state']}: {trigger.get('reason')}"
        elif task is not None and kept and task["state"] in ENDED_STATES:
            expected = "completed" if task["state"] == "done" else "failed"
            if trigger["state"] != expected and not evidence.tried(task["taskId"], "resume", "resolve"):
                yield f"{trigger_id} is {trigger['state']}, its task {task['taskId']} is {task['state']}"
