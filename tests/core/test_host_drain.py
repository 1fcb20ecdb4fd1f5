"""A host that drains gets nothing new; what it runs after its time is paused (docs/rules.md, Host drain)."""

import pytest

from taskyard_server.core.errors import NotFound
from taskyard_server.core.figures.figures import stats_of
from tests.core.task_cases import STATES, complete, resume


def test_a_draining_host_gets_nothing_new_and_may_finish_what_it_holds(yard):
    yard.register()
    yard.register("other")
    for _ in range(2):
        yard.submit()
    lease = yard.claim_one()
    assert yard.scheduler.drain_host("host").draining
    assert yard.claim() == []
    yard.start(lease)
    yard.renew(lease)
    assert yard.complete(lease).state == "done"
    assert len(yard.claim("other")) == 1


def test_a_draining_host_that_registers_again_gets_tasks_again(yard):
    yard.register()
    yard.submit()
    yard.scheduler.drain_host("host")
    assert not yard.register().draining
    assert len(yard.claim()) == 1


def test_draining_a_host_that_is_not_registered_is_not_found(yard):
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.scheduler.drain_host("stranger")


def test_no_limit_is_named_for_a_draining_host(make_yard):
    yard = make_yard(max_inflight=1)
    yard.register()
    for _ in range(2):
        yard.submit()
    yard.claim(count=2)
    assert stats_of(yard.scheduler).limited_by == "maxInflight"
    yard.scheduler.drain_host("host")
    yard.claim(count=2)
    assert stats_of(yard.scheduler).limited_by is None


@pytest.mark.parametrize("state", ["assigned", "running"])
def test_what_a_drained_host_still_holds_after_its_time_is_paused(yard, state):
    case = STATES[state](yard)
    yard.scheduler.drain_host("host", yard.now + 30)
    yard.pass_time(29)
    assert case.task.state == state
    yard.pass_time(1.2)
    assert (case.task.state, case.task.error) == ("paused", "Job was interrupted by user")
    resume(case)
    assert yard.claim() == [], "it still drains"


def test_what_a_drained_host_finishes_in_time_is_done(yard):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 30)
    complete(case)
    yard.pass_time(31)
    assert case.task.state == "done"


def test_a_drain_without_a_time_pauses_nothing(yard):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host")
    yard.pass_time(100)
    assert case.task.state == "running"


@pytest.mark.parametrize("later", [None, 100.0])
def test_of_two_drains_of_a_host_the_last_one_counts(yard, later):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 10)
    yard.scheduler.drain_host("host", None if later is None else yard.now + later)
    yard.pass_time(50)
    assert case.task.state == "running"
    yard.pass_time(51)
    assert case.task.state == ("running" if later is None else "paused")


def test_a_host_that_registers_again_drains_no_more(yard):
    case = STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 10)
    yard.register()
    yard.pass_time(11)
    assert case.task.state == "running"


def test_a_host_that_is_deregistered_leaves_no_drain_behind(yard):
    STATES["running"](yard)
    yard.scheduler.drain_host("host", yard.now + 10)
    yard.deregister()
    yard.register()
    lease = yard.start_one()
    yard.pass_time(11)
    assert lease.task.state == "running"
