"""Deadlines, cancellation, slots and late results (scheduler-architecture, Cancellation Model, Deadline Handling)."""

import asyncio
import time
from functools import partial

import pytest

from taskyard_server.core.errors import LeaseLost
from taskyard_server.core.limits import Limits
from taskyard_server.core.reports import ReportKind
from taskyard_server.engine.memory.engine import MemoryEngine


@pytest.fixture
def soon():
    """Awaits an event that must come."""
    return partial(asyncio.wait_for, timeout=10)


# Deadlines


async def test_a_slow_answer_fails_the_task_at_its_deadline(yard, instance):
    instance.hold()
    task = await yard.run(deadline_in=0.1)
    assert task.state == "failed"
    assert task.error == "deadline exceeded"
    assert task.deadline <= task.completed_at < task.deadline + 1


async def test_the_request_has_the_deadline_as_its_own_time_out(start_yard, instance):
    """Also where the engine sees no time pass, and would never end the lease by itself."""
    begin = time.time()
    engine = MemoryEngine(Limits(), clock=lambda: begin)
    yard = await start_yard(instance, engine)
    instance.hold()
    task = await yard.run(deadline_in=0.05)
    assert task.error == "deadline exceeded"
    await yard.stop()
    await engine.admin.close()


async def test_at_the_deadline_the_connection_is_torn_down(yard, instance, soon):
    instance.hold()
    task = await yard.submit(deadline_in=1)
    request = await soon(instance.arrived.get())
    await soon(request.gone.wait())
    assert (await yard.ended(task)).error == "deadline exceeded"


async def test_an_answer_that_trickles_in_does_not_outlive_the_deadline(yard, instance):
    instance.reply = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly a part"
    task = await yard.run(deadline_in=0.1)
    assert task.error == "deadline exceeded"


async def test_a_tab_that_is_sought_for_too_long_misses_the_deadline(start_yard):
    class Slow:
        async def resolve(self, _tab_id):
            await asyncio.Event().wait()

    yard = await start_yard(Slow())
    assert (await yard.run(deadline_in=0.05)).error == "deadline exceeded"


async def test_a_task_that_waits_for_a_slot_past_its_deadline_is_never_sent(start_yard, instance, soon):
    yard = await start_yard(instance, workers=1)
    instance.hold()
    first = await yard.submit()
    await soon(instance.arrived.get())
    late = await yard.run(deadline_in=0.05)
    assert late.error == "deadline exceeded while queued"
    instance.let_go()
    await yard.ended(first)
    assert len(instance.requests) == 1


# Cancel


async def test_cancelling_a_running_task_tears_its_request_down(yard, instance, soon):
    instance.hold()
    task = await yard.submit()
    request = await soon(instance.arrived.get())
    await yard.engine.tasks.cancel("default", task.id)
    await soon(request.gone.wait())
    assert task.state == "cancelled"
    assert task.result is None


async def test_cancelling_one_task_leaves_the_others_alone(yard, instance, soon):
    instance.hold()
    tasks = [await yard.submit() for _ in range(3)]
    by_token = [await soon(instance.arrived.get()) for _ in tasks]
    await yard.engine.tasks.cancel("default", tasks[1].id)
    async with asyncio.timeout(10):
        while sum(request.gone.is_set() for request in by_token) < 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    instance.let_go()
    assert [(await yard.ended(task)).state for task in tasks] == ["done", "cancelled", "done"]
    assert sum(request.gone.is_set() for request in by_token) == 1


async def test_a_cancelled_task_stays_cancelled_whatever_the_instance_answers_later(yard, instance, soon):
    instance.hold()
    task = await yard.submit()
    await soon(instance.arrived.get())
    await yard.engine.tasks.cancel("default", task.id)
    instance.let_go()
    await yard.run()
    assert (task.state, task.result, task.error) == ("cancelled", None, None)


# Slots


@pytest.mark.parametrize("workers", [1, 3])
async def test_at_most_workers_requests_run_at_once(start_yard, instance, soon, workers):
    yard = await start_yard(instance, workers=workers)
    instance.hold()
    tasks = [await yard.submit(tab_id=f"tab-{number}") for number in range(10)]
    for _ in range(workers):
        await soon(instance.arrived.get())
    assert (await yard.engine.admin.stats("default")).queued == 10 - workers
    instance.let_go()
    for task in tasks:
        assert (await yard.ended(task)).state == "done"
    assert instance.most_at_once == workers
    assert len(instance.requests) == 10


async def test_four_workers_are_the_documented_number(yard, instance, soon):
    instance.hold()
    for _ in range(6):
        await yard.submit()
    for _ in range(4):
        await soon(instance.arrived.get())
    stats = await yard.engine.admin.stats("default")
    assert (stats.inflight, stats.queued) == (4, 2)


async def test_a_slot_is_free_again_after_each_way_to_end(start_yard, instance, http, soon):
    yard = await start_yard(instance, workers=1)
    assert (await yard.run()).state == "done"
    assert (await yard.run(tab_id=None)).state == "failed"
    instance.reply = http("", "500 Error")
    assert (await yard.run()).state == "failed"
    instance.hold()
    assert (await yard.run(deadline_in=0.05)).state == "failed"
    instance.arrived = asyncio.Queue()
    running = await yard.submit()
    await soon(instance.arrived.get())
    await yard.engine.tasks.cancel("default", running.id)
    instance.let_go()
    instance.reply = http("ok")
    assert (await yard.run()).state == "done"


async def test_a_slot_is_free_again_after_a_task_that_was_cancelled_before_it_started(start_yard, instance):
    """It was handed out, but its work had not begun to run: cancelling such a work never runs it at all."""
    yard = await start_yard(instance, workers=1)
    await yard.run()
    handed_out = asyncio.Event()

    def cancel_at_once(_namespace, happened):
        for task, state in [(event.task, event.state) for event in happened]:
            if state == "assigned" and task.action == "doomed":
                doomed.append(asyncio.ensure_future(yard.engine.tasks.cancel("default", task.id)))
                handed_out.set()

    doomed = []
    yard.engine.subscribe(cancel_at_once)
    tasks = [await yard.submit(action="doomed") for _ in range(5)]
    await asyncio.wait_for(handed_out.wait(), 10)
    assert {(await yard.ended(task)).state for task in tasks} == {"cancelled"}
    assert (await yard.run()).state == "done"
    assert [request.json["kind"] for request in instance.requests].count("doomed") < 5


async def test_connections_are_kept_for_the_next_task(start_yard, instance):
    yard = await start_yard(instance, workers=1)
    for _ in range(5):
        await yard.run()
    assert instance.connections == 1


async def test_a_hundred_tasks_are_all_run_once(yard, instance):
    tasks = [await yard.submit(tab_id=f"tab-{number}", action=str(number)) for number in range(100)]
    for task in tasks:
        assert (await yard.ended(task)).state == "done"
    assert sorted(int(request.json["kind"]) for request in instance.requests) == list(range(100))


# Late results


async def test_a_result_that_comes_after_the_lease_was_lost_is_dropped(yard, monkeypatch, soon):
    """The request cannot always be stopped in time; then the report is refused, and that is all."""
    reported = asyncio.Event()
    report = yard.engine.leases.report

    async def late(namespace, host_id, said):
        if said[0].kind is ReportKind.COMPLETED:
            await yard.engine.tasks.cancel(namespace, said[0].task_id)
        outcomes = await report(namespace, host_id, said)
        if isinstance(outcomes[0], LeaseLost):
            reported.set()
        return outcomes

    monkeypatch.setattr(yard.engine.leases, "report", late)
    task = await yard.run()
    await soon(reported.wait())
    assert (task.state, task.result, task.error) == ("cancelled", None, None)
    assert (await yard.engine.admin.stats("default")).counters.late_reports == 1
    monkeypatch.undo()
    assert (await yard.run()).state == "done"


async def test_an_error_of_the_executor_itself_fails_the_task_and_tells_no_internals(start_yard):
    class Broken:
        async def resolve(self, _tab_id):
            raise RuntimeError("password=hunter2")

    yard = await start_yard(Broken())
    task = await yard.run()
    assert (task.state, task.error) == ("failed", "executor error")


# The end of the executor


async def test_what_runs_when_the_executor_stops_goes_back_to_the_queue(yard, instance, soon):
    instance.hold()
    task = await yard.submit()
    request = await soon(instance.arrived.get())
    await yard.stop()
    await soon(request.gone.wait())
    assert task.state == "queued"
    assert (await yard.engine.admin.stats("default")).inflight == 0


async def test_leases_are_renewed_while_their_requests_run(start_yard, instance, soon, monkeypatch):
    monkeypatch.setattr("taskyard_server.executors.tab_actions.LEASE_SECS", 3.0)
    yard = await start_yard(instance)
    instance.hold()
    task = await yard.submit()
    await soon(instance.arrived.get())
    lease = task.lease
    first_end = lease.expires_at
    async with asyncio.timeout(10):
        while lease.expires_at == first_end:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert task.lease is lease
    assert lease.expires_at > first_end
    instance.let_go()
    await yard.ended(task)
    assert task.deliveries == 1


# Targets


@pytest.mark.parametrize("interrupt", ["cancel", "pause"])
async def test_a_task_that_was_stopped_frees_its_target_once_nothing_runs(yard, instance, soon, interrupt):
    instance.hold()
    first, second = [await yard.submit(target="t") for _ in range(2)]
    request = await soon(instance.arrived.get())
    await getattr(yard.engine.tasks, interrupt)("default", first.id)
    if interrupt == "pause":
        await yard.engine.tasks.resolve("default", first.id, None)
    await soon(request.gone.wait())
    instance.let_go()
    assert (await yard.ended(second)).state == "done"
    assert instance.most_at_once == 1


async def test_a_task_that_is_stopped_before_it_began_frees_its_target_too(yard, instance):
    def cancel_what_is_handed_out(_, happened):
        for event in happened:
            if event.task is first and event.state == "assigned":
                # Commands of this engine do their work at once.
                with pytest.raises(StopIteration):
                    yard.engine.tasks.cancel("default", first.id).send(None)

    stop = yard.engine.subscribe(cancel_what_is_handed_out)
    first, second = [await yard.submit(target="t") for _ in range(2)]
    assert (await yard.ended(second)).state == "done"
    stop()
    assert (first.state, len(instance.requests)) == ("cancelled", 1)
