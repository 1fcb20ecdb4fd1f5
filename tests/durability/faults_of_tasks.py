"""Faults of tasks and of their ends, each in a story of its own."""

from __future__ import annotations

from .history import Outcome
from .made_up import Story, time_text
from .made_up_faults import Faults

FAULTS = Faults()

# Tasks


@FAULTS.breaks("acknowledged_tasks_are_there", "the_counters_are_between_what_was_acknowledged_and_what_was_asked_for")
def a_task_is_lost(story: Story) -> None:
    (task_id,) = story.submit()
    del story.tasks[task_id]


@FAULTS.breaks("acknowledged_tasks_are_there", "tasks_are_unchanged")
def a_repeat_is_acknowledged_as_another_task(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.repeat(task_id, "tsk_other")


@FAULTS.breaks("tasks_are_unchanged")
def the_priority_of_a_task_changes(story: Story) -> None:
    (task_id,) = story.submit(priority=3)
    story.tasks[task_id]["priority"] = 0
    story.run(task_id)


@FAULTS.breaks("tasks_are_unchanged")
def an_unacknowledged_task_is_changed(story: Story) -> None:
    (task_id,) = story.submit(outcome=Outcome.UNKNOWN, agentId="ann")
    story.tasks[task_id]["agentId"] = "bob"
    story.run(task_id)


@FAULTS.breaks("tasks_are_unchanged")
def the_acknowledged_time_of_a_task_changes(story: Story) -> None:
    (task_id,) = story.submit()
    story.tasks[task_id]["createdAt"] = time_text(100)
    story.run(task_id)


@FAULTS.breaks("no_task_is_made_twice_or_without_being_asked_for")
def a_task_is_made_twice(story: Story) -> None:
    (task_id,) = story.submit(outcome=Outcome.UNKNOWN)
    story.run(task_id)
    story.tasks["tsk_twin"] = {**story.tasks[task_id], "taskId": "tsk_twin", "state": "queued"}
    story.run("tsk_twin")
    # Only then the counters are between what was asked for and what is there.
    story.submit(outcome=Outcome.UNKNOWN, exist=False)


@FAULTS.breaks("no_task_is_made_twice_or_without_being_asked_for")
def two_tasks_have_a_key(story: Story) -> None:
    for _ in range(2):
        (task_id,) = story.submit(idempotencyKey="k")
        story.run(task_id)


@FAULTS.breaks(
    "no_task_is_made_twice_or_without_being_asked_for",
    "the_counters_are_between_what_was_acknowledged_and_what_was_asked_for",
)
def a_refused_task_is_there(story: Story) -> None:
    (task_id,) = story.submit(outcome=Outcome.REFUSED)
    story.run(task_id)


@FAULTS.breaks("tasks_are_in_the_order_of_their_submission", "ids_and_times_grow_with_the_order")
def two_tasks_change_places(story: Story) -> None:
    for _ in range(2):
        (task_id,) = story.submit()
        story.run(task_id)
    story.tasks = dict(reversed(story.tasks.items()))


@FAULTS.breaks("tasks_are_in_the_order_of_their_submission", "ids_and_times_grow_with_the_order")
def two_tasks_of_a_message_change_places(story: Story) -> None:
    for task_id in story.submit(2):
        story.run(task_id)
    story.tasks = dict(reversed(story.tasks.items()))


@FAULTS.breaks("ids_and_times_grow_with_the_order", "tasks_are_unchanged")
def the_clock_goes_back(story: Story) -> None:
    for _ in range(2):
        (task_id,) = story.submit()
        story.run(task_id)
    story.tasks[task_id]["createdAt"] = time_text(-1)


@FAULTS.breaks("calls_are_whole")
def half_a_batch_is_there(story: Story) -> None:
    one, other = story.submit(2, outcome=Outcome.UNKNOWN)
    del story.tasks[other]
    story.run(one)


@FAULTS.breaks("calls_are_whole")
def a_batch_is_made_in_two_steps(story: Story) -> None:
    one, other = story.submit(2, outcome=Outcome.UNKNOWN)
    story.tasks[other]["createdAt"] = story.time
    story.run(one)
    story.run(other)


@FAULTS.breaks("what_was_shown_is_never_unknown")
def an_acknowledged_task_is_not_found_for_a_while(story: Story) -> None:
    (task_id,) = story.submit()
    reading = story.read(task_id)
    story.change(reading, task=None)
    story.run(task_id)


@FAULTS.breaks("what_was_shown_is_never_unknown")
def a_leased_task_is_not_found(story: Story) -> None:
    (task_id,) = story.submit()
    grant = story.grant(task_id)
    story.report("started", grant, Outcome.REFUSED, code="not_found")
    story.finish(story.start(grant))


# Ends


@FAULTS.breaks("all_tasks_have_ended", "the_counters_add_up", "the_counters_are_those_of_the_listing")
def a_task_never_ends(story: Story) -> None:
    story.submit()


@FAULTS.breaks("no_task_ends_twice")
def a_task_is_completed_twice(story: Story) -> None:
    (task_id,) = story.submit()
    report = story.run(task_id)
    story.add(
        type(report),
        report.who,
        kind="completed",
        task_id=task_id,
        token=report.token,
        outcome=Outcome.ACKNOWLEDGED,
        state="done",
        value=report.value,
    )


@FAULTS.breaks("no_task_ends_twice")
def a_task_fails_twice_in_a_run(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id, error="boom")
    story.run(task_id, error="boom")
    story.tasks[task_id].pop("run", None)


@FAULTS.breaks("no_task_ends_twice", "ends_are_those_that_were_acknowledged")
def a_done_task_is_cancelled(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.move("cancel", task_id)


@FAULTS.breaks("ends_are_those_that_were_acknowledged", "ends_have_a_cause")
def the_result_is_another_one(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.tasks[task_id]["result"] = "another"


@FAULTS.breaks("ends_are_those_that_were_acknowledged", "ends_have_a_cause")
def a_failed_task_is_done(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id, error="boom")
    story.end(task_id, "done", error=None, result="invented")


@FAULTS.breaks("ends_are_those_that_were_acknowledged")
def a_cancelled_task_has_failed(story: Story) -> None:
    (task_id,) = story.submit()
    story.move("cancel", task_id)
    story.end(task_id, "failed", error="deadline exceeded while queued")


@FAULTS.breaks("ends_have_a_cause")
def a_task_is_cancelled_by_nobody(story: Story) -> None:
    (task_id,) = story.submit()
    story.end(task_id, "cancelled")


@FAULTS.breaks("ends_have_a_cause")
def a_task_fails_by_itself(story: Story) -> None:
    (task_id,) = story.submit()
    story.end(task_id, "failed", error="no reason")


@FAULTS.breaks("ends_after_a_failure_have_a_cause")
def a_failed_task_is_done_without_a_resume(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id, error="boom")
    story.read(task_id)
    story.move("resume", task_id, Outcome.UNKNOWN)
    story.tasks[task_id].pop("error")
    story.run(task_id)


@FAULTS.breaks("runs_are_counted")
def a_resume_is_lost(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id, error="boom")
    story.move("resume", task_id)
    story.run(task_id)
    del story.tasks[task_id]["run"]


@FAULTS.breaks("acknowledged_starts_are_kept")
def a_start_is_forgotten(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    del story.tasks[task_id]["startedAt"]


@FAULTS.breaks("acknowledged_attempts_are_kept")
def an_attempt_is_forgotten(story: Story) -> None:
    (task_id,) = story.submit()
    first = story.start(story.grant(task_id))
    story.change(first, ended=story.now)
    story.report("failed", first, state="pending", value="boom")
    story.run(task_id)


@FAULTS.breaks("what_is_shown_is_never_taken_back")
def an_end_that_was_shown_is_another_one_later(story: Story) -> None:
    (task_id,) = story.submit()
    story.read(task_id, state="done", completedAt=time_text(1), result=1)
    story.run(task_id)


@FAULTS.breaks("what_is_shown_is_never_taken_back")
def a_task_that_was_shown_as_done_runs_again(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.read(task_id)
    story.read(task_id, state="running")


@FAULTS.breaks("what_is_shown_is_never_taken_back")
def a_start_that_was_shown_is_another_one_later(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.read(task_id, startedAt=time_text(0), state="running")


@FAULTS.breaks("watches_show_every_end")
def a_watch_misses_an_end(story: Story) -> None:
    (task_id,) = story.submit()
    story.watch(task_id)
    story.run(task_id)


@FAULTS.breaks("watches_repeat_nothing")
def a_watch_shows_an_end_twice(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.watch(task_id)
    story.watch(task_id)


@FAULTS.breaks("watches_repeat_nothing")
def a_watch_shows_a_task_assigned_after_its_start(story: Story) -> None:
    (task_id,) = story.submit()
    work = story.start(story.grant(task_id))
    running = story.watch(task_id).task or {}
    assigned = {name: value for name, value in running.items() if name != "startedAt"}
    story.change(story.watch(task_id), task=assigned | {"state": "assigned"})
    story.finish(work)
    story.watch(task_id)


@FAULTS.breaks("webhooks_tell_every_end")
def a_webhook_is_lost(story: Story) -> None:
    (task_id,) = story.submit(callbackUrl="http://receiver")
    story.run(task_id)


@FAULTS.breaks("webhooks_tell_every_end")
def a_webhook_has_the_id_of_another_run(story: Story) -> None:
    (task_id,) = story.submit(callbackUrl="http://receiver")
    story.run(task_id)
    story.change(story.deliver(task_id), webhook_id=f"{task_id}-2-done")
