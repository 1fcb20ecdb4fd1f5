"""Faults of leases, of schedules and of figures, each in a story of its own."""

from __future__ import annotations

from .history import NEVER, Outcome
from .made_up import Story, time_text
from .made_up_faults import Faults

FAULTS = Faults()

# Leases


@FAULTS.breaks("tokens_are_of_one_lease", "tokens_grow_with_the_grants")
def a_token_is_given_twice(story: Story) -> None:
    one, other = (story.submit()[0] for _ in range(2))
    story.run(one)
    story.finish(story.start(story.change(story.grant(other), token=1)))


@FAULTS.breaks("tokens_grow_with_the_grants")
def a_token_goes_back(story: Story) -> None:
    one, other = (story.submit()[0] for _ in range(2))
    story.finish(story.start(story.change(story.grant(one), token=9)))
    story.run(other)


@FAULTS.breaks("tokens_grow_with_the_grants")
def a_token_goes_back_by_the_clock_of_the_server(story: Story) -> None:
    one, other = (story.submit()[0] for _ in range(2))
    story.finish(story.start(story.change(story.grant(one), claimed_at=100.0)))
    story.run(other)


@FAULTS.breaks("no_two_tokens_of_a_task_are_acknowledged_at_overlapping_times")
def a_stale_token_is_taken(story: Story) -> None:
    (task_id,) = story.submit()
    first = story.start(story.grant(task_id, "one"))
    story.change(first, ended=story.now)
    second = story.start(story.grant(task_id, "two"))
    story.finish(second)
    story.add(
        type(story.events[-1]),
        "one",
        kind="progress",
        task_id=task_id,
        token=first.token,
        outcome=Outcome.ACKNOWLEDGED,
        state="running",
    )


@FAULTS.breaks("no_two_tokens_of_a_task_are_acknowledged_at_overlapping_times")
def two_leases_of_a_task_are_renewed_at_once(story: Story) -> None:
    (task_id,) = story.submit()
    one, other = story.grant(task_id, "one"), story.grant(task_id, "two")
    for grant in (one, other, one, other):
        story.report("renewed", grant)
    story.finish(story.start(other))


@FAULTS.breaks("claimed_leases_live_as_long_as_they_are_renewed")
def a_lease_is_lost_in_its_time(story: Story) -> None:
    (task_id,) = story.submit()
    lost = story.start(story.grant(task_id, "one"))
    story.report("renewed", lost)
    story.change(lost, ended=story.now)
    story.report("renewed", lost, Outcome.REFUSED, code="lease_lost")
    story.run(task_id, "two")


@FAULTS.breaks("no_lease_starts_two_handlers")
def a_lease_starts_two_handlers(story: Story) -> None:
    (task_id,) = story.submit()
    grant = story.grant(task_id)
    story.finish(story.start(grant))
    story.add(type(story.events[-2]), grant.who, task_id=task_id, token=grant.token)


@FAULTS.breaks("two_tasks_of_a_target_are_never_at_work_at_once")
def two_tasks_of_a_target_are_at_work(story: Story) -> None:
    works = [story.start(story.grant(task_id)) for task_id in story.submit(2, target="t")]
    for work in works:
        story.finish(work)


@FAULTS.breaks("two_tasks_of_a_target_are_never_at_work_at_once")
def a_lost_task_of_a_target_goes_on_beside_its_next_attempt(story: Story) -> None:
    (task_id,) = story.submit(target="t")
    lost = story.start(story.grant(task_id, "one"))
    story.run(task_id, "two")
    story.change(lost, ended=NEVER)


@FAULTS.breaks("targets_go_by_age")
def a_younger_task_of_a_target_goes_first(story: Story) -> None:
    for task_id in reversed(story.submit(2, target="t")):
        story.run(task_id)


@FAULTS.breaks("registered_hosts_stay_known")
def a_host_is_forgotten(story: Story) -> None:
    story.call("register")
    story.call("claim", outcome=Outcome.REFUSED, code="not_found")


@FAULTS.breaks("nothing_is_leased_in_the_end")
def a_lease_is_left(story: Story) -> None:
    story.leases.append({"taskId": "tsk_1"})


# Schedules


@FAULTS.breaks("each_trigger_has_one_task", "no_task_is_made_twice_or_without_being_asked_for")
def a_trigger_fires_twice(story: Story) -> None:
    trigger = story.fire(story.schedule(), 1)
    twin = {**story.tasks[trigger["taskId"]], "taskId": f"tsk_{story.now:06g}00", "createdAt": story.time}
    story.tasks[twin["taskId"]] = twin
    story.run(twin["taskId"])


@FAULTS.breaks("each_trigger_has_one_task")
def the_task_of_a_trigger_is_lost(story: Story) -> None:
    trigger = story.fire(story.schedule(), 1)
    del story.tasks[trigger["taskId"]]


@FAULTS.breaks("each_key_of_a_schedule_has_one_trigger")
def a_key_of_a_call_fires_twice(story: Story) -> None:
    schedule = story.schedule()
    for _ in range(2):
        story.fire(schedule, 1, key="by-call")


@FAULTS.breaks("each_key_of_a_schedule_has_one_trigger", "intervals_fire_at_every_due_time")
def a_due_time_comes_twice(story: Story) -> None:
    schedule = story.schedule()
    for _ in range(2):
        story.fire(schedule, 1)


@FAULTS.breaks("intervals_fire_at_every_due_time")
def a_due_time_is_left_out(story: Story) -> None:
    schedule = story.schedule()
    for times in (1, 3):
        story.fire(schedule, times)


@FAULTS.breaks("intervals_fire_at_every_due_time")
def a_schedule_begins_anew(story: Story) -> None:
    schedule = story.schedule()
    story.change(schedule, created_at=time_text(story.now - 4))
    story.fire(schedule, 1)


@FAULTS.breaks("triggers_end_as_their_tasks")
def a_trigger_is_skipped(story: Story) -> None:
    story.fire(story.schedule(), 1)["state"] = "skipped"


@FAULTS.breaks("triggers_end_as_their_tasks")
def a_trigger_is_never_told_the_end_of_its_task(story: Story) -> None:
    story.fire(story.schedule(), 1)["state"] = "executing"


# Figures


@FAULTS.breaks(
    "the_counters_add_up",
    "the_counters_are_those_of_the_listing",
    "the_counters_are_between_what_was_acknowledged_and_what_was_asked_for",
)
def a_submission_is_counted_twice(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.stats["tasksSubmitted"] = 2


@FAULTS.breaks("the_counters_add_up", "the_counters_are_those_of_the_listing")
def an_end_is_not_counted(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.stats["tasksCompleted"] = 0


@FAULTS.breaks("the_counters_of_agents_are_those_of_the_listing")
def an_end_is_not_counted_for_its_agent(story: Story) -> None:
    (task_id,) = story.submit()
    story.run(task_id)
    story.agents["ann"] = {"submitted": 1}
