"""Children by name of kept tasks: they are there as long as their parents may run, and come after tasks of the past."""

from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskExtras, TaskOptions

from .history_yard import HOST, NS, TTL_SECS, waiting
from .test_inputs import forget


async def submit_child(yard, parent, token, name, **extras):
    options = TaskOptions(extras=TaskExtras(child_name=name, **extras))
    under = (NS, HOST, parent, token)
    return await yard.engine.children.submit(*under, Submission("", "click", options=options), show=_shown)


def _shown(made):
    task, is_repeated = made
    return task.id, is_repeated


def _ids(leases):
    return [lease.task.id for lease in leases]


async def parent_of(yard):
    """A task with a deadline far away, which its host has under a lease."""
    parent = await yard.submit(deadline=yard.clock.now + 1e6)
    return parent, await yard.started(parent)


async def test_a_child_is_kept_in_memory_and_in_the_store_and_over_restarts(make_yard, clock):
    yard = await make_yard(lease_secs=3600.0, heartbeat_timeout_secs=1e6)
    parent, token = await parent_of(yard)
    child, _ = await submit_child(yard, parent, token, "page")
    await yard.done(child, b"result")
    other = await yard.submit()
    await yard.done(other)
    clock.now += 10 * TTL_SECS
    await clock.run_pending()
    assert (yard.in_memory(child), yard.in_memory(other)) == ("done", None)
    assert await forget(yard) == 1
    again = await yard.restarted(lease_secs=3600.0, heartbeat_timeout_secs=1e6)
    assert again.in_memory(child) == "done"
    await clock.run_pending()
    assert await forget(again) == 0
    assert await submit_child(again, parent, token, "page") == (child, True)
    assert await again.store.check() == []
    await again.engine.admin.close()


async def test_a_child_after_a_task_of_the_past_is_handed_out_at_once_though_the_store_was_slow(yard, clock):
    first = await yard.submit()
    await yard.done(first)
    await yard.leave_memory(first)
    parent, token = await parent_of(yard)
    asks = yard.engine.leases.claim(NS, HOST, wait_secs=30, show=_ids)
    yard.store.answers.clear()
    made, claim = await waiting(clock, submit_child(yard, parent, token, "page", after=(first,)), asks)
    assert not made.done()
    yard.store.answers.set()
    await clock.run_pending()
    child, is_repeated = made.result()
    assert not is_repeated
    assert claim.result() == [child]
