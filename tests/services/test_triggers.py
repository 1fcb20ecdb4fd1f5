"""ScheduleService: triggers, as callers see them, and what is logged of them (scheduler-daemon, Trigger Lifecycle)."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.task_pb2 import Task
from taskyard_server.logs import TriggerLog

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def make(door: Any, schedule_id: str = "s", **fields: Any) -> None:
    task = pb.TaskTemplate(agent_id="ann", action="report")
    asked = {"schedule_id": schedule_id, "interval": "1h", "task": task, "overlap": pb.Overlap.allow, **fields}
    await door.schedules.CreateSchedule(pb.CreateScheduleRequest(**asked))


async def fire(door: Any, schedule_id: str = "s", metadata: Any = None, **fields: Any) -> pb.Trigger:
    request = pb.TriggerScheduleRequest(schedule_id=schedule_id, **fields)
    return (await door.schedules.TriggerSchedule(request, metadata=metadata)).trigger


async def look(door: Any, trigger: pb.Trigger) -> pb.Trigger:
    return (await door.schedules.GetTrigger(pb.GetTriggerRequest(trigger_id=trigger.trigger_id))).trigger


async def listed(door: Any, **filters: Any) -> list[str]:
    """The ids, page after page."""
    ids: list[str] = []
    request = pb.ListTriggersRequest(**filters)
    while True:
        page = await door.schedules.ListTriggers(request)
        ids += [trigger.trigger_id for trigger in page.triggers]
        if not page.next_page_token:
            return ids
        request.page_token = page.next_page_token


def instant(at: float) -> Timestamp:
    return Timestamp(seconds=int(at), nanos=round(at % 1 * 1e9))


async def test_a_trigger_executes_as_long_as_its_task_lives(door):
    await make(door)
    trigger = await fire(door)
    assert trigger.state == pb.Trigger.executing
    assert trigger.fired_at.ToMicroseconds() == (await door.get(trigger.task_id)).created_at.ToMicroseconds()
    lease = await door.run_one()
    assert (await look(door, trigger)).state == pb.Trigger.executing
    await door.complete(lease)
    ended = await look(door, trigger)
    assert ended.state == pb.Trigger.completed
    assert ended.ended_at.ToMicroseconds() == (await door.get(trigger.task_id)).completed_at.ToMicroseconds()
    assert not ended.HasField("reason")


async def test_a_trigger_fails_with_its_task_and_says_why(door):
    await make(door)
    failing, cancelled = await fire(door), await fire(door)
    await door.fail(await door.run_one(), "disk full")
    await door.cancel(cancelled.task_id)
    assert [((await look(door, each)).state, (await look(door, each)).reason) for each in (failing, cancelled)] == [
        (pb.Trigger.failed, "disk full"),
        (pb.Trigger.failed, "its task was cancelled"),
    ]


async def test_a_key_makes_a_trigger_once_in_its_schedule(door):
    await make(door)
    await make(door, "t")
    first = await fire(door, idempotency_key="k")
    assert await fire(door, idempotency_key="k") == first
    assert (await fire(door, "t", idempotency_key="k")).trigger_id != first.trigger_id
    assert (await fire(door)).trigger_id != (await fire(door)).trigger_id


async def test_a_schedule_shows_what_it_fired_last(door):
    await make(door)
    trigger = await fire(door)
    schedule = (await door.schedules.GetSchedule(pb.GetScheduleRequest(schedule_id="s"))).schedule
    assert (schedule.last_task_id, schedule.last_fired_at) == (trigger.task_id, trigger.fired_at)


async def test_the_task_of_a_trigger_is_known_by_its_key(door):
    await make(door)
    trigger = await fire(door)
    assert (await door.get(trigger.task_id)).idempotency_key == trigger.trigger_id


async def test_a_full_queue_defers_a_trigger_and_keeps_no_rejected_task(open_door):
    door = await open_door(max_queue_size=1)
    task = (await door.submit()).task_id
    await make(door)
    trigger = await fire(door)
    assert trigger.state == pb.Trigger.pending
    assert trigger.deferred_until.ToMicroseconds() - trigger.due_at.ToMicroseconds() == pytest.approx(1e6, abs=1e4)
    assert not (await door.list_tasks(state="rejected")).tasks
    assert (await door.get(task)).state == (await door.list_tasks()).tasks[0].state


async def test_triggers_are_listed_latest_due_first_page_by_page(open_door, still):
    door = await open_door(clock=still, max_concurrent=100)
    await make(door)
    await make(door, "t")
    begin = still.now = round(still.now)
    made = []
    for number in range(6):
        still.now += 1
        made.append((await fire(door, "s" if number % 2 else "t")).trigger_id)
    newest_first = made[::-1]
    assert await listed(door) == newest_first
    assert await listed(door, page_size=4) == newest_first
    assert await listed(door, schedule_id="s", page_size=2) == newest_first[::2]
    assert await listed(door, due_from=instant(begin + 3)) == newest_first[:4]
    assert await listed(door, due_before=instant(begin + 3)) == newest_first[4:]
    assert await listed(door, due_from=instant(begin + 2), due_before=instant(begin + 4), page_size=1) == made[2:0:-1]


async def test_triggers_are_listed_by_state(door):
    await make(door, overlap=pb.Overlap.skip)
    running, skipped = (await fire(door)).trigger_id, (await fire(door)).trigger_id
    assert await listed(door, state="executing") == [running]
    assert await listed(door, state="skipped , pending") == [skipped]
    assert await listed(door, state="executing,skipped") == [skipped, running]
    assert await listed(door, state="completed") == []


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (
            {"state": "done"},
            'state: unknown state "done", must be among pending, executing, completed, failed, skipped',
        ),
        ({"page_token": "x"}, "pageToken: is not a token of this listing"),
        ({"due_from": Timestamp(seconds=253_402_300_800)}, "dueFrom: must be a time before the year 10000"),
        ({"due_before": Timestamp(seconds=253_402_300_800)}, "dueBefore: must be a time before the year 10000"),
    ],
)
async def test_a_listing_that_is_wrong_names_the_field(door, refused, filters, message):
    refusal = await refused(door.schedules.ListTriggers(pb.ListTriggersRequest(**filters)))
    assert (refusal.code, refusal.message) == ("bad_request", message)


async def test_a_page_token_is_good_for_its_own_listing_only(door, refused):
    await make(door)
    for _ in range(2):
        await fire(door)
    token = (await door.schedules.ListTriggers(pb.ListTriggersRequest(page_size=1))).next_page_token
    request = pb.ListTriggersRequest(page_token=token, schedule_id="s")
    assert (await refused(door.schedules.ListTriggers(request))).message == "pageToken: is not a token of this listing"


async def test_a_trigger_that_is_not_there_is_not_found(door, refused):
    await make(door)
    refusal = await refused(door.schedules.GetTrigger(pb.GetTriggerRequest(trigger_id="trg_x")))
    assert (refusal.code, refusal.message) == ("not_found", "trigger not found")


# Traces and logs (scheduler-daemon, Structured Logging)


async def test_the_trace_of_the_call_goes_through_the_trigger_to_the_task(door):
    await make(door)
    trigger = await fire(door, metadata=(("traceparent", TRACEPARENT),))
    assert trigger.traceparent == TRACEPARENT
    (lease,) = await door.claim()
    assert lease.task.options.traceparent == TRACEPARENT


async def test_a_trigger_without_a_trace_begins_one(door):
    await make(door)
    one, other = await fire(door), await fire(door)
    assert one.traceparent != other.traceparent
    assert (await door.get(one.task_id)).traceparent == one.traceparent


async def test_each_thing_that_happens_to_a_trigger_is_a_line(door, log_lines):
    door.engine.schedules.subscribe(TriggerLog())
    await make(door, overlap=pb.Overlap.skip)
    fired = await fire(door)
    skipped = await fire(door)
    await door.complete(await door.run_one())
    assert (await door.wait(fired.task_id)).task.state == Task.done
    lines = [line for line in log_lines if line["event"].startswith("trigger_")]
    assert [(line["event"], line["trigger_id"]) for line in lines] == [
        ("trigger_due", fired.trigger_id),
        ("trigger_claimed", fired.trigger_id),
        ("trigger_due", skipped.trigger_id),
        ("trigger_skipped", skipped.trigger_id),
        ("trigger_completed", fired.trigger_id),
    ]
    assert {line["schedule_id"] for line in lines} == {"s"}
    assert [line["trace_id"] for line in lines[:2]] == [fired.traceparent.split("-")[1]] * 2
    assert lines[1]["task_id"] == fired.task_id
    assert "task_id" not in lines[0]
    assert lines[3]["reason"] == skipped.reason


async def test_a_pending_trigger_says_what_it_waits_for(open_door):
    door = await open_door(max_concurrent=1, max_queue_size=2)
    await make(door, overlap=pb.Overlap.wait)
    await make(door, "t")
    await fire(door)
    reasons = [(await fire(door)).reason, (await fire(door, "t")).reason]
    assert reasons == [
        "waits until the earlier triggers of the schedule have ended",
        "waits for a place: daemon.maxConcurrent triggers execute",
    ]


async def test_a_trigger_that_a_full_queue_defers_says_so(open_door):
    door = await open_door(max_queue_size=1)
    await door.submit()
    await make(door)
    assert (await fire(door)).reason == "waits for room in the queue"
