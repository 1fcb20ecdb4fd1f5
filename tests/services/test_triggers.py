"""ScheduleService: triggers and their log lines (docs/rules.md, Triggers)."""

from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.task_pb2 import Task
from taskyard_server.logs.logs import TriggerLog

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def create_schedule(api: Any, schedule_id: str = "s", **fields: Any) -> None:
    task = pb.TaskTemplate(agent_id="ann", action="report")
    request = {"schedule_id": schedule_id, "interval": "1h", "task": task, "overlap": pb.Overlap.allow, **fields}
    await api.schedules.CreateSchedule(pb.CreateScheduleRequest(**request))


async def fire(api: Any, schedule_id: str = "s", metadata: Any = None, **fields: Any) -> pb.Trigger:
    request = pb.TriggerScheduleRequest(schedule_id=schedule_id, **fields)
    return (await api.schedules.TriggerSchedule(request, metadata=metadata)).trigger


async def get_trigger(api: Any, trigger: pb.Trigger) -> pb.Trigger:
    return (await api.schedules.GetTrigger(pb.GetTriggerRequest(trigger_id=trigger.trigger_id))).trigger


async def list_trigger_ids(api: Any, **filters: Any) -> list[str]:
    """The ids of all triggers of a listing."""
    ids: list[str] = []
    request = pb.ListTriggersRequest(**filters)
    while True:
        page = await api.schedules.ListTriggers(request)
        ids += [trigger.trigger_id for trigger in page.triggers]
        if not page.next_page_token:
            return ids
        request.page_token = page.next_page_token


def instant(at: float) -> Timestamp:
    return Timestamp(seconds=int(at), nanos=round(at % 1 * 1e9))


async def test_a_trigger_executes_until_its_task_ends(api):
    await create_schedule(api)
    trigger = await fire(api)
    assert trigger.state == pb.Trigger.executing
    assert trigger.fired_at.ToMicroseconds() == (await api.get(trigger.task_id)).created_at.ToMicroseconds()
    lease = await api.run_one()
    assert (await get_trigger(api, trigger)).state == pb.Trigger.executing
    await api.complete(lease)
    ended = await get_trigger(api, trigger)
    assert ended.state == pb.Trigger.completed
    assert ended.ended_at.ToMicroseconds() == (await api.get(trigger.task_id)).completed_at.ToMicroseconds()
    assert not ended.HasField("reason")


async def test_a_trigger_fails_with_its_task_and_shows_the_reason(api):
    await create_schedule(api)
    failing, cancelled = await fire(api), await fire(api)
    await api.fail(await api.run_one(), "disk full")
    await api.cancel(cancelled.task_id)
    assert [
        ((await get_trigger(api, trigger)).state, (await get_trigger(api, trigger)).reason)
        for trigger in (failing, cancelled)
    ] == [
        (pb.Trigger.failed, "disk full"),
        (pb.Trigger.failed, "its task was cancelled"),
    ]


async def test_a_key_creates_one_trigger_per_schedule(api):
    await create_schedule(api)
    await create_schedule(api, "t")
    first = await fire(api, idempotency_key="k")
    assert await fire(api, idempotency_key="k") == first
    assert (await fire(api, "t", idempotency_key="k")).trigger_id != first.trigger_id
    assert (await fire(api)).trigger_id != (await fire(api)).trigger_id


async def test_a_schedule_shows_its_last_task_and_time(api):
    await create_schedule(api)
    trigger = await fire(api)
    schedule = (await api.schedules.GetSchedule(pb.GetScheduleRequest(schedule_id="s"))).schedule
    assert (schedule.last_task_id, schedule.last_fired_at) == (trigger.task_id, trigger.fired_at)


async def test_the_task_of_a_trigger_has_its_id_as_key(api):
    await create_schedule(api)
    trigger = await fire(api)
    assert (await api.get(trigger.task_id)).idempotency_key == trigger.trigger_id


async def test_a_full_queue_defers_a_trigger_and_keeps_no_rejected_task(start_api):
    api = await start_api(max_queue_size=1)
    task = (await api.submit()).task_id
    await create_schedule(api)
    trigger = await fire(api)
    assert trigger.state == pb.Trigger.pending
    assert trigger.deferred_until.ToMicroseconds() - trigger.due_at.ToMicroseconds() == pytest.approx(1e6, abs=1e4)
    assert not (await api.list_tasks(state="rejected")).tasks
    assert (await api.get(task)).state == (await api.list_tasks()).tasks[0].state


async def test_triggers_are_listed_latest_due_time_first(start_api, clock):
    api = await start_api(clock=clock, max_concurrent=100)
    await create_schedule(api)
    await create_schedule(api, "t")
    begin = clock.now = round(clock.now)
    created = []
    for number in range(6):
        clock.now += 1
        created.append((await fire(api, "s" if number % 2 else "t")).trigger_id)
    newest_first = created[::-1]
    assert await list_trigger_ids(api) == newest_first
    assert await list_trigger_ids(api, page_size=4) == newest_first
    assert await list_trigger_ids(api, schedule_id="s", page_size=2) == newest_first[::2]
    assert await list_trigger_ids(api, due_from=instant(begin + 3)) == newest_first[:4]
    assert await list_trigger_ids(api, due_before=instant(begin + 3)) == newest_first[4:]
    assert (
        await list_trigger_ids(api, due_from=instant(begin + 2), due_before=instant(begin + 4), page_size=1)
        == created[2:0:-1]
    )


async def test_a_due_time_that_was_shown_bounds_a_listing_and_a_preview_exactly(start_api, clock):
    clock.now = 1_763_956_910.7503474
    api = await start_api(clock=clock, max_concurrent=100)
    await create_schedule(api, interval="1.1s")
    await api.schedules.PauseSchedule(pb.PauseScheduleRequest(schedule_id="s"))
    clock.now += 34
    await api.schedules.ResumeSchedule(pb.ResumeScheduleRequest(schedule_id="s", catch_up=pb.CatchUp.all))
    made = (await api.schedules.ListTriggers(pb.ListTriggersRequest())).triggers
    ids = [trigger.trigger_id for trigger in made]
    assert len(ids) == 30
    for place, trigger in enumerate(made):
        assert await list_trigger_ids(api, due_from=trigger.due_at) == ids[: place + 1]
        assert await list_trigger_ids(api, due_before=trigger.due_at, page_size=10) == ids[place + 1 :]
        if place:
            preview = pb.PreviewScheduleRequest(schedule_id="s", count=1, after=trigger.due_at)
            assert list((await api.schedules.PreviewSchedule(preview)).due_at) == [made[place - 1].due_at]


async def test_triggers_are_listed_by_state(api):
    await create_schedule(api, overlap=pb.Overlap.skip)
    running, skipped = (await fire(api)).trigger_id, (await fire(api)).trigger_id
    assert await list_trigger_ids(api, state="executing") == [running]
    assert await list_trigger_ids(api, state="skipped , pending") == [skipped]
    assert await list_trigger_ids(api, state="executing,skipped") == [skipped, running]
    assert await list_trigger_ids(api, state="completed") == []


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
async def test_an_invalid_listing_names_the_field(api, refused, filters, message):
    refusal = await refused(api.schedules.ListTriggers(pb.ListTriggersRequest(**filters)))
    assert (refusal.code, refusal.message) == ("bad_request", message)


async def test_a_page_token_is_valid_for_its_own_listing_only(api, refused):
    await create_schedule(api)
    for _ in range(2):
        await fire(api)
    token = (await api.schedules.ListTriggers(pb.ListTriggersRequest(page_size=1))).next_page_token
    request = pb.ListTriggersRequest(page_token=token, schedule_id="s")
    assert (await refused(api.schedules.ListTriggers(request))).message == "pageToken: is not a token of this listing"


async def test_an_unknown_trigger_is_not_found(api, refused):
    await create_schedule(api)
    refusal = await refused(api.schedules.GetTrigger(pb.GetTriggerRequest(trigger_id="trg_x")))
    assert (refusal.code, refusal.message) == ("not_found", "trigger not found")


# Traces and logs (docs/rules.md, Traces)


async def test_the_trace_context_of_the_call_is_kept_by_trigger_and_task(api):
    await create_schedule(api)
    trigger = await fire(api, metadata=(("traceparent", TRACEPARENT),))
    assert trigger.traceparent == TRACEPARENT
    (lease,) = await api.claim()
    assert lease.task.options.traceparent == TRACEPARENT


async def test_a_trigger_without_a_trace_context_starts_a_new_trace(api):
    await create_schedule(api)
    first, second = await fire(api), await fire(api)
    assert first.traceparent != second.traceparent
    assert (await api.get(first.task_id)).traceparent == first.traceparent


async def test_each_event_of_a_trigger_is_one_log_line(api, log_lines):
    api.engine.schedules.subscribe(TriggerLog())
    await create_schedule(api, overlap=pb.Overlap.skip)
    fired = await fire(api)
    skipped = await fire(api)
    await api.complete(await api.run_one())
    assert (await api.wait(fired.task_id)).task.state == Task.done
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


async def test_a_pending_trigger_states_what_it_waits_for(start_api):
    api = await start_api(max_queued_triggers=1)
    await create_schedule(api, overlap=pb.Overlap.wait)
    await create_schedule(api, "t")
    for schedule_id in ("s", "t"):
        assert (await fire(api, schedule_id)).state == pb.Trigger.executing
    reasons = [(await fire(api)).reason, (await fire(api, "t")).reason]
    assert reasons == [
        "waits until the earlier triggers of the schedule have ended",
        "waits until fewer than daemon.maxQueuedTriggers tasks of the schedule are queued",
    ]


async def test_a_trigger_deferred_by_a_full_queue_shows_the_reason(start_api):
    api = await start_api(max_queue_size=1)
    await api.submit()
    await create_schedule(api)
    assert (await fire(api)).reason == "waits for room in the queue"
