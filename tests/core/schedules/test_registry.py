"""Commands on schedules: create, get, list, update, delete, pause, resume and trigger (docs/rules.md, Schedules)."""

import re

import pytest

from taskyard_server.core.errors import AlreadyExists, BadRequest, NotFound, Refusal, TooManySchedules, Unavailable
from taskyard_server.core.schedules.schedule import CatchUp, Overlap

from .clockwork import Never, Once, Steady, Wall, spec_of

SELDOM = Steady(1_000_000)

COMMANDS = {
    "get": lambda works, name: works.schedules.get(name),
    "update": lambda works, name: works.schedules.update(works.yard.now, name, spec_of(Steady(5))),
    "delete": lambda works, name: works.schedules.delete(name),
    "pause": lambda works, name: works.schedules.pause(works.yard.now, name),
    "resume": lambda works, name: works.schedules.resume(works.yard.now, name),
    "trigger": lambda works, name: works.schedules.trigger(works.yard.now, name),
}


def ids(schedules) -> list[str]:
    return [each.id for each in schedules.after(0)]


# Create and get


def test_a_schedule_has_the_spec_of_its_request_and_is_found_by_its_id(clockwork):
    made = clockwork.create(Steady(100), "nightly", display_name="Every night")
    assert made.spec == spec_of(Steady(100), display_name="Every night")
    assert (made.id, made.paused) == ("nightly", False)
    assert made.created_at == made.updated_at == clockwork.at(0)
    assert made.last_fired_at is made.last_task_id is None
    assert clockwork.schedules.get("nightly") is made


def test_by_default_a_schedule_skips_overlaps_and_catches_up_the_last_time_of_a_day():
    spec = spec_of(Steady(100))
    assert (spec.overlap, spec.catch_up, spec.catch_up_window_secs) == (Overlap.SKIP, CatchUp.LAST, 86_400)


@pytest.mark.parametrize(
    ("cadence", "next_due"), [(Steady(70), 75), (Wall(100), 100), (Once(1_700_000_033.0), 33)], ids=repr
)
@pytest.mark.parametrize("paused", [False, True])
def test_its_first_time_is_the_first_of_its_cadence_after_its_creation(clockwork, cadence, next_due, paused):
    clockwork.skip_to(5)
    assert clockwork.create(cadence, paused=paused).next_due == clockwork.at(next_due)
    assert clockwork.triggers() == []


def test_ids_that_the_server_chooses_differ_and_begin_with_their_kind(clockwork):
    made = [clockwork.create().id for _ in range(100)]
    assert len(set(made)) == 100
    assert all(re.fullmatch(r"sch_[0-9a-z]{10,}", each) for each in made)


def test_a_repeated_create_answers_with_the_first_and_changes_nothing(clockwork, watch):
    first = clockwork.create(Wall(100), "a", labels=(("k", "v"),))
    changes = watch(clockwork.yard.scheduler)
    clockwork.yard.now += 50
    assert clockwork.create(Wall(100), "a", labels=(("k", "v"),)) is first
    assert changes() == []


def test_a_repeated_create_is_answered_also_when_the_single_time_has_passed(clockwork):
    first = clockwork.create(Once(clockwork.at(10)), "a")
    clockwork.skip_to(20)
    assert clockwork.create(Once(clockwork.at(10)), "a") is first


@pytest.mark.parametrize(
    "other",
    [
        {"cadence": Steady(99)},
        {"cadence": Wall(100)},
        {"agent": "bob"},
        {"priority": 3},
        {"labels": (("k", "v"),)},
        {"deadline_secs": 5.0},
        {"display_name": "b"},
        {"overlap": Overlap.ALLOW},
        {"catch_up": CatchUp.ALL},
        {"catch_up_window_secs": 5},
    ],
    ids=str,
)
def test_an_id_is_not_given_to_a_different_schedule(clockwork, watch, other):
    clockwork.create(Steady(100), "a")
    changes = watch(clockwork.yard.scheduler)
    if "priority" in other:
        spec = spec_of(Steady(100))
        spec = spec._replace(task=spec.task._replace(**other))
    else:
        spec = spec_of(other.get("cadence", Steady(100)), **{k: v for k, v in other.items() if k != "cadence"})
    with pytest.raises(AlreadyExists):
        clockwork.schedules.create(clockwork.yard.now, "a", spec)
    assert changes() == []


def test_the_id_of_a_deleted_schedule_may_be_given_again(clockwork):
    first = clockwork.create(Steady(100), "a")
    clockwork.delete(first)
    second = clockwork.create(Steady(7), "a")
    assert clockwork.schedules.get("a") is second is not first


@pytest.mark.parametrize("secs", [-10, 0])
def test_a_single_time_that_has_passed_is_refused_by_create_and_update(clockwork, watch, secs):
    there = clockwork.create(Steady(100), "there")
    changes = watch(clockwork.yard.scheduler)
    passed = Once(clockwork.at(secs))
    with pytest.raises(BadRequest):
        clockwork.create(passed, "a")
    with pytest.raises(BadRequest):
        clockwork.update(there, cadence=passed)
    assert changes() == []


def test_whether_a_time_has_passed_is_read_on_the_wall_clock(clockwork):
    clockwork.jump(-1_000)
    assert clockwork.create(Once(clockwork.at(-500))).next_due == clockwork.at(-500)
    clockwork.jump(2_000)
    with pytest.raises(BadRequest):
        clockwork.create(Once(clockwork.at(500)))


def test_a_cadence_that_never_comes_is_refused(clockwork):
    with pytest.raises(BadRequest):
        clockwork.create(Never())
    assert len(clockwork.schedules) == 0


def test_a_namespace_has_no_more_schedules_than_it_may(make_clockwork):
    clockwork = make_clockwork(max_schedules=2)
    first = clockwork.create(Steady(100), "first")
    clockwork.create(Steady(100), "second")
    with pytest.raises(TooManySchedules, match="too many schedules") as refused:
        clockwork.create(Steady(100))
    assert (refused.value.code, refused.value.retryable) == ("queue_full", True)
    assert refused.value.details == {"maxSchedules": 2}
    assert clockwork.create(Steady(100), "first") is first
    clockwork.update(first, cadence=Steady(50))
    clockwork.delete(first)
    clockwork.create(Steady(100))


def test_a_smaller_number_of_schedules_ends_none_and_refuses_new_ones(make_clockwork):
    clockwork = make_clockwork(max_schedules=3)
    schedules = [clockwork.create(Steady(100)) for _ in range(3)]
    clockwork.yard.reconfigure(max_schedules=1)
    clockwork.run_to(110)
    assert len(clockwork.triggers()) == 3
    for each in schedules[:2]:
        clockwork.delete(each)
        with pytest.raises(TooManySchedules):
            clockwork.create(Steady(100))
    clockwork.delete(schedules[2])
    clockwork.create(Steady(100))


def test_no_schedule_is_made_while_the_scheduler_drains(clockwork):
    there = clockwork.create(Steady(100), "there")
    clockwork.yard.scheduler.drain()
    for command in (lambda: clockwork.create(), lambda: clockwork.schedules.trigger(clockwork.yard.now, there.id)):
        with pytest.raises(Unavailable):
            command()
    assert ids(clockwork.schedules) == ["there"]
    assert clockwork.triggers() == []


# List


def test_schedules_are_listed_oldest_first_from_any_place(clockwork):
    made = [clockwork.create(Steady(1_000), name) for name in ("z", "a", "m", "b")]
    clockwork.update(made[0], cadence=Steady(5))
    clockwork.delete(made[2])
    assert ids(clockwork.schedules) == ["z", "a", "b"]
    assert [each.id for each in clockwork.schedules.after(made[1].number)] == ["b"]
    assert [each.id for each in clockwork.schedules.after(made[2].number)] == ["b"]
    assert clockwork.schedules.after(made[3].number) == []
    assert len(clockwork.schedules) == 3


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_a_schedule_that_is_not_there_and_changes_nothing(clockwork, watch, command):
    clockwork.delete(clockwork.create(Steady(100), "gone"))
    changes = watch(clockwork.yard.scheduler)
    for name in ("gone", "never"):
        with pytest.raises(NotFound):
            COMMANDS[command](clockwork, name)
    assert changes() == []


# Update


def test_an_update_replaces_what_the_schedule_does_and_keeps_what_it_is(clockwork):
    schedule = clockwork.create(Steady(100), "a")
    clockwork.skip_to(30)
    spec = spec_of(Steady(100), agent="bob", overlap=Overlap.WAIT, catch_up=CatchUp.ALL)
    assert clockwork.schedules.update(clockwork.yard.now, "a", spec) is schedule
    assert schedule.spec == spec
    assert (schedule.created_at, schedule.updated_at) == (clockwork.at(0), clockwork.at(30))


def test_an_update_to_what_it_does_already_changes_nothing(clockwork, watch):
    schedule = clockwork.create(Wall(100), "a", labels=(("k", "v"),))
    changes = watch(clockwork.yard.scheduler)
    clockwork.yard.now += 30
    clockwork.schedules.update(clockwork.yard.now, "a", spec_of(Wall(100), labels=(("k", "v"),)))
    assert changes() == []
    assert schedule.updated_at == clockwork.at(0)


@pytest.mark.parametrize("part", [{"display_name": "x"}, {"overlap": Overlap.WAIT}, {"deadline_secs": 9.0}], ids=str)
def test_an_update_that_keeps_the_cadence_keeps_the_times(clockwork, part):
    schedule = clockwork.create(Steady(100))
    clockwork.skip_to(30)
    clockwork.update(schedule, **part)
    assert schedule.next_due == clockwork.at(100)


@pytest.mark.parametrize(
    ("cadence", "next_due"), [(Steady(10), 40), (Steady(500), 530), (Wall(50), 50), (Once(1_700_000_031.0), 31)]
)
def test_a_changed_cadence_counts_from_the_update(clockwork, cadence, next_due):
    schedule = clockwork.create(Steady(100))
    clockwork.skip_to(30)
    clockwork.update(schedule, cadence=cadence)
    assert schedule.next_due == clockwork.at(next_due)
    clockwork.run_to(600)
    assert clockwork.outcomes()[0] == (next_due, "executing")


def test_a_schedule_whose_single_time_is_over_may_get_another_one(clockwork):
    schedule = clockwork.create(Once(clockwork.at(10)))
    clockwork.run_to(20)
    assert schedule.next_due is None
    clockwork.update(schedule, cadence=Once(clockwork.at(30)))
    clockwork.complete_all()
    clockwork.run_to(40)
    assert clockwork.outcomes() == [(10, "completed"), (30, "executing")]


def test_a_changed_cadence_skips_what_came_due_by_the_old_one_and_has_not_fired(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=0)
    schedule = clockwork.create(Steady(100))
    clockwork.run_to(110)
    clockwork.update(schedule, cadence=Steady(70))
    clockwork.advance()
    (skipped,) = clockwork.triggers(schedule)
    assert skipped.state == "skipped"
    assert skipped.reason
    clockwork.reconfigure(max_queued_triggers=1)
    assert clockwork.outcomes(schedule) == [(100, "skipped")]


def test_an_update_leaves_what_has_fired_and_what_a_call_made(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    schedule = clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    fired, called = clockwork.trigger(schedule), clockwork.trigger(schedule)
    clockwork.update(schedule, cadence=Steady(5_000))
    clockwork.advance()
    assert (fired.state, called.state) == ("executing", "pending")
    clockwork.complete(fired)
    assert called.state == "executing"


def test_a_changed_template_is_for_the_tasks_that_are_submitted_later(clockwork):
    schedule = clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    clockwork.run_to(150)
    clockwork.update(schedule, task=schedule.spec.task._replace(action="type"))
    clockwork.run_to(250)
    assert [task.action for task in clockwork.tasks()] == ["click", "type"]


def test_a_paused_schedule_stays_paused_when_it_is_updated(clockwork):
    schedule = clockwork.create(Steady(100), paused=True)
    clockwork.update(schedule, cadence=Steady(10))
    clockwork.run_to(300)
    assert schedule.paused
    assert clockwork.triggers() == []


# Delete


def test_a_deleted_schedule_is_gone_with_its_pending_triggers(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=1)
    schedule = clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    clockwork.run_to(210)
    executing, pending = clockwork.triggers()
    clockwork.delete(schedule)
    assert clockwork.triggers() == [executing]
    with pytest.raises(NotFound):
        clockwork.schedules.get_trigger(pending.id)
    assert len(clockwork.schedules) == 0
    assert clockwork.counts() == (0, 1)
    clockwork.run_to(1_000)
    clockwork.complete(executing)
    assert clockwork.outcomes() == [(100, "completed")]
    assert len(clockwork.tasks()) == 1


def test_one_that_waits_for_another_never_fires_once_its_schedule_is_deleted(clockwork):
    schedule = clockwork.create(SELDOM, overlap=Overlap.WAIT)
    executing, _ = clockwork.trigger(schedule), clockwork.trigger(schedule)
    clockwork.delete(schedule)
    clockwork.complete(executing)
    assert clockwork.outcomes() == [(0, "completed")]
    assert len(clockwork.tasks()) == 1


def test_what_jitter_puts_off_is_due_no_more_when_its_schedule_is_deleted(make_clockwork):
    clockwork = make_clockwork(jitter_threshold=0)
    schedule = clockwork.create(Steady(100))
    clockwork.run_to(100.125)
    assert clockwork.outcomes() == [(100, "pending")]
    clockwork.delete(schedule)
    assert clockwork.yard.scheduler.next_due() is None


def test_what_a_deleted_schedule_left_pending_never_fires(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=0)
    gone = clockwork.create(Steady(100))
    clockwork.run_to(110)
    last = clockwork.trigger(clockwork.create(SELDOM))
    clockwork.delete(gone)
    clockwork.reconfigure(max_queued_triggers=1)
    assert [task.id for task in clockwork.tasks()] == [last.task_id]


# Pause and resume


def test_a_paused_schedule_makes_no_triggers(clockwork):
    schedule = clockwork.create(Steady(100))
    clockwork.pause(schedule)
    clockwork.run_to(1_000)
    assert schedule.paused
    assert (clockwork.triggers(), clockwork.tasks()) == ([], [])


def test_pausing_skips_what_is_pending_but_not_what_a_call_made(make_clockwork):
    clockwork = make_clockwork(max_queued_triggers=0)
    schedule = clockwork.create(Steady(100), overlap=Overlap.ALLOW)
    clockwork.run_to(110)
    (by_itself,) = clockwork.triggers(schedule)
    by_call = clockwork.trigger(schedule)
    clockwork.pause(schedule)
    clockwork.advance()
    assert [each.state for each in (by_itself, by_call)] == ["skipped", "pending"]
    assert by_itself.reason
    clockwork.reconfigure(max_queued_triggers=1)
    assert by_call.state == "executing"


def test_pausing_lets_go_on_what_has_fired(clockwork):
    schedule = clockwork.create(Steady(100))
    clockwork.run_to(110)
    clockwork.pause(schedule)
    clockwork.complete_all()
    assert clockwork.outcomes() == [(100, "completed")]


def test_a_paused_schedule_can_be_triggered_by_a_call(clockwork):
    schedule = clockwork.create(Steady(100), paused=True)
    assert clockwork.trigger(schedule).state == "executing"


@pytest.mark.parametrize(("command", "paused"), [("pause", True), ("resume", False)])
def test_pausing_a_paused_one_and_resuming_an_active_one_change_nothing(clockwork, watch, command, paused):
    schedule = clockwork.create(Steady(100), paused=paused)
    changes = watch(clockwork.yard.scheduler)
    clockwork.yard.now += 10
    assert getattr(clockwork.schedules, command)(clockwork.yard.now, schedule.id) is schedule
    assert changes() == []


def test_pause_and_resume_count_as_changes_by_a_call(clockwork):
    schedule = clockwork.create(Steady(100))
    clockwork.skip_to(10)
    assert clockwork.pause(schedule).updated_at == clockwork.at(10)
    clockwork.skip_to(20)
    assert clockwork.resume(schedule).updated_at == clockwork.at(20)
    assert not schedule.paused


def test_every_command_that_changes_nothing_leaves_the_events_empty(clockwork):
    schedule = clockwork.create(Steady(100), "a")
    for refused in (lambda: clockwork.create(Steady(1), "a"), lambda: clockwork.update(schedule, cadence=Never())):
        with pytest.raises(Refusal):
            refused()
    clockwork.resume(schedule)
    assert clockwork.trigger_events() == []
