"""The executor runs at most `workers` tasks at once (docs/rules.md, Tab executor)."""

import asyncio

import pytest

from tests.live import live


@pytest.mark.parametrize("workers", [1, 3])
async def test_at_most_workers_requests_run_at_once(start_server, instance, soon, workers):
    server = await start_server(instance, workers=workers)
    instance.hold()
    tasks = [await server.submit(tab_id=f"tab-{number}") for number in range(10)]
    for _ in range(workers):
        await soon(instance.arrived.get())
    assert (await server.engine.admin.stats("default")).queued == 10 - workers
    instance.release()
    for task in tasks:
        assert (await server.ended(task)).state == "done"
    assert instance.max_concurrent == workers
    assert len(instance.requests) == 10


async def test_there_are_four_workers_by_default(server, instance, soon):
    instance.hold()
    for _ in range(6):
        await server.submit()
    for _ in range(4):
        await soon(instance.arrived.get())
    stats = await server.engine.admin.stats("default")
    assert (stats.inflight, stats.queued) == (4, 2)


async def test_a_slot_is_free_after_each_way_for_a_task_to_end(start_server, instance, answer, soon):
    server = await start_server(instance, workers=1)
    assert (await server.run()).state == "done"
    assert (await server.run(tab_id=None)).state == "failed"
    instance.reply = answer("", "500 Error")
    assert (await server.run()).state == "failed"
    instance.reply = answer({"success": False})
    assert (await server.run()).state == "failed"
    instance.hold()
    assert (await server.run(deadline_in=0.05)).state == "failed"
    instance.arrived = asyncio.Queue()
    running = await server.submit()
    await soon(instance.arrived.get())
    await server.engine.tasks.cancel("default", running.id, show=live)
    instance.release()
    instance.reply = answer("ok")
    assert (await server.run()).state == "done"


async def test_a_slot_is_free_after_a_task_that_is_cancelled_before_its_first_step(start_server, instance, soon):
    """Its lease is granted, but its coroutine has not begun: cancelling such a coroutine runs none of it."""
    server = await start_server(instance, workers=1)
    await server.run()
    assigned = asyncio.Event()
    cancelling = []

    def cancel_at_assignment(_namespace, events):
        for event in events:
            if event.state == "assigned" and event.task.action == "doomed":
                cancelling.append(
                    asyncio.ensure_future(server.engine.tasks.cancel("default", event.task.id, show=live))
                )
                assigned.set()

    server.engine.subscribe(cancel_at_assignment)
    tasks = [await server.submit(action="doomed") for _ in range(5)]
    await soon(assigned.wait())
    assert {(await server.ended(task)).state for task in tasks} == {"cancelled"}
    assert (await server.run()).state == "done"
    assert [request.json["kind"] for request in instance.requests].count("doomed") < 5


async def test_each_of_a_hundred_tasks_is_sent_once(server, instance):
    tasks = [await server.submit(tab_id=f"tab-{number}", action=str(number)) for number in range(100)]
    for task in tasks:
        assert (await server.ended(task)).state == "done"
    assert sorted(int(request.json["kind"]) for request in instance.requests) == list(range(100))
