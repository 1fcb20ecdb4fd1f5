"""This version goes on with the stores of every release, which tests/store/make_released_yard.py made."""

from pathlib import Path

import pytest

from taskyard_server.core.limits import Limits
from taskyard_server.core.queue.keys import KeyLimit
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.streams import Hello
from taskyard_server.core.task_options import OnTargetFailure, TaskExtras
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.store.sqlite.store import SqliteStore
from tests.live import live

RELEASED = sorted((Path(__file__).parent / "yards").glob("*.db"))
NS = "default"


@pytest.fixture(params=RELEASED, ids=[path.stem for path in RELEASED])
async def engine(request, tmp_path):
    path = tmp_path / "yard.db"
    path.write_bytes(request.param.read_bytes())
    engine = Engine(Limits(), store=SqliteStore(str(path)), store_options=StoreOptions(history_days=36_500))
    await engine.open()
    yield engine
    await engine.admin.close()
    await engine.release()


def test_there_is_a_store_of_a_release():
    assert RELEASED


async def test_every_task_is_there_in_its_state(engine):
    page = await engine.tasks.list_tasks(NS, TaskFilter(), 0, 100, history=True)
    states = [(task.action, str(task.state)) for task in page.tasks if task.action != "scheduled"]
    assert states == [
        ("waits", "queued"),
        ("held", "pending"),
        ("later", "pending"),
        ("runs", "running"),
        ("paused", "paused"),
        ("serial", "cancelled"),
        ("retried", "pending"),
        ("done", "done"),
        ("failed", "failed"),
        ("serial", "queued"),
    ]
    assert len((await engine.tasks.list_tasks("other", TaskFilter(), 0, 100)).tasks) == 1


async def test_what_a_task_shows_is_as_it_was(engine):
    tasks = {
        task.action: task for task in (await engine.tasks.list_tasks(NS, TaskFilter(), 0, 100, history=True)).tasks
    }
    waits, runs, done, failed = (tasks[action] for action in ("waits", "runs", "done", "failed"))
    assert (waits.params, waits.priority, waits.tab_id, waits.ref) == (b"params", 3, "tab", "e1")
    assert (waits.options.labels, waits.options.project) == ((("a", "b"),), "p")
    assert waits.options.requires == frozenset({"gpu"})
    assert (runs.progress, runs.token, runs.host_id, runs.options.token_limit) == (b"half", 1, "unary", 100)
    assert (done.result, failed.error) == (b"result", "no")
    assert tasks["retried"].history.failed == 1
    assert tasks["held"].options.key == ("key", b"print")


async def test_a_host_adopts_its_lease_and_tokens_go_on(engine):
    (lease,) = await engine.leases.list_leases(NS, 0, show=list)
    assert (lease.task.action, lease.token, lease.host.id) == ("runs", 1, "unary")
    _, welcome = await engine.hosts.connect(
        NS, Hello("unary", "new", held=((lease.task.id, 1),)), lambda: None, show=live
    )
    assert [kept.token for kept in welcome.kept] == [1]
    granted = await engine.leases.claim(NS, "unary", 1, 60, show=list)
    assert all(each.token > 6 for each in granted)


async def test_a_target_waits_for_the_lease_that_its_host_has_not_stopped(engine):
    (target,) = await engine.tasks.list_targets(NS, "", show=list)
    assert target.name == "lock"
    assert not target.is_free


async def test_schedules_and_triggers_are_there(engine):
    schedules = await engine.schedules.list_schedules(NS, 0, show=list)
    assert [schedule.id for schedule in schedules] == ["hourly", "nightly"]


async def test_the_counters_go_on(engine):
    counters = (await engine.admin.stats(NS)).counters
    assert (counters.completed, counters.failed, counters.cancelled) == (1, 1, 1)


async def test_what_came_with_0_3_is_there(engine, request):
    if request.node.callspec.id == "v0.2.0":
        assert (await engine.tasks.list_tasks("added", TaskFilter(), 0, 1)).tasks == []
        return
    page = await engine.tasks.list_tasks("added", TaskFilter(), 0, 100)
    assert [task.action for task in page.tasks] == ["typed", "keyed", "element", "after", "fails"]
    typed, keyed, element, after, fails = page.tasks
    assert (typed.options.run_timeout_secs, typed.options.parent_id, typed.options.input) == (
        30.0,
        "tsk_parent",
        b"input",
    )
    assert keyed.options.extras == TaskExtras(
        ("site:a", "site:b"), unique_key="daily", on_target_failure=OnTargetFailure.CONTINUE
    )
    assert (element.options.extras.selector, element.state) == ("#btn", "queued")
    assert (after.state, after.options.extras.after) == ("pending", (typed.id,))
    assert (fails.state, fails.history.code, fails.history.traceback) == ("pending", "e1", "in crawl")
    limits = await engine.rules.list_limits("added", "", 10)
    assert [(each.pattern, each.limit) for each in limits.limits] == [("site:*", KeyLimit(3, 5.0, 10))]
    assert [(each.pattern, each.weight) for each in await engine.rules.list_weights("added")] == [("ann", 4)]
    assert (await engine.namespaces.get("added")).served.own_limits == {"max_inflight": 7}
