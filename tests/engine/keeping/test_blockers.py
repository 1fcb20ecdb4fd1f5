"""With a store a failed task that blocks its target leaves memory, and blocks on (docs/rules.md, Blockers)."""

import pytest

from taskyard_server.core.errors import Conflict
from taskyard_server.core.search.task_filter import TaskFilter
from tests import reporting
from tests.engine.keeping.history_yard import NS, HistoryYard, state
from tests.live import live


async def blocked(yard, **fields):
    """A task that blocks its target and has left memory, and the task behind it."""
    blocker = await yard.past(target="shop", **fields)
    return blocker, await yard.submit(target="shop", deadline=yard.engine.now() + 10_000)


async def target_of(yard):
    """How the only target stands: status, the task that it is about, since when."""
    (target,) = await yard.tasks.list_targets(NS, "", show=list)
    status, task = target.standing
    return status.value, task.id, target.since


async def test_it_blocks_on_and_is_shown_as_before(yard):
    blocker = await yard.submit(target="shop")
    await yard.failed(blocker)
    before = await target_of(yard)
    await yard.leave_memory(blocker)
    assert await target_of(yard) == before
    await yard.submit(target="shop")
    assert await yard.engine.leases.claim(NS, "host", show=live) == []
    assert (await yard.get(blocker))[1:3] == ("failed", "broken")


async def test_it_is_listed_in_the_history(yard):
    blocker, behind = await blocked(yard)
    page = await yard.tasks.list_tasks(NS, TaskFilter(), 0, 10, history=True)
    assert [(task.id, task.state.value) for task in page.tasks] == [(blocker, "failed"), (behind, "queued")]


@pytest.mark.parametrize(("command", "then"), [("resume", "queued"), ("resolve", "done"), ("cancel", "cancelled")])
async def test_a_command_about_it_brings_it_back_and_frees_the_target(yard, command, then):
    blocker, behind = await blocked(yard)
    arguments = (None,) if command == "resolve" else ()
    assert await getattr(yard.tasks, command)(NS, blocker, *arguments, show=state) == then
    if then == "queued":
        await yard.done(blocker)
    await yard.done(behind)
    await yard.leave_memory(blocker, behind)
    assert await yard.tasks.list_targets(NS, "", show=list) == []
    assert (await yard.get(blocker))[1] == (then if then != "queued" else "done")
    assert await yard.store.check() == []


async def test_a_command_that_is_refused_leaves_it_where_it_is(yard):
    blocker, _ = await blocked(yard, token_limit=5)
    before = await target_of(yard)
    with pytest.raises(Conflict):
        await yard.tasks.pause(NS, blocker, show=state)
    assert await target_of(yard) == before


async def test_one_over_its_budget_that_is_not_resumed_leaves_memory_again(yard):
    blocker = await yard.submit(target="shop", token_limit=5)
    await yard.failed(blocker, tokens=9)
    await yard.leave_memory(blocker)
    before = await target_of(yard)
    with pytest.raises(Conflict):
        await yard.tasks.resume(NS, blocker, show=state)
    await yard.leave_memory(blocker)
    assert await target_of(yard) == before
    assert await yard.tasks.resume(NS, blocker, token_limit=100, show=state) == "queued"


async def test_it_blocks_on_after_a_restart_and_leaves_memory_again(yard):
    blocker, behind = await blocked(yard)
    before = await target_of(yard)
    again = await yard.restarted()
    assert await target_of(again) == before
    await again.leave_memory(blocker)
    assert await target_of(again) == before
    assert await again.tasks.cancel(NS, blocker, show=state) == "cancelled"
    await again.done(behind)
    assert await again.store.check() == []
    await again.engine.admin.close()


async def test_several_blockers_stand_in_their_order(yard):
    first, second = await yard.submit(target="shop"), await yard.submit(target="shop")
    await yard.failed(first)
    await yard.tasks.resume(NS, first, show=state)
    await yard.failed(first)
    await yard.leave_memory(first)
    await yard.tasks.cancel(NS, second, show=state)
    assert (await target_of(yard))[:2] == ("blocked", first)


async def test_who_comes_back_to_a_watch_is_told_of_it(yard):
    since = int(yard.engine.now() * 1000)
    blocker, _ = await blocked(yard)
    changed = [task.id async for tasks in yard.tasks.changed_since(NS, 0, since) for task in tasks]
    assert blocker in changed


async def test_without_a_history_it_stays_in_memory(clock):
    yard = await HistoryYard(clock, history_days=0.0).open()
    blocker = await yard.submit(target="shop")
    await yard.failed(blocker)
    await clock.advance(1_000)
    assert yard.in_memory(blocker) == "failed"
    assert await yard.tasks.cancel(NS, blocker, show=state) == "cancelled"
    await yard.engine.admin.close()


async def test_one_that_never_blocked_comes_back_to_its_place(yard):
    """Its place is still there: the tasks before it have waited all the time."""
    first = await yard.submit(target="shop", deadline=yard.engine.now() + 10_000)
    token = await yard.started(first)
    late = await yard.submit(target="shop", deadline=yard.engine.now() + 1)
    last = await yard.submit(target="shop", deadline=yard.engine.now() + 10_000)
    for _ in range(20):
        await yard.clock.advance(30)
        await yard.engine.leases.renew(NS, "host", first, token, show=live)
    assert yard.in_memory(late) is None
    assert await yard.tasks.resume(NS, late, show=state) == "queued"
    await reporting.complete(yard.engine, NS, "host", first, token, None)
    await yard.tasks.cancel(NS, late, show=state)
    await yard.done(last)
