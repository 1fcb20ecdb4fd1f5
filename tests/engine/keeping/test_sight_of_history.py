"""Tasks of others in the history: a caller with certain agents finds none, by the look-ups of a miss."""

import asyncio

import pytest

from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.core.names import names
from taskyard_server.core.search.task_filter import TaskFilter
from tests.engine.keeping.history_yard import NS, HistoryYard, state, waiting
from tests.live import live

ANN, BOB = names(["ann"]), names(["bob"])
COMMANDS = {"get": (), "wait": (60,), "cancel": (), "pause": (), "resume": (), "resolve": (None,)}


def neighbour(task_id):
    """An id with the order of a task, which no task has."""
    return f"{task_id[:26]}{int(task_id[26:], 16) ^ 1:010x}"


async def refusal_of(call):
    with pytest.raises((NotFound, Unavailable)) as refused:
        await call
    return type(refused.value), refused.value.message, refused.value.details


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", ["history", "memory"])
async def test_a_task_of_another_agent_costs_and_answers_what_a_miss_does(yard, command, place):
    task_id = await (yard.past() if place == "history" else yard.submit(hold=command == "resume"))
    before = yard.in_memory(task_id)

    async def looked_up(looked_for):
        reads = yard.store.tasks_read
        call = getattr(yard.tasks, command)(NS, looked_for, *COMMANDS[command], agents=BOB, show=live)
        return await refusal_of(call), yard.store.tasks_read - reads

    assert await looked_up(task_id) == await looked_up(neighbour(task_id))
    assert yard.in_memory(task_id) == before


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_hit_that_is_denied_waits_for_the_commit_that_a_miss_waits_for(make_yard, command):
    waited = []
    for wanted in ("theirs", "nobody's"):
        yard = await make_yard()
        task_id = await yard.submit()
        yard.store.commits.clear()
        commit = asyncio.ensure_future(yard.submit())
        await yard.clock.run_pending()
        looked_for = task_id if wanted == "theirs" else neighbour(task_id)
        call = getattr(yard.tasks, command)(NS, looked_for, *COMMANDS[command], agents=BOB, show=live)
        (waits,) = await waiting(yard.clock, refusal_of(call))
        waited.append((waits.done(), yard.store.tasks_read))
        yard.store.commits.set()
        await commit
        waited.append(await waits)
    assert waited[:2] == waited[2:]


async def test_a_failed_task_of_another_agent_is_not_brought_back(yard):
    task_id = await yard.past()
    for command in ("resume", "resolve", "cancel"):
        await refusal_of(getattr(yard.tasks, command)(NS, task_id, *COMMANDS[command], agents=BOB, show=live))
        assert yard.in_memory(task_id) is None
    assert await yard.tasks.resume(NS, task_id, agents=ANN, show=state) == "queued"


async def test_a_listing_of_the_history_holds_the_tasks_of_own_agents_alone(yard):
    ann, bob = await yard.past(), await yard.past(agent="bob")

    async def listed(agents, **order):
        page = await yard.tasks.list_tasks(NS, TaskFilter(agents=agents), 0, 10, history=True, **order)
        return [task.id for task in page.tasks]

    assert await listed(ANN) == [ann]
    assert await listed(BOB, newest_first=True) == [bob]
    assert await listed(None) == [ann, bob]


async def test_what_changed_since_a_commit_is_told_of_own_agents_alone(yard):
    ann, bob = await yard.past(), await yard.past(agent="bob")
    live_ann, live_bob = await yard.submit(), await yard.submit(agent="bob")

    async def changed(agents):
        since = yard.tasks.changed_since(NS, 0, int(yard.clock.now * 1000), agents=agents)
        ended = yard.tasks.changed_since(NS, 0, int((yard.clock.now - 1_000) * 1000), agents=agents)
        return {task.id async for tasks in since for task in tasks} | {
            task.id async for tasks in ended for task in tasks
        }

    assert await changed(ANN) == {ann, live_ann}
    assert await changed(BOB) == {bob, live_bob}


async def test_positions_that_were_kept_are_not_told_by_a_private_engine(clock):
    yard = await HistoryYard(clock).open()
    ended, lives = await yard.past(), await yard.submit()
    again = HistoryYard(clock, yard.store.copy(), private=True)
    await again.open()
    for task_id in (lives, ended):
        assert await yard.tasks.get(NS, task_id, show=_position) == 1
        assert await again.tasks.get(NS, task_id, show=_position) is None
    for each in (yard, again):
        await each.engine.admin.close()


def _position(task):
    return task.position
