"""What a store looks for among the rows of tasks: bytes, which stand in the records of all tasks that are wanted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard_server.core.agents import Agent
from taskyard_server.core.names import names
from taskyard_server.core.search.label_selectors import parse_selector
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import Submission, Task, TaskState
from taskyard_server.core.task_options import TaskExtras, TaskOptions
from taskyard_server.store.port import Group, Sought, Store, Table, TaskRows, key_of
from taskyard_server.store.records.tasks import AS_SUBMITTED, encode_state, encode_task
from taskyard_server.store.row_prefilter import sought
from tests.cases import every_case
from tests.store.dict_store import holds

NUMBERS = range(1, 2_501)


@pytest.fixture
async def filled(store: Store) -> Store:
    """Every tenth task is red, and of those every other one has ended at its number."""
    group = Group(1, 1.0)
    for number in NUMBERS:
        key = key_of(1, number)
        group.put(Table.TASKS, key, b"task red." if number % 10 == 0 else b"task blue.")
        if number % 20 == 0:
            group.ended.append((key, number, b"state done."))
        else:
            group.put(Table.STATES, key, b"" if number % 3 else b"state paused.")
    await store.commit(group)
    return store


async def seek(store: Store, sought: Sought, limit: int, *, descending: bool) -> tuple[list[int], int]:
    """The numbers of the tasks found over all pages, and how many were looked at."""
    first, last = key_of(1, 1), key_of(1, 1 << 30)
    found: list[int] = []
    looked_at = 0
    while True:
        page = await store.scan(first, last, descending=descending, limit=limit, sought=sought)
        assert len(page.rows) <= limit
        found += [row.key - key_of(1, 0) for row in page.rows]
        looked_at += page.looked_at
        if page.next_key is None:
            return found, looked_at
        first, last = (first, page.next_key) if descending else (page.next_key, last)


RED = [number for number in NUMBERS if number % 10 == 0]


@every_case("descending", [False, True])
@every_case("limit", [7, 1000])
@every_case(
    ("wanted", "expected"),
    [
        (Sought(task=((b"red",),)), RED),
        (Sought(task=((b"re",), (b"d.", b"none"))), RED),
        (Sought(task=((b"red",), (b"none",))), []),
        (Sought(task=((),)), []),
        (Sought(task=((b"red",),), state=((b"done", b"failed"),), may_be_as_submitted=False), RED[1::2]),
        (Sought(state=((b"paused",),), may_be_as_submitted=False), [n for n in NUMBERS if n % 3 == 0 and n % 20]),
        # An empty record will do.
        (Sought(task=((b"red",),), state=((b"none",),)), [n for n in RED if n % 20 and n % 3]),
        (Sought(ended=(40, 80)), [40, 60, 80]),
        (Sought(ended=(41, 59)), []),
    ],
    ids=str,
)
async def test_tasks_that_hold_what_is_sought_are_found_page_by_page(
    filled: Store, wanted: Sought, expected: list[int], limit: int, descending: bool
) -> None:
    found, _ = await seek(filled, wanted, limit, descending=descending)
    assert found == (expected[::-1] if descending else expected)


async def test_each_row_is_looked_at_once(filled: Store) -> None:
    _, looked_at = await seek(filled, Sought(task=((b"none",),)), 5, descending=False)
    assert looked_at == len(NUMBERS)


words = st.sampled_from(["a", "shop", "x" * 40, "é" * 200, "", "queued"])
some = words.filter(bool)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """A task with what filters ask for, in any state."""
    labels = tuple(sorted(draw(st.dictionaries(some, words, max_size=3)).items()))
    options = TaskOptions(
        labels=labels,
        target=draw(st.none() | some),
        parent_id=draw(st.none() | some),
        batch_id=draw(st.none() | some),
        extras=TaskExtras(concurrency_keys=tuple(draw(st.sets(some, max_size=2)))),
    )
    submission = Submission(draw(some), draw(some), options=options)
    state = draw(st.sampled_from([each for each in TaskState if each not in ("assigned", "running", "rejected")]))
    task = Task("tsk_1", 1, Agent(submission.agent_id, 0), submission, 7.0, None, state)
    task.host_id = draw(st.none() | some)
    if state in ("done", "failed", "cancelled"):
        task.completed_at = draw(st.floats(0, 100))
    if state in ("paused", "failed", "cancelled"):
        task.error = draw(st.none() | some)
    return task


@st.composite
def filters(draw: st.DrawFn) -> TaskFilter:
    """Any filter."""
    text = st.none() | some
    selector = draw(st.sampled_from(["", "a=shop", "shop in (a,x)", "queued", "!a", "a!=shop", "a notin (a),shop"]))
    return TaskFilter(
        agents=draw(st.none() | st.builds(names, st.lists(some.map(lambda word: word[:1] + "*") | some, max_size=2))),
        agent_id=draw(text),
        states=draw(st.none() | st.frozensets(st.sampled_from(list(TaskState)), min_size=1)),
        batch_id=draw(text),
        target=draw(text),
        parent_id=draw(text),
        labels=parse_selector(selector),
        action=draw(text),
        host_id=draw(text),
        concurrency_key=draw(text),
        ended_from=draw(st.none() | st.floats(0, 100)),
        ended_until=draw(st.none() | st.floats(0, 100)),
        error=draw(text),
        id_prefix=draw(st.sampled_from([None, None, "tsk_", "tsk_1", "tsk_2"])),
    )


@given(tasks(), filters())
def test_whatever_matches_holds_what_is_sought_for_it(task: Task, wanted: TaskFilter) -> None:
    if not wanted.matches(task):
        wanted = TaskFilter(agent_id=task.agent_id, states=frozenset({task.state}), action=task.action)
    looks_for = sought(wanted)
    state = encode_state(task, 0.0)
    if task.completed_at is not None:
        rows = TaskRows(1, encode_task(task, 0.0), None, state, int(task.completed_at * 1000))
    else:
        rows = TaskRows(1, encode_task(task, 0.0), state, None, None)
    assert looks_for is None or holds(rows, looks_for)
    if task.state == "queued" and task.host_id is None:
        assert looks_for is None or holds(rows._replace(state=AS_SUBMITTED), looks_for)


def test_where_nothing_is_known_of_the_rows_nothing_is_sought() -> None:
    assert sought(TaskFilter()) is None
    assert sought(TaskFilter(created_from=1.0, labels=parse_selector("!a,b!=c"), agents=names(["*"]))) is None
