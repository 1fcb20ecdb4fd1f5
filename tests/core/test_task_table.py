"""The table of tasks: ids, listing from any task, and pages that are dropped with their last task."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard_server.core.agents import Agent
from taskyard_server.core.task import Submission, Task, TaskState
from taskyard_server.core.task_table import TaskTable
from tests.cases import every_case

NOW = 1_700_000_000.0
PAGE = 256
"""Tasks on one page of the table."""


def table(entropy=lambda: 0):
    return TaskTable(entropy)


def grown(tasks_in_it):
    """A table with that many tasks, numbered from 1."""
    it = table()
    agent = Agent("ann", 0)
    tasks = []
    for _ in range(tasks_in_it):
        task_id, seq = it.next_id(NOW)
        tasks.append(Task(task_id, seq, agent, Submission("ann", "click"), NOW, NOW + 60, TaskState.QUEUED))
        it.add(tasks[-1])
    return it, tasks


def remove(it, task):
    """Let a task end and leave the table."""
    task.state = TaskState.DONE
    task.page.done += 1
    it.remove(task)


def listed_back(it, before):
    """The numbers of the tasks before this one, or of all, the last first."""
    pages = it.pages(before, newest_first=True)
    return [task.seq for page in pages for task in reversed(page.tasks) if not before or task.seq < before]


def listed(it, after):
    return [task.seq for task in it.after(after)]


def test_an_id_is_the_prefix_and_128_bits_in_hex():
    task_id, _ = table().next_id(NOW)
    assert re.fullmatch(r"tsk_[0-9a-f]{32}", task_id)


def test_an_id_holds_the_milliseconds_the_order_and_the_entropy():
    it = table(lambda: 0xABCDEF0123)
    it.next_id(NOW)
    task_id, seq = it.next_id(1_700_000_000.1235)
    assert seq == 2
    assert task_id == f"tsk_{1_700_000_000_123:012x}{2:010x}abcdef0123"


@settings(deadline=None)
@given(st.lists(st.floats(0, 3600), min_size=2, max_size=50), st.randoms(use_true_random=False))
def test_ids_are_unique_and_sort_in_the_order_of_submission(waits, draw):
    it = table(lambda: draw.getrandbits(40))
    now, ids = NOW, []
    for wait in waits:
        now += wait
        ids += [it.next_id(now)[0], it.next_id(now)[0]]
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)


def test_a_task_is_found_by_its_id_until_it_is_removed():
    it, tasks = grown(3)
    assert it.get(tasks[1].id) is tasks[1]
    remove(it, tasks[1])
    assert it.get(tasks[1].id) is None
    assert it.get(tasks[2].id) is tasks[2]


@every_case(
    "nonsense", ["", "tsk_", "x", "tsk_ff", "tsk_" + "0" * 32, "tsk_" + "f" * 400, "tsk_" + "é" * 32, "\0", "bat_1" * 9]
)
def test_an_id_of_nonsense_shape_finds_nothing(nonsense):
    it, _ = grown(3)
    assert it.get(nonsense) is None


def test_an_id_that_differs_in_one_digit_finds_nothing():
    it, (task,) = grown(1)
    for position in range(4, len(task.id)):
        digit = "1" if task.id[position] != "1" else "2"
        assert it.get(task.id[:position] + digit + task.id[position + 1 :]) is None
    assert it.get(task.id.upper()) is None
    assert it.get(task.id + "0") is None


@every_case("after", [0, 1, 2, PAGE - 2, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 9_999, 10_000])
def test_a_listing_starts_after_any_task(after):
    it, _ = grown(10_000)
    assert listed(it, after) == list(range(after + 1, 10_001))


@every_case("before", [1, 2, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE - 1, 2 * PAGE, 9_999, 10_000, 10_001])
def test_a_listing_goes_back_from_any_task(before):
    it, _ = grown(10_000)
    assert listed_back(it, before) == list(range(before - 1, 0, -1))


def test_a_listing_goes_back_from_the_last_task_unless_told_otherwise():
    it, _ = grown(PAGE + 5)
    assert listed_back(it, 0) == list(range(PAGE + 5, 0, -1))


def test_a_listing_may_start_after_a_task_that_is_gone():
    it, tasks = grown(20)
    for task in tasks[4:9]:
        remove(it, task)
    assert listed(it, 7) == list(range(10, 21))
    assert listed(it, 0) == [1, 2, 3, 4, *range(10, 21)]


def test_a_listing_may_start_on_a_page_that_is_gone():
    it, tasks = grown(3 * PAGE)
    for task in tasks[PAGE - 1 : 2 * PAGE - 1]:
        remove(it, task)
    assert listed(it, PAGE + 5) == list(range(2 * PAGE, 3 * PAGE + 1))


def test_a_listing_past_the_end_is_empty():
    it, _ = grown(5)
    assert listed(it, 5) == listed(it, 1_000_000) == []


def test_a_task_that_comes_onto_a_page_that_was_dropped_is_listed_last():
    it, (only,) = grown(1)
    remove(it, only)
    task_id, seq = it.next_id(NOW)
    late = Task(task_id, seq, Agent("ann", 0), Submission("ann", "click"), NOW, NOW + 60, TaskState.QUEUED)
    it.add(late)
    assert list(it.after(0)) == [late]


def test_a_page_is_dropped_with_its_last_task(object_count):
    it, few = grown(2 * PAGE)
    for task in few:
        remove(it, task)
    empty = object_count(it)
    it, tasks = grown(20_000)
    for task in tasks:
        remove(it, task)
    assert object_count(it) <= empty
