"""A task that is cancelled or paused has its request ended (docs/rules.md, Tab executor, Stopping leases)."""

import asyncio
import contextlib

import pytest

from tests.live import live


async def test_cancelling_a_running_task_closes_its_connection(server, instance, soon):
    instance.hold()
    task = await server.submit()
    request = await soon(instance.arrived.get())
    await server.engine.tasks.cancel("default", task.id, show=live)
    await soon(request.gone.wait())
    assert task.state == "cancelled"
    assert task.result is None


async def test_cancelling_one_task_does_not_touch_the_others(server, instance, soon):
    instance.hold()
    tasks = [await server.submit() for _ in range(3)]
    requests = [await soon(instance.arrived.get()) for _ in tasks]
    await server.engine.tasks.cancel("default", tasks[1].id, show=live)
    gone = [asyncio.ensure_future(request.gone.wait()) for request in requests]
    await soon(asyncio.wait(gone, return_when=asyncio.FIRST_COMPLETED))
    instance.release()
    assert [(await server.ended(task)).state for task in tasks] == ["done", "cancelled", "done"]
    assert sum(request.gone.is_set() for request in requests) == 1
    for waiting in gone:
        waiting.cancel()


async def test_a_cancelled_task_stays_cancelled_when_the_instance_answers_later(server, instance, soon):
    instance.hold()
    task = await server.submit()
    await soon(instance.arrived.get())
    await server.engine.tasks.cancel("default", task.id, show=live)
    instance.release()
    await server.run()
    assert (task.state, task.result, task.error) == ("cancelled", None, None)


async def test_a_namespace_that_is_deleted_ends_its_requests_and_the_next_one_is_served(server, instance, soon):
    instance.hold()
    tasks = [await server.submit() for _ in range(6)]
    requests = [await soon(instance.arrived.get()) for _ in tasks[:4]]
    await server.engine.namespaces.delete("default", force=True)
    for request in requests:
        await soon(request.gone.wait())
    instance.release()
    assert (await server.run()).state == "done"


@pytest.mark.parametrize("command", ["cancel_and_wait", "pause_and_wait"])
async def test_who_waits_is_told_once_the_request_has_ended(server, instance, soon, command):
    instance.hold()
    task = await server.submit()
    request = await soon(instance.arrived.get())
    answer = await soon(getattr(server.engine.tasks, command)("default", task.id, 30, show=live))
    assert answer[-1] == "released"
    await soon(request.gone.wait())


# Targets


@pytest.mark.parametrize("interrupt", ["cancel", "pause"])
async def test_the_next_task_of_a_target_starts_once_the_request_of_a_stopped_one_has_ended(
    server, instance, soon, interrupt
):
    instance.hold()
    first, second = [await server.submit(target="t") for _ in range(2)]
    request = await soon(instance.arrived.get())
    await getattr(server.engine.tasks, interrupt)("default", first.id, show=live)
    if interrupt == "pause":
        await server.engine.tasks.resolve("default", first.id, None, show=live)
    await soon(request.gone.wait())
    instance.release()
    assert (await server.ended(second)).state == "done"
    assert instance.max_concurrent == 1


async def test_a_task_that_is_cancelled_before_its_request_begins_releases_its_target(server, instance):
    calls = []

    def cancel_at_assignment(_, events):
        for event in events:
            if event.state == "assigned" and not calls:
                # What a command does is done at its first step; only its answer waits for a store.
                calls.append(server.engine.tasks.cancel("default", event.task.id, show=live))
                with contextlib.suppress(StopIteration):
                    calls[-1].send(None)

    unsubscribe = server.engine.subscribe(cancel_at_assignment)
    first, second = [await server.submit(target="t") for _ in range(2)]
    assert (await server.ended(second)).state == "done"
    unsubscribe()
    for call in calls:
        call.close()
    assert (first.state, len(instance.requests)) == ("cancelled", 1)
