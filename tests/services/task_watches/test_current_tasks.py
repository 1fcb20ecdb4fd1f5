"""What current tasks show is not told again as an event, and nothing is missed (docs/rules.md, Watching).

Each watch is called in the turn of the event loop in which something happened, or more happens at its messages.
"""

import asyncio
from functools import partial

import pytest

from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.interceptors.callers import Call
from taskyard_server.services.task_watches import TaskWatches
from tests.live import live
from tests.store.dict_store import DictStore

State = pb.Task
CALL = Call()
HELD = Submission("ann", "click", options=TaskOptions(hold=True))


class Onlooker:
    """The messages of one watch. `at_message` is called with the number of each before the next is made."""

    def __init__(self, at_message=None):
        self.messages = []
        self._at_message = at_message
        self._came = asyncio.Event()

    async def write(self, message):
        self.messages.append(pb.WatchTasksResponse.FromString(message))
        if self._at_message is not None:
            await self._at_message(len(self.messages))
        self._came.set()

    async def until(self, is_seen):
        while not any(map(is_seen, self.messages)):
            self._came.clear()
            await self._came.wait()

    @property
    def told(self):
        """Each task with the states that were told of it, in order."""
        told = {}
        for message in self.messages:
            for event in message.events:
                told.setdefault(event.task.task_id, []).append(State.State.Name(event.task.state))
        return told


def is_cancelled(task_id):
    def tells(message):
        return any((event.task.task_id, event.task.state) == (task_id, State.cancelled) for event in message.events)

    return tells


class Yard:
    """An engine, and the watches of it."""

    def __init__(self, engine):
        self.engine = engine
        self.logs = engine.event_logs(encode_event)
        engine.subscribe(self.logs)
        self.watches = TaskWatches(engine, self.logs)

    async def submit(self):
        return (await self.engine.tasks.submit("default", HELD, show=live)).id

    async def batch(self, count):
        batch = await self.engine.tasks.submit_batch("default", [HELD] * count, show=lambda done: done.batch)
        return batch.id, sorted(batch.tasks)

    async def cancel(self, task_id):
        await self.engine.tasks.cancel("default", task_id, show=live)

    async def resume(self, task_id):
        await self.engine.tasks.resume("default", task_id, show=live)

    def watch(self, onlooker, **request):
        return asyncio.create_task(self.watches.watch(CALL, pb.WatchTasksRequest(**request), onlooker))


async def told_of(yard, commands, task_id, **request):
    """What a watch is told that begins in the turn of these commands, until that task is cancelled.

    Somebody watches before, so that the log has a place for what happens.
    """
    onlooker, other = Onlooker(), Onlooker()
    watches = [yard.watch(other)]
    await other.until(bookmark)
    commanding = asyncio.gather(*(command() for command in commands))
    watches.append(yard.watch(onlooker, **request))
    await commanding
    await onlooker.until(bookmark)
    await yard.cancel(task_id)
    await onlooker.until(is_cancelled(task_id))
    await ended(yard, *watches)
    return onlooker.told


@pytest.fixture(params=["in memory", "with a store"])
async def yard(request, clock):
    store = None if request.param == "in memory" else DictStore()
    engine = Engine(Limits(), clock, store=store, store_options=StoreOptions())
    await engine.open()
    yield Yard(engine)
    await engine.admin.close()


def bookmark(message):
    return message.bookmark


async def ended(yard, *watches):
    yard.logs.close()
    await asyncio.wait(watches)


@pytest.mark.parametrize("by", ["agent_id", "task_ids", "batch_id", "all"])
async def test_what_happened_in_the_turn_of_the_call_is_told_once(yard, by):
    batch_id, task_ids = await yard.batch(3)
    filters = {"agent_id": {"agent_id": "ann"}, "task_ids": {"task_ids": task_ids}, "batch_id": {"batch_id": batch_id}}
    resumes = [partial(yard.resume, task_id) for task_id in task_ids]
    assert await told_of(yard, resumes, task_ids[0], include_current=True, **filters.get(by, {})) == {
        task_ids[0]: ["queued", "cancelled"],
        task_ids[1]: ["queued"],
        task_ids[2]: ["queued"],
    }


@pytest.mark.parametrize("by", ["agent_id", "task_ids"])
async def test_what_happens_while_tasks_are_listed_is_told_once_and_before_the_bookmark(yard, monkeypatch, by):
    monkeypatch.setattr("taskyard_server.services.task_watches.MAX_SLICE_EVENTS", 2)
    _, task_ids = await yard.batch(6)

    async def change_first_and_last(number):
        if number == 1:
            await yard.resume(task_ids[0])
            await yard.resume(task_ids[-1])
            new.append(await yard.submit())

    new = []
    onlooker = Onlooker(change_first_and_last)
    watch = yard.watch(
        onlooker, include_current=True, **({"agent_id": "ann"} if by == "agent_id" else {"task_ids": task_ids})
    )
    await onlooker.until(bookmark)
    expected = {task_id: ["pending"] for task_id in task_ids}
    expected[task_ids[0]] = ["pending", "queued"]
    expected[task_ids[-1]] = ["queued"]
    if by == "agent_id":
        expected[new[0]] = ["pending"]
    assert onlooker.told == expected
    cursor = onlooker.messages[-1].cursor
    again = Onlooker()
    resumed = yard.watch(again, cursor=cursor)
    await again.until(bookmark)
    assert not again.told
    await ended(yard, watch, resumed)


async def test_a_task_that_goes_while_others_are_listed_is_told_of_as_it_went(yard, monkeypatch):
    monkeypatch.setattr("taskyard_server.services.task_watches.MAX_SLICE_EVENTS", 2)
    _, task_ids = await yard.batch(6)

    async def cancel_two(number):
        if number == 1:
            await yard.cancel(task_ids[0])
            await yard.cancel(task_ids[-1])

    onlooker = Onlooker(cancel_two)
    watch = yard.watch(onlooker, include_current=True, state="pending,cancelled")
    await onlooker.until(bookmark)
    assert onlooker.told[task_ids[0]] == ["pending", "cancelled"]
    assert onlooker.told[task_ids[-1]] == ["cancelled"]
    await ended(yard, watch)


async def test_a_resumed_watch_of_a_new_server_is_told_each_change_once(clock):
    store = DictStore()
    engine = Engine(Limits(), clock, store=store, store_options=StoreOptions())
    await engine.open()
    yard, onlooker = Yard(engine), Onlooker()
    _, task_ids = await yard.batch(3)
    watch = yard.watch(onlooker, include_current=True)
    await onlooker.until(bookmark)
    cursor = onlooker.messages[-1].cursor
    await yard.cancel(task_ids[1])
    await yard.resume(task_ids[2])
    await ended(yard, watch)
    await engine.admin.close()
    engine = Engine(Limits(), clock, store=store, store_options=StoreOptions())
    await engine.open()
    yard = Yard(engine)
    commands = [partial(yard.resume, task_ids[0]), partial(yard.cancel, task_ids[2])]
    assert await told_of(yard, commands, task_ids[0], cursor=cursor) == {
        task_ids[0]: ["queued", "cancelled"],
        task_ids[1]: ["cancelled"],
        task_ids[2]: ["cancelled"],
    }
    await engine.admin.close()
