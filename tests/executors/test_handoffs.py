"""A tab that a person has: its tasks go back, and are tried again (docs/rules.md, Executor answers)."""

import asyncio

import pytest
from google.protobuf.json_format import MessageToDict

from taskyard.v1 import task_pb2
from taskyard_server.conversion.task_encoding import encode_task
from taskyard_server.engine.virtual_clock import VirtualClock
from tests.live import live
from tests.waiting import until

HELD = {"code": "tab_paused_handoff", "error": "tab is paused for handoff", "details": {"reason": "captcha"}}
NOTICE = "a person has the tab; it is tried again until the deadline of the task"


@pytest.fixture
def clock():
    return VirtualClock(1_800_000_000.0)


def pass_secs(clock, secs):
    clock.move_to(clock() + secs)
    clock.ring()


async def set_back(task):
    await until(lambda: task.state, lambda state: state == "pending")


async def test_a_task_whose_tab_a_person_has_is_tried_again_without_an_attempt(start_server, instance, answer, clock):
    server = await start_server(instance, clock=clock)
    instance.reply = answer(HELD, "409 Conflict")
    task = await server.submit()
    await set_back(task)
    assert (task.deliveries, task.history.failed, task.history.attempts) == (0, 0, ())
    shown = task_pb2.Task.FromString(encode_task(task))
    assert (shown.notice, shown.code) == (NOTICE, "tab_paused_handoff")
    (reason,) = (await server.engine.tasks.explain("default", task.id)).reasons
    assert (reason.message, reason.until) == (NOTICE, clock() + 5)
    instance.reply = answer({"success": True})
    pass_secs(clock, 4.9)
    await asyncio.sleep(0)
    assert task.state == "pending"
    pass_secs(clock, 0.3)
    await server.ended(task)
    assert (task.state, task.deliveries, task.history.code, len(instance.requests)) == ("done", 1, None, 2)


async def test_the_deadline_ends_it(start_server, instance, answer, clock):
    server = await start_server(instance, clock=clock, handoff_retry_secs=50)
    instance.reply = answer(HELD, "409 Conflict")
    task = await server.submit(deadline_in=30)
    await set_back(task)
    pass_secs(clock, 31)
    await server.ended(task)
    assert (task.state, task.error) == ("failed", "deadline exceeded while queued")


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
