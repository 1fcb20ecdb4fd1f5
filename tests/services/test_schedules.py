"""ScheduleService: schedules (docs/rules.md, Schedules; proto/taskyard/v1/schedule.proto)."""

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard.v1 import schedule_pb2 as pb
from taskyard.v1.task_pb2 import RetryPolicy
from taskyard_server.core import history
from tests.cases import every_case


def template(**fields: Any) -> pb.TaskTemplate:
    return pb.TaskTemplate(**{"agent_id": "ann", "action": "report", **fields})


def create_request(**fields: Any) -> pb.CreateScheduleRequest:
    cadence = {} if {"cron", "interval", "at"} & set(fields) else {"interval": "10m"}
    return pb.CreateScheduleRequest(**{"schedule_id": "s", "task": template(), **cadence, **fields})


def instant(text: str) -> Timestamp:
    timestamp = Timestamp()
    timestamp.FromDatetime(datetime.fromisoformat(text))
    return timestamp


def iso_times(times: Any) -> list[str]:
    return [time.ToDatetime(UTC).isoformat() for time in times]


async def create(api: Any, **fields: Any) -> pb.Schedule:
    return (await api.schedules.CreateSchedule(create_request(**fields))).schedule


async def update(api: Any, *mask: str, **fields: Any) -> pb.Schedule:
    mask_fields = {"update_mask": FieldMask(paths=mask)} if mask else {}
    request = pb.UpdateScheduleRequest(schedule_id="s", **fields, **mask_fields)
    return (await api.schedules.UpdateSchedule(request)).schedule


async def test_a_schedule_has_the_documented_defaults(start_api, clock):
    schedule = await create(await start_api(clock=clock))
    assert schedule.time_zone == "UTC"
    assert schedule.overlap == pb.Overlap.skip
    assert schedule.catch_up == pb.CatchUp.last
    assert schedule.catch_up_window_secs == 86_400
    assert schedule.status == pb.Schedule.active
    # Each time is a float that is rounded to the microsecond separately.
    assert abs(schedule.next_due_at.ToMicroseconds() - schedule.created_at.ToMicroseconds() - 600_000_000) <= 1
    absent = ("display_name", "last_fired_at", "last_task_id")
    assert not [name for name in absent if schedule.HasField(name)]


async def test_a_schedule_shows_the_fields_of_its_request(api):
    fields = {
        "display_name": "Every night",
        "cron": "*/5 1-3 * * MON-FRI",
        "time_zone": "Asia/Kolkata",
        "overlap": pb.Overlap.replace,
        "catch_up": pb.CatchUp.all,
        "catch_up_window_secs": 60,
    }
    created = await create(api, **fields)
    (listed,) = (await api.schedules.ListSchedules(pb.ListSchedulesRequest())).schedules
    fetched = (await api.schedules.GetSchedule(pb.GetScheduleRequest(schedule_id="s"))).schedule
    assert created == fetched == listed
    assert {name: getattr(created, name) for name in fields} == fields


async def test_a_template_keeps_every_field(api):
    params = Struct()
    params.update({"days": 3, "nested": {"b": [1, None], "a": "x"}})
    task_template = template(
        tab_id="tab",
        ref="ref",
        params=params,
        priority=-3,
        deadline_secs=90,
        callback_url="https://example.com/hook",
        project="p",
        requires=["gpu", "linux"],
        labels={"team": "x"},
        target="shop",
        token_limit=5,
        retry_policy=RetryPolicy(
            max_attempts=3, first_delay_ms=10, multiplier=1.5, max_delay_ms=100, non_retryable_codes=["fatal"]
        ),
        concurrency_keys=["site:a", "site:b"],
        on_target_failure="continue",
        selector="#btn",
    )
    assert (await create(api, task=task_template)).task == task_template
    trigger = (await api.schedules.TriggerSchedule(pb.TriggerScheduleRequest(schedule_id="s"))).trigger
    task = await api.get(trigger.task_id)
    for field, value in task_template.ListFields():
        if field.name != "deadline_secs":
            assert getattr(task, field.name) == value, field.name
    assert task.deadline.ToMicroseconds() - task.created_at.ToMicroseconds() == 90_000_000


async def test_empty_params_differ_from_missing_params(api):
    assert (await create(api, task=template(params=Struct()))).task.HasField("params")
    assert not (await create(api, schedule_id="t")).task.HasField("params")


async def test_a_schedule_shows_the_default_retry_policy_of_its_action(start_api):
    api = await start_api(default_retry=lambda _: history.RetryPolicy(max_attempts=7))
    assert (await create(api)).task.retry_policy.max_attempts == 7


async def test_a_repeated_create_returns_the_first_schedule(api):
    params = Struct()
    params.update({"a": 1, "b": {"c": 2, "d": 3}})
    reordered = Struct()
    reordered.update({"b": {"d": 3, "c": 2}, "a": 1})
    first = await create(api, task=template(params=params, requires=["x", "y"]))
    assert await create(api, task=template(params=reordered, requires=["y", "x"])) == first


@pytest.mark.parametrize(
    "fields",
    [{"interval": "11m"}, {"cron": "* * * * *"}, {"paused": True}, {"display_name": "x"}, {"task": template(ref="r")}],
)
async def test_an_id_can_be_used_for_one_schedule(api, refused, fields):
    await create(api)
    refusal = await refused(api.schedules.CreateSchedule(create_request(**fields)))
    assert refusal.code == "already_exists"
    assert refusal.message == "scheduleId: is that of another schedule"


async def test_a_schedule_over_the_limit_is_refused(start_api, refused):
    api = await start_api(max_schedules=1)
    first = await create(api)
    refusal = await refused(api.schedules.CreateSchedule(create_request(schedule_id="another")))
    assert (refusal.code, refusal.message) == ("queue_full", "rejected: too many schedules")
    assert refusal.status is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await create(api) == first
    response = await api.schedules.ListSchedules(pb.ListSchedulesRequest())
    assert list(response.schedules) == [first]


async def test_a_schedule_without_an_id_gets_one(api):
    first, second = [await create(api, schedule_id=None) for _ in range(2)]
    assert first.schedule_id.startswith("sch_")
    assert first.schedule_id != second.schedule_id


async def test_schedules_belong_to_a_namespace(api, refused):
    await create(api)
    elsewhere = (("taskyard-namespace", "other"),)
    request = pb.GetScheduleRequest(schedule_id="s")
    assert (await refused(api.schedules.GetSchedule(request, metadata=elsewhere))).code == "not_found"
    assert not (await api.schedules.ListSchedules(pb.ListSchedulesRequest(), metadata=elsewhere)).schedules
    assert not (await api.schedules.ListTriggers(pb.ListTriggersRequest(), metadata=elsewhere)).triggers


async def test_schedules_are_listed_oldest_first_page_by_page(api):
    for number in range(5):
        await create(api, schedule_id=f"s{number}")
    ids, token = [], ""
    while True:
        page = await api.schedules.ListSchedules(pb.ListSchedulesRequest(page_size=2, page_token=token))
        ids.append([schedule.schedule_id for schedule in page.schedules])
        token = page.next_page_token
        if not token:
            break
    assert ids == [["s0", "s1"], ["s2", "s3"], ["s4"]]


async def test_previews_follow_changes_of_local_time(api):
    await create(api, cron="30 2 * * *", time_zone="Europe/Berlin")
    request = pb.PreviewScheduleRequest(schedule_id="s", count=3, after=instant("2026-03-27T12:00:00Z"))
    assert iso_times((await api.schedules.PreviewSchedule(request)).due_at) == [
        "2026-03-28T01:30:00+00:00",
        "2026-03-29T01:00:00+00:00",
        "2026-03-30T00:30:00+00:00",
    ]


async def test_a_preview_ends_after_the_last_due_time(api):
    await create(api, at=instant("2100-01-01T00:00:00Z"))
    request = pb.PreviewScheduleRequest(schedule_id="s", count=1000)
    assert iso_times((await api.schedules.PreviewSchedule(request)).due_at) == ["2100-01-01T00:00:00+00:00"]


async def test_a_preview_has_ten_times_by_default(api):
    await create(api)
    assert len((await api.schedules.PreviewSchedule(pb.PreviewScheduleRequest(schedule_id="s"))).due_at) == 10
    request = pb.PreviewScheduleRequest(schedule_id="s", count=1000)
    assert len((await api.schedules.PreviewSchedule(request)).due_at) == 1000


@pytest.mark.parametrize("count", [0, 1001])
async def test_the_count_of_a_preview_is_limited(api, refused, count):
    await create(api)
    refusal = await refused(api.schedules.PreviewSchedule(pb.PreviewScheduleRequest(schedule_id="s", count=count)))
    assert refusal.message == f"count: must be 1 to 1000, is {count}"


# Updates


async def test_an_update_replaces_only_the_fields_that_are_set(api):
    before = await create(api, cron="0 9 * * *", display_name="x", overlap=pb.Overlap.wait)
    after = await update(api, time_zone="Asia/Tokyo", catch_up=pb.CatchUp.none)
    assert (after.time_zone, after.catch_up) == ("Asia/Tokyo", pb.CatchUp.none)
    assert after.next_due_at != before.next_due_at
    for name in ("schedule_id", "display_name", "cron", "overlap", "task", "created_at"):
        assert getattr(after, name) == getattr(before, name), name


async def test_an_update_without_changes_changes_nothing(api):
    before = await create(api)
    assert await update(api) == before
    assert await update(api, interval="10m") == before


async def test_a_cadence_of_another_kind_replaces_the_first(api):
    await create(api, cron="0 9 * * *", time_zone="Asia/Tokyo")
    assert (await update(api, interval="1h")).WhichOneof("cadence") == "interval"
    once = await update(api, at=instant("2100-01-01T00:00:00Z"))
    assert iso_times([once.at, once.next_due_at]) == ["2100-01-01T00:00:00+00:00"] * 2
    again = await update(api, cron="0 9 * * *")
    assert (again.cron, again.time_zone) == ("0 9 * * *", "Asia/Tokyo")


async def test_a_mask_selects_the_fields_to_replace(api):
    before = await create(api, display_name="x", overlap=pb.Overlap.wait)
    after = await update(api, "overlap", overlap=pb.Overlap.allow, display_name="not named", interval="1s")
    assert after.overlap == pb.Overlap.allow
    assert (after.display_name, after.interval) == (before.display_name, before.interval)


async def test_a_field_in_the_mask_that_is_not_set_gets_its_default(api):
    await create(
        api,
        display_name="x",
        time_zone="Asia/Tokyo",
        overlap=pb.Overlap.wait,
        catch_up=pb.CatchUp.all,
        catch_up_window_secs=5,
    )
    after = await update(api, "display_name", "time_zone", "overlap", "catch_up", "catch_up_window_secs")
    assert not after.HasField("display_name")
    assert (after.time_zone, after.overlap, after.catch_up, after.catch_up_window_secs) == (
        "UTC",
        pb.Overlap.skip,
        pb.CatchUp.last,
        86_400,
    )


@pytest.mark.parametrize(
    ("mask", "fields", "message"),
    [
        (["cron"], {}, "cron: is required"),
        (["cron"], {"interval": "1h"}, "cron: is required"),
        (["task"], {}, "task: is required"),
        (["task.action"], {}, 'updateMask: "task.action" is not a field that can be replaced'),
        (["schedule_id"], {}, 'updateMask: "schedule_id" is not a field that can be replaced'),
        ([], {"interval": "never"}, 'interval: must be from 1s to 3650d, such as 30s, 10m, 1.5h or 1d, got "never"'),
        ([], {"time_zone": "Mars/Base"}, 'timeZone: unknown time zone "Mars/Base"'),
        ([], {"at": instant("2001-01-01T00:00:00Z")}, "at: must be in the future"),
        ([], {"overlap": 77}, "overlap: must be among skip, wait, allow, replace"),
        ([], {"catch_up": 77}, "catchUp: must be among last, all, none"),
        ([], {"task": template(agent_id="")}, "task.agentId: is required"),
    ],
)
async def test_an_invalid_update_names_the_field_and_changes_nothing(api, refused, mask, fields, message):
    before = await create(api)
    refusal = await refused(update(api, *mask, **fields))
    assert (refusal.code, refusal.message) == ("bad_request", message)
    assert (await api.schedules.GetSchedule(pb.GetScheduleRequest(schedule_id="s"))).schedule == before


# Invalid schedules


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task": None}, "task: is required"),
        ({"task": template(action="")}, "task.action: is required"),
        ({"task": template(deadline_secs=0)}, "task.deadlineSecs: must be at least 1"),
        ({"task": template(callback_url="file:///x")}, "task.callbackUrl: must be an http or https URL"),
        ({"task": template(requires=[""])}, "task.requires: is required"),
        ({"task": template(on_target_failure="block")}, "task.onTargetFailure: needs target"),
        (
            {"schedule_id": "../x"},
            "scheduleId: must be 1 to 128 letters, digits and . _ ~ -, and begin with a letter or digit",
        ),
        (
            {"schedule_id": "x" * 129},
            "scheduleId: must be 1 to 128 letters, digits and . _ ~ -, and begin with a letter or digit",
        ),
        ({"display_name": "a\nb"}, "displayName: must not hold control characters"),
        ({"cron": "0 0 30 2 *"}, "cron: never comes: none of its months has such a day of the month"),
        ({"cron": ""}, 'cron: must be five fields (minute, hour, day of the month, month, day of the week), got ""'),
        ({"time_zone": "../../etc/passwd"}, 'timeZone: unknown time zone "../../etc/passwd"'),
        ({"at": Timestamp(seconds=253_402_300_800)}, "at: must be a time before the year 10000"),
        (
            {"at": Timestamp(seconds=253_402_300_799, nanos=999_999_999)},
            "at: must be a time before the year 10000",
        ),
        ({"at": Timestamp(seconds=-62_135_596_801)}, "at: must be a time after the year 0"),
        ({"at": Timestamp(seconds=0)}, "at: must be in the future"),
        ({"overlap": 77}, "overlap: must be among skip, wait, allow, replace"),
    ],
)
async def test_an_invalid_create_names_the_field_and_creates_nothing(api, refused, fields, message):
    refusal = await refused(api.schedules.CreateSchedule(create_request(**fields)))
    assert (refusal.code, refusal.message) == ("bad_request", message)
    assert not (await api.schedules.ListSchedules(pb.ListSchedulesRequest())).schedules


async def test_a_schedule_needs_a_cadence(api, refused):
    request = pb.CreateScheduleRequest(task=template())
    refusal = await refused(api.schedules.CreateSchedule(request))
    assert refusal.message == "cron: a schedule needs one of cron, interval and at"


async def test_params_of_a_template_have_the_size_limit_of_payloads(start_api, refused):
    api = await start_api(max_payload_bytes=100)
    params = Struct()
    params.update({"text": "x" * 200})
    refusal = await refused(api.schedules.CreateSchedule(create_request(task=template(params=params))))
    assert refusal.code == "too_large"
    assert refusal.message.startswith("task.params: ")


@every_case(
    "name",
    [
        "GetSchedule",
        "UpdateSchedule",
        "DeleteSchedule",
        "PauseSchedule",
        "ResumeSchedule",
        "TriggerSchedule",
        "PreviewSchedule",
    ],
)
async def test_an_unknown_schedule_is_not_found(api, refused, name):
    refusal = await refused(getattr(api.schedules, name)(getattr(pb, f"{name}Request")(schedule_id="nobody")))
    assert (refusal.code, refusal.message) == ("not_found", "schedule not found")


async def test_changes_of_a_schedule_are_logged(api, log_lines):
    await create(api)
    await update(api, interval="1h")
    for name in ("PauseSchedule", "ResumeSchedule", "DeleteSchedule"):
        await getattr(api.schedules, name)(getattr(pb, f"{name}Request")(schedule_id="s"))
    lines = [line["event"] for line in log_lines if line.get("schedule_id") == "s"]
    assert lines == [f"schedule_{what}" for what in ("created", "updated", "paused", "resumed", "deleted")]
