"""A cursor outlives its server: what changed since comes as it stands now, then what happens (docs/rules.md, Watching).

Each test has one server after the other on the same store, which is a dict.
"""

import grpc
import pytest

from taskyard.v1 import task_pb2
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from tests.services.task_watches.watch_calls import events, read, read_to_end, started, submit, task_states
from tests.store.dict_store import DictStore

Kind, State = task_pb2.TaskEvent, task_pb2.Task


@pytest.fixture
async def served(start_api, clock):
    """Serves the store from now on, instead of whoever served it before."""
    store, engines = DictStore(), []

    async def serve(new_store: DictStore | None = None, **keeping):
        for engine in engines:
            await engine.admin.close()
        engine = Engine(
            Limits(result_ttl_secs=60), clock, store=new_store or store, store_options=StoreOptions(**keeping)
        )
        await engine.open()
        engines[:] = [engine]
        return await start_api(engine, clock)

    yield serve
    for engine in engines:
        await engine.admin.close()


async def cursor_after(api, count):
    """The cursor after so many events of a new watch."""
    call = await started(api.watch())
    for _ in range(count):
        await submit(api)
    seen, cursor = 0, ""
    while seen < count:
        message = await read(call)
        seen += len(message.events)
        cursor = message.cursor
    call.cancel()
    return cursor


async def test_what_changed_while_nobody_watched_comes_as_it_stands_now(served):
    api = await served()
    cursor = await cursor_after(api, 1)
    changed = await submit(api)
    await api.cancel(changed)
    api = await served()
    call = api.watch(cursor=cursor)
    (event,) = (await read(call)).events
    assert (event.kind, event.task.task_id, event.task.state) == (Kind.current, changed, State.cancelled)
    assert (await read(call)).bookmark
    later = await submit(api)
    assert [event.task.task_id for event in await events(call, 1)] == [later]


async def test_nothing_that_was_seen_comes_again(served):
    api = await served()
    cursor = await cursor_after(api, 3)
    api = await served()
    assert (await read(api.watch(cursor=cursor))).bookmark


async def test_what_ended_and_left_memory_comes_too(served, clock):
    api = await served()
    cursor = await cursor_after(api, 1)
    gone = await submit(api)
    await api.cancel(gone)
    clock.now += 3_600
    api = await served()
    assert (gone, State.cancelled) in task_states([await read(api.watch(cursor=cursor))])


async def test_the_filter_of_the_watch_holds_for_what_changed(served):
    api = await served()
    cursor = await cursor_after(api, 1)
    await submit(api, agent_id="bob")
    wanted = await submit(api, agent_id="eve")
    api = await served()
    call = api.watch(cursor=cursor, agent_id="eve")
    assert [event.task.task_id for event in await events(call, 1)] == [wanted]


async def test_a_cursor_in_the_middle_of_a_commit_brings_the_rest_of_it(served):
    api = await served()
    call = await started(api.watch())
    submissions = [Submission(f"agent-{number}", "click") for number in range(250)]
    outcomes = await api.engine.tasks.submit_each("default", submissions, show=ids)
    first = await read(call)
    assert 0 < len(first.events) < 250
    api = await served()
    seen = {event.task.task_id for event in first.events}
    rest = api.watch(cursor=first.cursor)
    while not (message := await read(rest)).bookmark:
        seen |= {event.task.task_id for event in message.events}
    assert seen == set(outcomes)


async def test_a_cursor_older_than_the_history_is_expired(served, clock):
    api = await served(history_days=1)
    cursor = await cursor_after(api, 1)
    clock.now += 86_400 + 1
    api = await served(history_days=1)
    messages, code = await read_to_end(api.watch(cursor=cursor))
    assert code is grpc.StatusCode.OUT_OF_RANGE
    assert messages[-1].end.reason == task_pb2.WatchEnd.cursor_expired


async def test_a_cursor_of_another_store_is_expired(served):
    api = await served()
    cursor = await cursor_after(api, 2)
    api = await served(DictStore())
    _, code = await read_to_end(api.watch(cursor=cursor))
    assert code is grpc.StatusCode.OUT_OF_RANGE


async def test_an_until_ended_watch_ends_if_its_tasks_ended_meanwhile(served):
    api = await served()
    task_id = await submit(api)
    call = await started(api.watch(task_ids=[task_id], until_ended=True))
    message = await read_first_cursor(api)
    await api.cancel(task_id)
    call.cancel()
    api = await served()
    messages, _ = await read_to_end(api.watch(task_ids=[task_id], until_ended=True, cursor=message))
    assert task_states(messages) == [(task_id, State.cancelled)]
    assert messages[-1].end.reason == task_pb2.WatchEnd.tasks_ended


async def read_first_cursor(api):
    call = api.watch()
    cursor = (await read(call)).cursor
    call.cancel()
    return cursor


def ids(tasks):
    return [task.id for task in tasks]
