"""Searches in memory find what a look at each task does, and look at few of them (docs/rules.md, Listing)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.names import names
from taskyard_server.core.search.label_selectors import parse_selector
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.search.task_search import MAX_LOOKED_AT, search
from taskyard_server.core.task import Submission, TaskState
from taskyard_server.core.task_options import TaskExtras
from tests.cases import every_case
from tests.core.yard import Yard
from tests.effort import times

PAGE = 256
SIZE = 40_000
MANY = {"max_queue_size": 1_000_000, "max_per_agent": 1_000_000, "max_retained_tasks": 1_000_000}


def found(yard, wanted, *, newest_first=False, limit=1_000_000):
    """All that a search finds, slice by slice, and in how many."""
    tasks, after, slices = [], 0, 0
    while after is not None and len(tasks) < limit:
        slice_ = search(yard.scheduler, wanted, after, limit - len(tasks), newest_first=newest_first)
        tasks += slice_.tasks
        after = slice_.after
        slices += 1
    return tasks, slices


def looked_at_each(yard, wanted):
    return [task for task in yard.tasks() if wanted.matches(task)]


@pytest.fixture
def busy_yard(make_yard):
    """A yard with over three pages of tasks, among them one of each kind that is rare."""
    yard = make_yard(**MANY)
    for number in range(3 * PAGE):
        yard.submit("ann", f"step-{number % 3}")
    yard.register()
    for _ in range(PAGE):
        yard.complete(yard.start_one(), b"x")
    yard.submit("bob", labels=(("env", "dev"), ("site", "shop")), target="till", parent_id="tsk_1")
    yard.submit("ann", extras=TaskExtras(concurrency_keys=("site:1", "site:2")))
    yard.submit("ann", hold=True)
    yard.submit("ann", retry=RetryPolicy(max_attempts=3), priority=-9)
    yard.fail(yard.start_one(), "Out of Ink")
    yard.submit("ann", priority=-8)
    yard.fail(yard.start_one(), "Out of Ink")
    yard.submit("ann", priority=-8)
    yard.pause(yard.start_one().task)
    yard.cancel(yard.submit("ann"))
    yard.submit("ann", priority=-7)
    yard.start_one()
    yard.claim_one()
    return yard


FILTERS = [
    TaskFilter(),
    TaskFilter(agent_id="bob"),
    TaskFilter(agent_id="nobody"),
    TaskFilter(agents=names(["b*"])),
    TaskFilter(action="step-1"),
    TaskFilter(target="till"),
    TaskFilter(parent_id="tsk_1"),
    TaskFilter(concurrency_key="site:2"),
    TaskFilter(host_id="host"),
    TaskFilter(error="out of ink"),
    TaskFilter(ended_from=0),
    *[TaskFilter(id_prefix=prefix) for prefix in ("tsk_", "tsk_000", "bat_", "tsk_" + "0" * 32, "tsk_" + "0" * 33)],
    TaskFilter(ended_until=0),
    *[TaskFilter(states=frozenset({state})) for state in TaskState],
    TaskFilter(states=frozenset({TaskState.RUNNING, TaskState.PAUSED})),
    TaskFilter(states=frozenset({TaskState.QUEUED, TaskState.ASSIGNED})),
    *[
        TaskFilter(labels=parse_selector(text))
        for text in ("site=shop", "site in (shop,news)", "site", "!site", "site!=shop", "env=dev,site=news", "color")
    ],
]


@every_case("newest_first", [False, True])
@every_case("wanted", FILTERS, ids=[f"filter {place}" for place in range(len(FILTERS))])
def test_a_search_finds_what_a_look_at_each_task_does(busy_yard, wanted, newest_first):
    expected = looked_at_each(busy_yard, wanted)
    assert found(busy_yard, wanted, newest_first=newest_first)[0] == (expected[::-1] if newest_first else expected)


@every_case("newest_first", [False, True])
@every_case("limit", [1, 7, PAGE, PAGE + 1])
def test_a_search_goes_on_after_each_slice(busy_yard, limit, newest_first):
    wanted, tasks, after = TaskFilter(action="step-1"), [], 0
    while after is not None:
        slice_ = search(busy_yard.scheduler, wanted, after, limit, newest_first=newest_first)
        assert len(slice_.tasks) <= limit
        tasks += slice_.tasks
        after = slice_.after
    assert tasks == looked_at_each(busy_yard, wanted)[:: -1 if newest_first else 1]


def test_a_slice_looks_at_so_many_tasks_and_a_page_more_at_most(make_yard):
    yard = make_yard(**MANY)
    for _ in range(2 * MAX_LOOKED_AT):
        yard.submit()
    found_at = search(yard.scheduler, TaskFilter(action="none"), 0, 10).after
    assert MAX_LOOKED_AT <= found_at <= MAX_LOOKED_AT + PAGE


def test_the_tasks_of_a_batch_are_found_by_the_batch(make_yard):
    yard = make_yard(**MANY)
    yard.submit()
    batch = yard.scheduler.submit_batch(yard.now, [Submission("ann", "a"), Submission("ann", "b")]).batch
    tasks = list(batch.tasks.values())
    assert found(yard, TaskFilter(batch_id=batch.id)) == (tasks, 1)
    assert found(yard, TaskFilter(batch_id=batch.id), newest_first=True)[0] == tasks[::-1]
    assert search(yard.scheduler, TaskFilter(batch_id=batch.id), tasks[0].seq, 9).tasks == tasks[1:]
    assert found(yard, TaskFilter(batch_id=batch.id, action="b"))[0] == tasks[1:]
    assert found(yard, TaskFilter(batch_id="none")) == ([], 1)


@settings(deadline=None, max_examples=times(10))
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=60), st.booleans())
def test_pages_are_exact_while_tasks_come_and_go(changes, newest_first):
    """A task that matches all the while is listed once, whatever happens between two slices."""
    yard = Yard(**{**MANY, "result_ttl_secs": 1.0})
    tasks = [yard.submit(labels=(("site", str(number % 3)),)) for number in range(3 * PAGE)]
    wanted = TaskFilter(labels=parse_selector("site=1"), states=frozenset({TaskState.QUEUED}))
    seen, after, left = [], 0, iter(changes)
    while after is not None:
        slice_ = search(yard.scheduler, wanted, after, 10, newest_first=newest_first)
        seen += slice_.tasks
        after = slice_.after
        first, submits = next(left, (None, False))
        for task in tasks[first * 18 : first * 18 + 15] if first is not None else ():
            if task.state is TaskState.QUEUED:
                yard.cancel(task)
        if submits:
            yard.submit(labels=(("site", "1"),))
        yard.pass_time(1)
    assert len(set(seen)) == len(seen)
    stayed = [task for task in tasks if wanted.matches(task)]
    assert set(stayed) <= set(seen)
    assert [task.seq for task in seen] == sorted([task.seq for task in seen], reverse=newest_first)


@pytest.mark.parametrize("stop", [lambda yard, of: yard.fail(of, "broken"), lambda yard, of: yard.pause(of.task)])
def test_a_stop_that_is_taken_back_counts_no_longer(make_yard, stop):
    yard = make_yard()
    yard.register()
    again, waits = yard.submit(), yard.submit(priority=9)
    stop(yard, yard.start_one())
    yard.resume(again)
    yard.complete(yard.start_one())
    assert found(yard, TaskFilter(states=frozenset({TaskState.QUEUED})))[0] == [waits]


@pytest.fixture(scope="module")
def large_yard():
    """A yard with very many tasks, all done but one, which is assigned; one of each rare kind lies in the middle."""
    yard = Yard(**MANY)
    yard.register()
    rare = {
        SIZE // 2: {"agent": "bob"},
        SIZE // 2 + 1: {"labels": (("site", "shop"),)},
        SIZE // 2 + 2: {"target": "till", "hold": True},
    }
    for number in range(SIZE):
        task = yard.submit(**rare.get(number, {}))
        if not task.is_held and number != SIZE - 10:
            yard.complete(yard.claim_one())
        elif not task.is_held:
            yard.claim_one()
    return yard


@pytest.mark.python_core
@every_case(
    "wanted",
    [
        TaskFilter(agent_id="bob"),
        TaskFilter(labels=parse_selector("site=shop")),
        TaskFilter(target="till"),
        TaskFilter(states=frozenset({TaskState.PENDING})),
        TaskFilter(states=frozenset({TaskState.ASSIGNED})),
    ],
    ids=["agent", "label", "target", "pending", "in flight"],
)
@pytest.mark.gate("counts instructions among very many tasks")
def test_one_among_forty_thousand_is_found_at_a_fiftieth_of_the_cost(large_yard, instructions, wanted):
    scan = instructions(lambda: looked_at_each(large_yard, wanted))
    assert len(found(large_yard, wanted)[0]) == 1
    assert instructions(lambda: found(large_yard, wanted)) * 50 < scan


def test_what_a_page_notes_is_a_few_times_what_its_tasks_have(make_yard, object_count):
    yard = make_yard(**{**MANY, "result_ttl_secs": 1.0})
    for number in range(20 * PAGE):
        yard.submit(labels=(("request", f"r-{number}"),), hold=number % PAGE == 0)
    kept = object_count(yard.scheduler.life.tasks)
    for task in yard.tasks():
        if not task.is_held:
            yard.cancel(task)
    yard.pass_time(2)
    while yard.scheduler.life.retention:
        yard.pass_time(1)
    assert object_count(yard.scheduler.life.tasks) < kept / 8
