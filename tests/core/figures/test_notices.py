"""Kinds of tasks that no live host may run (docs/rules.md, Why a task waits)."""

from __future__ import annotations

import pytest

from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.limits import DEFAULTS
from taskyard_server.core.stats import Noticed

DEADLINE = 1_700_010_000.0


def notice(task) -> str | None:
    return None if task.lane is None else task.lane.bucket.notice


def look(yard, secs: float = 0) -> list[str]:
    yard.now += secs
    return yard.scheduler.dispatcher.notices.look(yard.now, yard.scheduler.limits.no_host_notice_secs)


def noticed(yard) -> Noticed:
    return stats_of(yard.scheduler).noticed


def test_a_task_says_so_once_no_live_host_has_offered_its_action_for_a_while(make_yard):
    yard = make_yard(no_host_notice_secs=30)
    yard.register("host", actions=frozenset({"index"}))
    task, other = yard.submit(action="crawl", deadline=DEADLINE), yard.submit(action="index", deadline=DEADLINE)
    assert look(yard) == look(yard, 29) == []
    assert notice(task) is None
    assert look(yard, 1) == ["no live host offers the action crawl"]
    assert notice(task) == "no live host offers the action crawl"
    assert notice(other) is None
    assert noticed(yard) == Noticed(1, {"no live host offers the action crawl": 1})
    assert look(yard, 1) == [], "it is told once"


def test_a_notice_goes_when_a_host_comes_and_begins_anew_when_the_host_has_gone(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    task = yard.submit(action="crawl", deadline=DEADLINE)
    look(yard)
    look(yard, 10)
    assert notice(task)
    yard.register("host", actions=frozenset({"crawl"}))
    assert notice(task) is None
    assert noticed(yard) == Noticed(0, {})
    yard.deregister()
    assert look(yard) == look(yard, 9) == []
    assert look(yard, 1) == ["no live host offers the action crawl"]


def test_a_host_that_is_offline_is_none_until_it_is_heard_of(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    yard.register("host")
    task = yard.submit(deadline=DEADLINE)
    assert look(yard, 61) == []
    assert look(yard, 10) == ["no live host offers the action click"]
    yard.scheduler.heartbeat(yard.now, "host")
    look(yard)
    assert notice(task) is None


def test_a_lost_host_is_none_and_the_notice_says_that_it_may_come_back(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    stream = yard.stream(actions=frozenset({"click"}))
    task = yard.submit(deadline=DEADLINE)
    yard.disconnect(stream)
    look(yard)
    (text,) = look(yard, 12)
    assert text == ("no live host offers the action click; a host that may run it was lost 12 s ago, and may come back")
    yard.stream(actions=frozenset({"click"}))
    assert notice(task) is None


def test_of_hosts_that_are_part_of_the_server_a_notice_says_nothing(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    yard.register("taskyard:tab-executor", built_in=True)
    yard.submit(action="render", requires=frozenset({"printer"}), deadline=DEADLINE)
    look(yard)
    assert look(yard, 10) == ["no live host offers the action render"]


def test_children_whose_parents_hold_all_slots_have_a_notice_until_one_is_free(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    yard.stream(credit=2)
    parents = [yard.submit(deadline=DEADLINE) for _ in range(2)]
    leases = yard.dispatch()
    children = [yard.submit(parent_id=parent.id, deadline=DEADLINE) for parent in parents]
    look(yard)
    assert look(yard, 4) == []
    (text,) = look(yard, 1)
    assert text.startswith("deadlock: all slots of the hosts that may run the action click are held by tasks that have")
    assert noticed(yard) == Noticed(2, {text: 2}, deadlocked=2)
    assert [notice(child) for child in children] == [text, text]
    yard.start(leases[0])
    yard.complete(leases[0])
    yard.give_credit(yard.scheduler.hosts.get("host").stream)
    assert look(yard) == []
    assert [notice(child) for child in children] == [None, None]


def test_what_only_waits_for_credit_a_limit_or_a_draining_host_has_no_notice(make_yard):
    yard = make_yard(no_host_notice_secs=10, max_inflight=1)
    yard.connect("host", credit=0)
    yard.scheduler.drain_host("host")
    task = yard.submit(deadline=DEADLINE)
    look(yard)
    assert look(yard, 20) == []
    assert notice(task) is None


def test_what_comes_later_of_a_kind_that_has_a_notice_has_it_at_once(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    first = yard.submit(deadline=DEADLINE)
    look(yard)
    look(yard, 10)
    yard.cancel(first)
    assert noticed(yard).waiting == 0
    assert notice(yard.submit(deadline=DEADLINE))
    yard.submit(deadline=DEADLINE, target="site")
    behind = yard.submit(deadline=DEADLINE, target="site")
    assert notice(behind) is None, "it waits for its target"
    assert noticed(yard).waiting == 2


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"action": "sleep"}, "no live host offers the action sleep"),
        (
            {"action": "crawl", "requires": frozenset({"gpu", "big"})},
            "no live host that offers the action crawl has the capabilities big, gpu",
        ),
        (
            {"action": "crawl", "requires": frozenset({"gpu"}), "project": "blog"},
            "no live host that may run the action crawl takes tasks of the project blog",
        ),
        (
            {"action": "crawl", "requires": frozenset({"gpu"})},
            "no live host that may run the action crawl takes tasks without a project",
        ),
    ],
)
def test_the_notice_names_what_nobody_has(make_yard, fields, text):
    yard = make_yard(no_host_notice_secs=10)
    yard.register("host", "gpu", project="shop", actions=frozenset({"crawl"}))
    yard.register("index", actions=frozenset({"index"}))
    yard.submit(deadline=DEADLINE, **fields)
    look(yard)
    yard.scheduler.heartbeat(yard.now, "host")
    assert look(yard, 10) == [text]


def test_tasks_are_counted_also_where_they_wait_for_keys(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    yard.register("other", actions=frozenset({"index"}))
    for _ in range(3):
        yard.submit(deadline=DEADLINE, action="crawl")
    look(yard)
    look(yard, 10)
    assert noticed(yard).waiting == 3


def test_of_many_kinds_some_are_looked_at_next_time(make_yard, monkeypatch):
    monkeypatch.setattr("taskyard_server.core.figures.notices.MAX_MATCHES", 5)
    yard = make_yard(no_host_notice_secs=10)
    for number in range(20):
        yard.submit(deadline=DEADLINE, action=f"action {number}")
    for _ in range(4):
        look(yard)
    yard.now += 10
    new = [text for _ in range(4) for text in look(yard)]
    assert len(new) == len(set(new)) == 20


def test_kinds_that_are_gone_are_kept_nowhere(make_yard):
    yard = make_yard(no_host_notice_secs=10)
    tasks = [yard.submit(deadline=DEADLINE, action=f"action {number}") for number in range(200)]
    look(yard)
    look(yard, 10)
    for task in tasks:
        yard.cancel(task)
    yard.submit(deadline=DEADLINE)
    look(yard, 1)
    assert len(yard.scheduler.dispatcher.notices._noticed) == 0


def test_by_default_a_task_says_so_before_its_default_deadline(make_yard):
    yard = make_yard()
    task = yard.submit(action="crawl")
    look(yard)
    look(yard, DEFAULTS.default_deadline_secs / 2)
    assert notice(task) == "no live host offers the action crawl"
