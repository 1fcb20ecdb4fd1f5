"""Events: who waits for a name gets what is sent to it, each once (docs/rules.md, Events)."""

import pytest

from taskyard_server.core.errors import TooLarge, TooManyEvents, Unavailable
from taskyard_server.core.figures.explain import explain
from taskyard_server.core.history import Wait
from taskyard_server.core.names import names
from taskyard_server.core.runs.events import MAX_EVENT_BYTES, MAX_EVENTS, MAX_EVENTS_BYTES
from taskyard_server.core.runs.steps import MAX_STEPS_BYTES, NewStep


@pytest.fixture
def yard(yard):
    """The yard with a host, whose leases and deadlines are far off."""
    yard.reconfigure(default_deadline_secs=1e6, heartbeat_timeout_secs=1e9, lease_secs=1e6)
    yard.register()
    return yard


def event(name="paid", until=None, wait_name=None):
    return Wait("event", wait_name or name, until, (name,))


def park(yard, *waits):
    yard.park(yard.start_one(), *waits)


def parked(yard, *waits, **fields):
    """A new task that waits for any of these."""
    task = yard.submit(**fields)
    lease = yard.start_one()
    assert lease.task is task
    yard.park(lease, *waits)
    return task


def got(yard):
    """The kind, name and result of each step that was taken since the last call."""
    return [(step.kind, step.name, step.result) for step in yard.steps()]


def is_empty(yard):
    events = yard.scheduler.parks.events
    return not (events._by_name or events._by_key or events._bytes or events._waiting or events._due)


def test_it_wakes_what_waits_for_its_name(yard):
    task, other = parked(yard, event()), parked(yard, event("shipped"))
    sent, is_repeat = yard.send("paid", b"yes")
    assert (sent.waited, is_repeat) == (1, False)
    yard.pass_time(0)
    assert (task.state, other.state) == ("queued", "parked")
    (step,) = yard.steps()
    assert (step.kind, step.name, step.result, step.by, step.is_expired) == ("event", "paid", b"yes", "bob", False)
    assert task.history.park.heard == (("paid", 1),)


def test_what_begins_to_wait_within_its_life_gets_it(yard):
    yard.send("paid", b"yes", 10)
    yard.now += 9.9
    assert parked(yard, event()).state == "queued"
    assert got(yard) == [("event", "paid", b"yes")]


@pytest.mark.parametrize("after", [10.0, 11.0])
def test_what_begins_to_wait_at_its_end_gets_nothing(yard, after):
    yard.send("paid", life_secs=10)
    yard.now += after
    assert parked(yard, event()).state == "parked"
    assert got(yard) == []


def test_one_without_a_life_is_for_those_that_wait_alone(yard):
    yard.send("paid", life_secs=0)
    task = parked(yard, event())
    yard.send("paid", b"yes", life_secs=0)
    yard.pass_time(0)
    assert task.state == "queued"
    assert is_empty(yard)
    park(yard, event(wait_name="again"))
    assert task.state == "parked"


def test_a_task_gets_each_once_and_the_oldest_first(yard):
    for payload in (b"1", b"2", b"3"):
        yard.send("paid", payload)
    task = parked(yard, event(wait_name="a"))
    park(yard, event(wait_name="b"))
    assert task.state == "queued"
    park(yard, event(wait_name="c"))
    park(yard, event(wait_name="d"))
    assert task.state == "parked"
    assert got(yard) == [("event", name, payload) for name, payload in (("a", b"1"), ("b", b"2"), ("c", b"3"))]


def test_two_waits_for_one_name_get_two_events(yard):
    task = parked(yard, event(wait_name="a"), event(wait_name="b"))
    yard.send("paid", b"1", life_secs=0)
    yard.send("paid", b"2", life_secs=0)
    yard.pass_time(0)
    assert task.state == "queued"
    assert got(yard) == [("event", "a", b"1"), ("event", "b", b"2")]
    assert is_empty(yard)


def test_a_resumed_run_does_not_get_it_again(yard):
    yard.send("paid")
    task = parked(yard, event(wait_name="a"))
    yard.fail(yard.start_one())
    yard.scheduler.resume(yard.now, task.id)
    park(yard, event(wait_name="b"))
    assert task.state == "parked"


def test_one_that_runs_gets_it_when_it_waits_again(yard):
    task = parked(yard, event(), Wait("answer", "go", None, (), b"question"))
    yard.answer(task, "go")
    yard.send("paid")
    assert task.state == "queued"
    park(yard, event())
    assert task.state == "queued"
    assert [kind for kind, _, _ in got(yard)] == ["answer", "event"]


def test_what_goes_on_for_something_else_gets_what_came_before(yard):
    task = parked(yard, event(), Wait("answer", "go", None, (), b"question"))
    yard.send("paid", life_secs=0)
    yard.answer(task, "go")
    assert [kind for kind, _, _ in got(yard)] == ["answer", "event"]
    assert is_empty(yard)


def test_what_came_just_before_the_time_is_over_counts(yard):
    task = parked(yard, event(until=yard.now + 5))
    yard.now += 5.5
    yard.send("paid", life_secs=0)
    yard.pass_time(1)
    assert task.state == "queued"
    assert [step.is_expired for step in yard.steps()] == [False]


def test_a_time_limit_ends_the_wait(yard):
    task = parked(yard, event(until=yard.now + 5))
    yard.pass_time(6)
    assert task.state == "queued"
    (step,) = yard.steps()
    assert (step.kind, step.result, step.is_expired) == ("event", None, True)
    yard.send("paid", life_secs=0)
    assert is_empty(yard)


def test_the_same_id_within_its_life_is_the_same_event(yard):
    first, _ = yard.send("paid", b"1", event_id="e")
    assert yard.send("paid", b"2", event_id="e") == (first, True)
    assert yard.send("shipped", event_id="e")[1] is False
    yard.pass_time(61)
    assert yard.send("paid", event_id="e")[1] is False


def test_it_is_for_tasks_of_the_agents_of_its_sender(yard):
    mine, other = parked(yard, event(), agent="a"), parked(yard, event(), agent="b")
    sent, _ = yard.send("paid", agents=names(["a*"]), event_id="e")
    assert sent.waited == 1
    yard.pass_time(0)
    assert (mine.state, other.state) == ("queued", "parked")
    assert yard.send("paid", agents=names(["b"]), event_id="e")[1] is False
    yard.pass_time(0)
    assert other.state == "queued"
    yard.scheduler.cancel(yard.now, mine.id)
    yard.scheduler.cancel(yard.now, other.id)
    assert parked(yard, event(), agent="c").state == "parked"


def test_those_that_wait_go_on_one_by_one_the_oldest_first(yard):
    tasks = [parked(yard, event()) for _ in range(5)]
    yard.transitions()
    yard.send("paid", life_secs=0)
    for _ in tasks:
        yard.scheduler.advance(yard.now, 1)
    assert yard.transitions() == [(task.id, "queued") for task in tasks]
    assert is_empty(yard)


def test_it_is_kept_until_all_have_got_it(yard):
    tasks = [parked(yard, event()) for _ in range(3)]
    yard.send("paid", life_secs=1)
    yard.now += 10
    yard.scheduler.advance(yard.now, 2)
    assert [task.state for task in tasks] == ["queued", "parked", "parked"]
    assert parked(yard, event(), priority=-1).state == "parked"
    yard.pass_time(0)
    assert [task.state for task in tasks] == ["queued"] * 3
    assert len(yard.scheduler.parks.events) == 0


def test_a_task_that_is_cancelled_before_its_turn_leaves_nothing(yard):
    task = parked(yard, event())
    yard.send("paid", life_secs=0)
    yard.scheduler.cancel(yard.now, task.id)
    yard.pass_time(0)
    assert task.state == "cancelled"
    assert got(yard) == []
    assert is_empty(yard)


def test_no_more_are_kept_than_may_be(yard):
    for number in range(MAX_EVENTS):
        yard.send(f"name-{number}")
    with pytest.raises(TooManyEvents):
        yard.send("paid")
    yard.pass_time(61)
    assert is_empty(yard)
    for _ in range(MAX_EVENTS_BYTES // MAX_EVENT_BYTES):
        yard.send("paid", bytes(MAX_EVENT_BYTES))
    with pytest.raises(TooManyEvents):
        yard.send("paid", b"1")


def test_its_payload_has_room_among_the_steps(yard):
    yard.submit()
    lease = yard.start_one()
    step = NewStep(lease.task.id, lease.token, "large", bytes(MAX_STEPS_BYTES - 5 - MAX_EVENT_BYTES))
    yard.scheduler.reports.record_step(yard.now, "host", step)
    with pytest.raises(TooLarge, match="waits: "):
        yard.park(lease, event("a"), event("b"))
    yard.park(lease, event("a"))


def test_it_is_refused_while_an_earlier_version_may_come_to_serve(yard):
    yard.scheduler.readers.allow_fields(added=True, extras=True, output=True, artifacts=False)
    with pytest.raises(Unavailable, match="event: "):
        yard.send("paid")


def test_explain_names_it(yard):
    task = parked(yard, event(wait_name="payment"))
    (reason,) = explain(yard.scheduler, yard.now, task).reasons
    assert (reason.kind, reason.name) == ("event", "payment")
    assert reason.message == "the task is parked, and waits for the event paid"
