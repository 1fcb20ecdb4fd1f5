"""Inputs of kept tasks: they are there as long as they are needed, however long ago they ended."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound
from taskyard_server.core.task_options import TaskExtras
from taskyard_server.store.port import Table

from .history_yard import HOST, NS, TTL_SECS, waiting


def of(**inputs):
    return {"extras": TaskExtras(inputs=tuple(sorted(inputs.items())))}


def handed(leases):
    return [[each.result for each in lease.inputs] for lease in leases]


async def claimed(yard):
    return await yard.engine.leases.claim(NS, HOST, show=handed)


async def forget(yard):
    """As the server does, with all that has ended."""
    persistence = yard.engine._namespaces.persistence
    return await yard.store.forget(int((yard.clock.now + 1) * 1000), 100, persistence._needed_by_others())


async def test_an_input_is_kept_in_memory_and_in_the_store_and_over_restarts(yard, clock):
    first, other = await yard.submit(), await yard.submit()
    await yard.done(first, b"result")
    await yard.done(other)
    second = await yard.submit(hold=True, deadline=clock.now + 1e6, **of(it=first))
    clock.now += 10 * TTL_SECS
    await clock.run_pending()
    assert (yard.in_memory(first), yard.in_memory(other)) == ("done", None)
    assert await forget(yard) == 1
    again = await yard.restarted()
    assert again.in_memory(first) == "done"
    await clock.run_pending()
    assert await forget(again) == 0
    await again.tasks.resume(NS, second, show=lambda _: None)
    assert await claimed(again) == [[b"result"]]
    assert await again.store.check() == []
    await again.engine.admin.close()


async def test_the_inputs_of_a_task_in_flight_are_there_after_a_restart(yard, clock):
    first = await yard.submit()
    await yard.done(first, b"result")
    await yard.submit(deadline=clock.now + 1e6, **of(it=first))
    await yard.engine.leases.claim(NS, HOST, claim_id="c", lease_secs=3600, show=handed)
    again = await yard.restarted()
    assert await again.engine.leases.claim(NS, HOST, claim_id="c", show=handed) == [[b"result"]]
    await again.engine.admin.close()


async def test_a_failed_task_is_resumed_with_its_inputs_after_a_restart(yard, clock):
    first = await yard.submit()
    await yard.done(first, b"result")
    second = await yard.submit(deadline=clock.now + 1e6, **of(it=first))
    await yard.failed(second)
    again = await yard.restarted()
    assert await again.tasks.resume(NS, second, show=lambda task: str(task.state)) == "queued"
    assert await claimed(again) == [[b"result"]]
    await again.engine.admin.close()


async def test_inputs_of_inputs_are_there_as_long_as_they_may_be_needed(yard, clock):
    first = await yard.submit()
    await yard.done(first, b"result")
    second = await yard.submit(deadline=clock.now + 1e6, **of(it=first))
    await yard.failed(second)
    ended = {"extras": TaskExtras(inputs=(("it", second),), after_policy="ended")}
    await yard.submit(hold=True, deadline=clock.now + 1e6, **ended)
    clock.now += 10 * TTL_SECS
    await clock.run_pending()
    again = await yard.restarted()
    await again.tasks.resume(NS, second, show=lambda _: None)
    assert await claimed(again) == [[b"result"]]
    await again.engine.admin.close()


async def test_an_input_that_is_forgotten_while_it_is_looked_for_is_not_found(yard, clock):
    first = await yard.past()
    yard.store.answers.clear()
    extras = {"extras": TaskExtras(inputs=(("it", first),), after_policy="ended")}
    (submitting,) = await waiting(clock, yard.submit(**extras))
    assert await yard.store.forget(int((clock.now + 1) * 1000), 10) == 1
    yard.store.answers.set()
    with pytest.raises(NotFound, match=f"inputs: task {first} not found"):
        await submitting


async def test_a_resume_without_an_input_that_is_kept_no_more_changes_nothing(yard):
    first = await yard.submit()
    await yard.done(first)
    second = await yard.past(**of(it=first))
    await yard.leave_memory(first)
    for table in (yard.store.ended, yard.store.tables[Table.TASKS]):
        del table[min(table)]
    with pytest.raises(Conflict, match="inputs: it is no longer kept"):
        await yard.tasks.resume(NS, second, token_limit=50, show=lambda _: None)
    assert await yard.tasks.get(NS, second, show=lambda task: (task.state, task.token_limit)) == ("failed", None)
