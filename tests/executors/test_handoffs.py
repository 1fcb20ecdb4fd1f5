"""A tab that a person has: its tasks are parked, and tried again (docs/rules.md, Executor answers)."""

import asyncio

import pytest
from google.protobuf.json_format import MessageToDict

from taskyard.v1 import task_pb2
from taskyard_server.conversion.task_encoding import encode_task
from taskyard_server.core.runs.steps import MAX_STEPS
from taskyard_server.engine.virtual_clock import VirtualClock
from tests.live import live
from tests.waiting import until

HELD = {"code": "tab_paused_handoff", "error": "tab is paused for handoff", "details": {"reason": "captcha"}}
NOTICE = "a person has the tab; it is tried again from time to time"


@pytest.fixture
def clock():
    return VirtualClock(1_800_000_000.0)


def pass_secs(clock, secs):
    clock.move_to(clock() + secs + 0.2)
    clock.ring()


async def set_aside(task, state="parked"):
    await until(lambda: task.state, lambda now: now == state)


async def tried(instance, count):
    await until(lambda: len(instance.requests), lambda now: now == count)


async def test_a_task_whose_tab_a_person_has_is_parked_and_tried_again(start_server, instance, answer, clock):
    server = await start_server(instance, clock=clock)
    instance.reply = answer(HELD, "409 Conflict")
    task = await server.submit()
    await set_aside(task)
    assert (task.deliveries, task.history.failed, task.history.attempts, task.lease) == (0, 0, (), None)
    assert task_pb2.Task.FromString(encode_task(task)).notice == NOTICE
    (reason,) = (await server.engine.tasks.explain("default", task.id)).reasons
    assert (reason.kind, reason.message, reason.until) == ("time", NOTICE, clock() + 5)
    instance.reply = answer({"success": True})
    pass_secs(clock, 4.5)
    await asyncio.sleep(0)
    assert task.state == "parked"
    pass_secs(clock, 0.5)
    await server.ended(task)
    assert (task.state, task.deliveries, len(instance.requests)) == ("done", 1, 2)


async def test_it_is_tried_more_and_more_seldom(start_server, instance, answer, clock):
    server = await start_server(instance, clock=clock, handoff_max_retry_secs=15)
    instance.reply = answer(HELD, "409 Conflict")
    task = await server.submit()
    waited = []
    for tries in range(1, 5):
        await tried(instance, tries)
        await set_aside(task)
        (wait,) = task.history.park.waits
        waited.append((wait.name, round(wait.until - clock())))
        pass_secs(clock, wait.until - clock())
    assert waited == [(f"tab_paused_handoff {tries}", secs) for tries, secs in enumerate((5, 10, 15, 15), 1)]


async def test_its_target_stays_taken(start_server, instance, answer, clock):
    server = await start_server(instance, clock=clock)
    instance.reply = answer(HELD, "409 Conflict")
    task = await server.submit(target="page", tab_id="held")
    await set_aside(task)
    instance.reply = answer({"success": True})
    other = await server.submit(target="page")
    assert (await server.run(tab_id="other")).state == "done"
    assert other.state == "queued"
    pass_secs(clock, 5)
    await server.ended(other)
    assert [request.target.split("/")[2] for request in instance.requests] == ["held", "other", "held", "tab"]


async def test_its_default_deadline_stands_still_and_its_own_ends_it(start_server, instance, answer, clock):
    server = await start_server(instance, clock=clock, handoff_retry_secs=100, handoff_max_retry_secs=100)
    instance.reply = answer(HELD, "409 Conflict")
    task, other = await server.submit(deadline_in=30), await server.submit()
    await set_aside(task)
    await set_aside(other)
    pass_secs(clock, 90)
    await server.ended(task)
    assert (task.state, task.error, other.state) == ("failed", "deadline exceeded", "parked")
    instance.reply = answer({"success": True})
    pass_secs(clock, 10)
    assert (await server.ended(other)).state == "done"


async def test_one_that_was_tried_too_often_fails(server, instance, answer, soon):
    instance.reply = answer(HELD, "409 Conflict")
    instance.hold()
    task = await server.submit()
    await soon(instance.arrived.get())
    task.history = task.history._replace(steps=MAX_STEPS)
    instance.release()
    await server.ended(task)
    assert (task.state, task.error, task.history.code) == ("failed", HELD["error"], HELD["code"])


async def test_while_an_earlier_version_serves_too_it_is_set_back(start_server, instance, answer, clock):
    server = await start_server(instance, clock=clock)
    assert (await server.run()).state == "done"
    readers = server.engine._namespaces.get("default", "namespace").scheduler.readers
    readers.allow_fields(added=True, extras=True, output=True, artifacts=False)
    instance.reply = answer(HELD, "409 Conflict")
    task = await server.submit()
    await set_aside(task, "pending")
    assert (task.deliveries, task.history.failed, task.history.attempts) == (0, 0, ())
    shown = task_pb2.Task.FromString(encode_task(task))
    assert (shown.notice, shown.code) == (NOTICE, "tab_paused_handoff")
    (reason,) = (await server.engine.tasks.explain("default", task.id)).reasons
    assert (reason.message, reason.until) == (NOTICE, clock() + 5)
    instance.reply = answer({"success": True})
    pass_secs(clock, 5)
    await server.ended(task)
    assert (task.state, task.deliveries, task.history.code, len(instance.requests)) == ("done", 1, None, 3)


@pytest.mark.parametrize(
    ("body", "status"),
    [(HELD, "423 Locked"), (HELD | {"code": "tab_locked"}, "409 Conflict"), (HELD | {"success": False}, "200 OK")],
)
async def test_any_other_conflict_is_a_failure(server, instance, answer, body, status):
    instance.reply = answer(body, status)
    task = await server.run()
    assert (task.state, task.error) == ("failed", "tab is paused for handoff")


async def test_the_details_of_a_failure_are_kept_as_those_of_its_last_progress(server, instance, answer):
    instance.reply = answer({"error": "no such element", "details": {"ref": "e12", "tried": [1, 2.5]}}, "404 Not Found")
    task = await server.run()
    progress = MessageToDict(task_pb2.Progress.FromString(task.progress))
    assert (task.error, progress["details"]) == ("no such element", {"ref": "e12", "tried": [1, 2.5]})


@pytest.mark.parametrize("details", ["text", [], {}, 1, None])
async def test_details_that_cannot_be_kept_are_left_out(server, instance, answer, details):
    instance.reply = answer({"error": "broken", "details": details}, "500 Error")
    task = await server.run()
    assert (task.state, task.error, task.progress) == ("failed", "broken", None)
    assert (await server.engine.tasks.get("default", task.id, show=live)) is task
