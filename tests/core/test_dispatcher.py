"""The dispatcher: claims for a project, and what wakes a host that waits (docs/rules.md, Matching, Claim order)."""

import pytest

from taskyard_server.core.errors import BadRequest

# A claim for one project


def test_a_claim_may_name_one_project(yard):
    yard.register()
    yard.submit()
    yard.submit(project="blue")
    red = yard.submit(project="red")
    (lease,) = yard.scheduler.claim(yard.now, "host", 5, project="red")
    assert lease.task is red
    assert len(yard.claim(count=5)) == 2


def test_a_host_of_a_project_may_name_that_project_and_no_other(yard, watch):
    yard.register(project="red")
    yard.submit(project="red")
    yard.submit(project="blue")
    changes = watch(yard.scheduler)
    with pytest.raises(BadRequest, match="project"):
        yard.scheduler.claim(yard.now, "host", project="blue")
    assert changes() == []
    assert len(yard.scheduler.claim(yard.now, "host", 5, project="red")) == 1


# What wakes a host that waits


@pytest.fixture
def asleep(make_yard):
    """Makes a yard with a host that waits, and that was handed nothing yet."""

    def make(*capabilities, **limits):
        yard = make_yard(**limits)
        yard.stream("host", *capabilities, credit=5, lease_secs=3600)
        assert yard.dispatch() == []
        return yard

    return make


def test_a_new_task_wakes(asleep):
    yard = asleep()
    yard.submit()
    assert len(yard.dispatch()) == 1


def test_a_task_of_a_kind_that_never_was_wakes(asleep):
    yard = asleep("gpu")
    for number in range(3):
        yard.submit(action=f"new-{number}", requires=frozenset({"gpu"}))
        assert len(yard.dispatch()) == 1


@pytest.mark.parametrize("way", ["release", "expiry", "deregister"])
def test_a_task_that_comes_back_wakes(asleep, way):
    yard = asleep()
    yard.register("other")
    yard.submit(deadline=yard.now + 1_000)
    lease = yard.claim_one("other", lease_secs=1)
    assert yard.dispatch() == []
    back = {
        "release": lambda: yard.release(lease),
        "expiry": lambda: yard.pass_time(1.125),
        "deregister": lambda: yard.deregister("other"),
    }
    back[way]()
    assert yard.dispatched_hosts() == ["host"]


@pytest.mark.parametrize("report", ["complete", "fail"])
def test_an_agent_that_falls_under_its_limit_wakes(asleep, report):
    yard = asleep(max_per_agent_inflight=1)
    for _ in range(2):
        yard.submit()
    (lease,) = yard.dispatch()
    assert yard.dispatch() == []
    getattr(yard, report)(lease)
    assert len(yard.dispatch()) == 1


def test_a_freed_limit_of_all_wakes(asleep):
    yard = asleep(max_inflight=1)
    for agent in ("ann", "bob"):
        yard.submit(agent)
    (lease,) = yard.dispatch()
    assert yard.dispatch() == []
    yard.complete(lease)
    assert len(yard.dispatch()) == 1


@pytest.mark.parametrize("limit", ["max_inflight", "max_per_agent_inflight"])
def test_a_raised_limit_wakes(asleep, limit):
    yard = asleep(**{limit: 1})
    for _ in range(2):
        yard.submit()
    assert len(yard.dispatch()) == 1
    yard.reconfigure(**{limit: 2})
    assert len(yard.dispatch()) == 1


def test_a_host_that_registers_again_after_its_drain_wakes(asleep):
    yard = asleep()
    yard.scheduler.drain_host("host")
    yard.submit()
    assert yard.dispatch() == []
    yard.register("host")
    assert len(yard.dispatch()) == 1


def test_a_new_stream_ends_the_drain_of_its_host_for_waiting_claims(yard):
    yard.register()
    yard.offer()
    yard.scheduler.drain_host("host")
    yard.submit()
    assert yard.dispatch() == []
    yard.stream(credit=0)
    assert len(yard.dispatch()) == 1


def test_a_host_that_registers_as_able_to_run_more_wakes(asleep):
    yard = asleep()
    yard.submit(requires=frozenset({"gpu"}))
    assert yard.dispatch() == []
    yard.register("host", "gpu")
    assert len(yard.dispatch()) == 1


def test_a_host_that_registers_as_able_to_run_less_is_handed_less(asleep):
    yard = asleep("gpu")
    yard.register("host")
    yard.submit(requires=frozenset({"gpu"}))
    assert yard.dispatch() == []


def test_a_stream_is_handed_tasks_by_the_present_project_of_its_host(yard):
    yard.stream(credit=5, project="red")
    yard.register("host", project="blue")
    yard.submit(project="red")
    assert yard.dispatch() == []
    yard.register("host")
    assert len(yard.dispatch()) == 1


def test_a_claim_that_waits_for_a_project_is_handed_nothing_once_the_host_has_another(yard):
    yard.register()
    yard.offer(room=5, project="red")
    yard.register("host", project="blue")
    yard.submit(project="red")
    yard.submit(project="blue")
    assert yard.dispatch() == []
    yard.register("host")
    assert [lease.task.options.project for lease in yard.dispatch()] == ["red"]


def test_a_silent_stream_is_handed_nothing_until_its_host_is_heard_of(yard):
    stream = yard.stream(credit=5, lease_secs=30)
    yard.submit(deadline=yard.now + 1_000)
    yard.now += 20 + 0.001
    assert yard.dispatch() == []
    yard.beat(stream)
    assert len(yard.dispatch()) == 1


def test_a_stream_is_not_silent_for_two_heartbeats(yard):
    yard.stream(lease_secs=30)
    yard.submit(deadline=yard.now + 1_000)
    yard.now += 20
    assert len(yard.dispatch()) == 1


def test_a_claim_that_is_served_wakes_the_silent_stream_of_its_host(yard):
    yard.stream(lease_secs=30)
    yard.offer()
    for _ in range(2):
        yard.submit(deadline=yard.now + 1_000)
    yard.now += 21
    assert len(yard.dispatch()) == 2


def test_a_host_that_is_dead_by_a_lowered_time_out_is_handed_nothing_until_it_is_heard_of(make_yard):
    yard = make_yard(heartbeat_timeout_secs=60)
    stream = yard.stream(lease_secs=60)
    yard.now += 15
    yard.reconfigure(heartbeat_timeout_secs=5)
    task = yard.submit()
    assert (yard.dispatch(), task.state) == ([], "queued")
    yard.beat(stream)
    assert len(yard.dispatch()) == 1


# The limit that holds up a host


@pytest.mark.parametrize("limit", ["max_inflight", "max_per_agent_inflight"])
def test_the_limit_that_holds_up_a_host_that_waits_is_named(asleep, limit):
    yard = asleep(**{limit: 1})
    for _ in range(2):
        yard.submit()
    (lease,) = yard.dispatch()
    names = {"max_inflight": "maxInflight", "max_per_agent_inflight": "maxPerAgentInflight"}
    assert yard.scheduler.limited_by == names[limit]
    yard.complete(lease)
    yard.dispatch()
    assert yard.scheduler.limited_by is None
