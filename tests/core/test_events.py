"""Events: each change of a task in order, with its values just after the change (docs/rules.md, Watching)."""

import pytest

from taskyard_server.core.errors import Conflict, QueueFull


def changes(yard):
    """The kind and the states of each event since the last call."""
    return [(event.kind, event.before, event.state) for event in yard.scheduler.take_events()]


def running(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.start(lease)
    yard.scheduler.take_events()
    return lease


def test_a_new_task_was_submitted(yard):
    task = yard.submit()
    (event,) = yard.scheduler.take_events()
    assert (event.kind, event.before, event.state, event.at) == ("submitted", None, "queued", yard.now)
    assert event.task is task


def test_a_task_that_admission_refused_was_submitted_as_rejected(make_yard):
    yard = make_yard(max_queue_size=1)
    yard.submit()
    yard.scheduler.take_events()
    with pytest.raises(QueueFull):
        yard.submit()
    (event,) = yard.scheduler.take_events()
    assert (event.kind, event.before, event.state) == ("submitted", None, "rejected")
    assert event.error == "rejected: global queue full"


def test_each_change_names_the_state_before_and_after(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    yard.start(lease)
    yard.complete(lease)
    assert changes(yard) == [
        ("submitted", None, "queued"),
        ("changed", "queued", "assigned"),
        ("changed", "assigned", "running"),
        ("changed", "running", "done"),
    ]


def test_a_completion_without_a_start_has_the_events_of_both(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    changes(yard)
    yard.complete(lease)
    assert changes(yard) == [("changed", "assigned", "running"), ("changed", "running", "done")]


def test_an_event_holds_what_was_true_then_though_the_task_goes_on(yard):
    yard.register("one")
    yard.register("two")
    yard.submit()
    lease = yard.claim_one("one")
    yard.now += 1
    yard.start(lease)
    started_at = yard.now
    yard.scheduler.reports.progress(yard.now, "one", lease.task.id, lease.token, b"a half")
    yard.release(lease)
    yard.fail(yard.claim_one("two"), "broken")
    events = yard.scheduler.take_events()
    assert [event.host_id for event in events] == [None, "one", "one", "one", "one", "two", "two"]
    assert [event.started_at for event in events] == [None, None, *[started_at] * 5]
    assert [event.progress for event in events] == [None, None, None, *[b"a half"] * 4]
    assert [event.error for event in events] == [*[None] * 6, "broken"]


def test_the_tab_executor_is_named_by_no_event(yard):
    yard.register("tabs", built_in=True)
    yard.submit(tab_id="tab")
    yard.complete(yard.claim_one("tabs"))
    assert {event.host_id for event in yard.scheduler.take_events()} == {None}


def test_progress_has_an_event_with_the_reported_progress(yard):
    lease = running(yard)
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"a half")
    (event,) = yard.scheduler.take_events()
    assert (event.kind, event.before, event.state, event.progress) == ("progressed", "running", "running", b"a half")


def test_progress_without_anything_new_has_no_event(yard):
    lease = running(yard)
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, None)
    assert changes(yard) == []


def test_the_event_of_first_progress_comes_after_that_of_the_start(yard):
    yard.stream()
    yard.submit()
    lease = yard.dispatch_one()
    changes(yard)
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"a half")
    assert changes(yard) == [("changed", "assigned", "running"), ("progressed", "running", "running")]


def test_the_event_of_a_task_that_goes_back_has_no_error(make_yard):
    yard = make_yard(start_timeout_secs=10)
    yard.stream()
    yard.submit()
    yard.dispatch_one()
    changes(yard)
    yard.pass_time(10.125)
    (event,) = yard.scheduler.take_events()
    assert (event.before, event.state, event.error) == ("assigned", "queued", None)


def test_a_task_that_is_not_retained_any_more_was_evicted_in_its_last_state(make_yard):
    yard = make_yard(result_ttl_secs=10)
    task = yard.submit()
    yard.cancel(task)
    changes(yard)
    yard.pass_time(10)
    (event,) = yard.scheduler.take_events()
    assert (event.kind, event.before, event.state, event.at) == ("evicted", "cancelled", "cancelled", yard.now)
    assert event.task is task


def test_a_task_that_makes_room_for_another_is_evicted_after_the_others_end(make_yard):
    yard = make_yard(max_retained_tasks=1)
    first, second = yard.submit(), yard.submit()
    yard.cancel(first)
    yard.scheduler.take_events()
    yard.cancel(second)
    events = [(event.kind, event.task) for event in yard.scheduler.take_events()]
    assert events == [("changed", second), ("evicted", first)]


def test_signs_of_life_credit_and_renewals_have_no_events(yard):
    stream = yard.stream()
    yard.submit()
    lease = yard.dispatch_one()
    changes(yard)
    yard.beat(stream, lease)
    yard.give_credit(stream)
    yard.renew(lease)
    yard.disconnect(stream)
    yard.connect(held=[lease])
    assert changes(yard) == []


def test_a_refused_command_has_no_event(yard):
    task = yard.submit()
    yard.cancel(task)
    changes(yard)
    with pytest.raises(Conflict):
        yard.cancel(task)
    assert changes(yard) == []


def test_events_are_taken_once(yard):
    yard.submit()
    assert len(yard.scheduler.take_events()) == 1
    assert yard.scheduler.take_events() == []
