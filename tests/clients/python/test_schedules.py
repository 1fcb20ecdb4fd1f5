"""The calls about schedules, against a real server: what they return and raise."""

import asyncio
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from taskyard import (
    AlreadyExists,
    BadRequest,
    CatchUp,
    ClientClosed,
    NewTask,
    NotFound,
    Overlap,
    RetryPolicy,
    TaskState,
    TooLarge,
    TriggerState,
)
from taskyard_server.core import errors as refusals

FUTURE = datetime(2100, 1, 1, 9, tzinfo=UTC)


@pytest.fixture
def schedules(client):
    return client.schedules


async def ids(items):
    return [item.id async for item in items]


@pytest.fixture
def lose_first_answer(server, monkeypatch):
    """Lets a command of the engine succeed, but loses its first answer. Returns the calls."""

    def lose(name):
        real, calls = getattr(server.engine.schedules, name), []

        async def call(*args, show):
            answer = await real(*args, show=show)
            calls.append(args)
            if len(calls) == 1:
                raise refusals.Unavailable("gone")
            return answer

        monkeypatch.setattr(server.engine.schedules, name, call)
        return calls

    return lose


# Creating


async def test_a_schedule_has_the_documented_defaults(schedules):
    made = await schedules.create("note", interval="10m")
    assert made.next_due_at == made.created_at + timedelta(minutes=10)
    assert (made.interval, made.cron, made.at, made.time_zone) == ("10m", None, None, "UTC")
    assert (made.overlap, made.catch_up, made.catch_up_window) == (Overlap.SKIP, CatchUp.LAST, timedelta(days=1))
    assert (made.paused, made.display_name, made.last_fired_at, made.last_task_id) == (False, None, None, None)
    assert made.task == NewTask("note", agent_id="ann")
    assert await schedules.get(made.id) == made


async def test_all_parts_of_a_schedule_survive_the_round_trip(schedules):
    made = await schedules.create(
        "note",
        cron="0 9 * * 1-5",
        time_zone="Europe/Berlin",
        schedule_id="daily",
        display_name="Every morning",
        overlap="wait",
        catch_up=CatchUp.ALL,
        catch_up_window=timedelta(hours=1),
        paused=True,
    )
    assert (made.id, made.cron, made.time_zone) == ("daily", "0 9 * * 1-5", "Europe/Berlin")
    assert (made.display_name, made.overlap, made.catch_up) == ("Every morning", Overlap.WAIT, CatchUp.ALL)
    assert (made.catch_up_window, made.paused, made.next_due_at) == (timedelta(hours=1), True, None)


async def test_a_time_zone_may_be_a_zoneinfo(schedules):
    made = await schedules.create("note", cron="0 9 * * *", time_zone=ZoneInfo("Europe/Berlin"))
    assert made.time_zone == "Europe/Berlin"
    changed = await schedules.update(made.id, time_zone=ZoneInfo("Asia/Tokyo"))
    assert changed.time_zone == "Asia/Tokyo"


async def test_all_fields_of_the_task_survive_the_round_trip(schedules):
    fields = {
        "params": {"x": 1, "deep": {"list": [1, None, True, {}]}},
        "tab_id": "tab",
        "ref": "e14",
        "priority": -3,
        "deadline": timedelta(seconds=90),
        "callback_url": "https://example.com/cb",
        "project": "p",
        "requires": ("gpu", "x86"),
        "labels": {"a": "b"},
        "target": "t",
        "token_limit": 7,
        "retry_policy": RetryPolicy(max_attempts=3, first_delay=timedelta(milliseconds=5), non_retryable_codes=("no",)),
        "agent_id": "bob",
    }
    made = await schedules.create("note", interval=60, **fields)
    assert made.task == NewTask("note", **fields)
    again = await schedules.create(made.task, interval=60, priority=5)
    assert again.task == NewTask("note", **fields | {"priority": 5})
    assert again.id != made.id


@pytest.mark.parametrize(
    ("interval", "text"),
    [("1.5h", "1.5h"), (90, "90s"), (1.25, "1.25s"), (timedelta(days=100), "8640000s"), (0.1 + 0.2 + 1, "1.3s")],
)
async def test_an_interval_may_be_a_text_or_a_span(schedules, interval, text):
    assert (await schedules.create("note", interval=interval)).interval == text


async def test_a_schedule_may_be_due_once(schedules):
    made = await schedules.create("note", at=FUTURE)
    assert made.at == made.next_due_at == FUTURE
    assert await schedules.preview(made.id) == [FUTURE]


@pytest.mark.parametrize("cadence", [{}, {"cron": "* * * * *", "interval": 60}, {"interval": 60, "at": FUTURE}])
async def test_exactly_one_cadence_is_required(schedules, cadence):
    with pytest.raises(ValueError, match="exactly one"):
        await schedules.create("note", **cadence)


SINGLE = {
    "hold": True,
    "not_before": timedelta(seconds=5),
    "idempotency_key": "k",
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "deadline": FUTURE,
}


@pytest.mark.parametrize("name", SINGLE)
async def test_fields_of_single_tasks_are_refused_by_name(schedules, name):
    with pytest.raises(ValueError, match=f"^{name}: "):
        await schedules.create("note", interval=60, **{name: SINGLE[name]})
    assert await ids(schedules.list()) == []


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"at": datetime(2100, 1, 1)}, "time zone"),
        ({"interval": 60, "overlap": "never"}, "never"),
        ({"interval": 60, "catch_up": "never"}, "never"),
        ({"interval": 60, "catch_up_window": 1.5}, "catch_up_window"),
        ({"interval": 60, "deadline": timedelta(milliseconds=1)}, "deadline"),
    ],
)
async def test_values_that_the_api_cannot_express_are_refused_before_they_are_sent(schedules, parts, text):
    with pytest.raises(ValueError, match=text):
        await schedules.create("note", **parts)
    assert await ids(schedules.list()) == []


@pytest.mark.parametrize(
    ("parts", "kind", "text"),
    [
        ({"cron": "61 * * * *"}, BadRequest, "cron"),
        ({"interval": -5}, BadRequest, "interval"),
        ({"at": datetime(2020, 1, 1, tzinfo=UTC)}, BadRequest, "at"),
        ({"cron": "* * * * *", "time_zone": "Mars/Base"}, BadRequest, "timeZone"),
        ({"interval": 60, "params": {"x": "x" * 2_000_001}}, TooLarge, "params"),
    ],
)
async def test_a_refusal_of_the_server_raises_the_error_of_its_code(schedules, parts, kind, text):
    with pytest.raises(kind, match=text):
        await schedules.create("note", **parts)


async def test_the_same_schedule_under_the_same_id_is_created_once_and_another_is_refused(schedules):
    first, again = [await schedules.create("note", interval="10m", schedule_id="s") for _ in range(2)]
    assert again == first
    with pytest.raises(AlreadyExists):
        await schedules.create("note", interval="11m", schedule_id="s")


async def test_a_create_whose_answer_was_lost_makes_one_schedule(schedules, lose_first_answer):
    calls = lose_first_answer("create")
    made = await schedules.create("note", interval="10m")
    assert len(calls) == 2
    assert await ids(schedules.list()) == [made.id]


# Reading


async def test_schedules_are_listed_oldest_first_over_all_pages(schedules):
    made = [(await schedules.create("note", interval=60)).id for _ in range(5)]
    assert await ids(schedules.list(page_size=2)) == made


async def test_a_preview_counts_from_the_given_time(schedules):
    made = await schedules.create("note", cron="30 8 * * *", time_zone="Asia/Kolkata")
    times = await schedules.preview(made.id, 2, after=FUTURE)
    assert times == [datetime(2100, 1, 2, 3, tzinfo=UTC), datetime(2100, 1, 3, 3, tzinfo=UTC)]
    assert len(await schedules.preview(made.id)) == 10
    with pytest.raises(ValueError, match="time zone"):
        await schedules.preview(made.id, after=datetime(2100, 1, 1))


# Changing


async def test_an_update_changes_only_what_is_given(schedules):
    made = await schedules.create("note", cron="0 9 * * *", schedule_id="s", display_name="x", overlap="wait")
    changed = await schedules.update("s", time_zone="Asia/Tokyo", catch_up_window=5, task="other")
    assert (changed.cron, changed.display_name, changed.overlap) == ("0 9 * * *", "x", Overlap.WAIT)
    assert (changed.time_zone, changed.catch_up_window) == ("Asia/Tokyo", timedelta(seconds=5))
    assert changed.task == NewTask("other", agent_id="ann")
    assert changed.updated_at > made.updated_at
    assert await schedules.update("s") == changed


async def test_an_update_with_none_restores_the_default(schedules):
    plain = await schedules.create("note", cron="0 9 * * *")
    parts = {
        "time_zone": "Asia/Tokyo",
        "display_name": "x",
        "overlap": Overlap.REPLACE,
        "catch_up": CatchUp.NONE,
        "catch_up_window": 5,
    }
    made = await schedules.create("note", cron="0 9 * * *", **parts)
    cleared = await schedules.update(made.id, **dict.fromkeys(parts))
    for name in (*parts, "next_due_at"):
        assert getattr(cleared, name) == getattr(plain, name), name


@pytest.mark.parametrize("cadence", [{"cron": "* * * * *"}, {"interval": timedelta(minutes=5)}, {"at": FUTURE}])
async def test_an_update_replaces_one_kind_of_cadence_with_another(schedules, cadence):
    made = await schedules.create("note", interval="10m")
    changed = await schedules.update(made.id, **cadence)
    shown = {name: getattr(changed, name) for name in ("cron", "interval", "at") if getattr(changed, name) is not None}
    assert shown == ({"interval": "300s"} if "interval" in cadence else cadence)


async def test_a_malformed_update_changes_nothing(schedules):
    made = await schedules.create("note", interval="10m")
    with pytest.raises(ValueError, match="at most one"):
        await schedules.update(made.id, cron="* * * * *", at=FUTURE)
    for name in ("interval", "task"):
        with pytest.raises(BadRequest, match=f"{name}: is required"):
            await schedules.update(made.id, **{name: None})
    with pytest.raises(ValueError, match="paused"):
        await schedules.update(made.id, paused=True)
    assert await schedules.get(made.id) == made


async def test_a_schedule_is_paused_and_resumed(schedules):
    made = await schedules.create("note", interval="10m")
    paused = await schedules.pause(made.id)
    assert (paused.paused, paused.next_due_at) == (True, None)
    resumed = await schedules.resume(made.id, CatchUp.LAST)
    assert (resumed.paused, resumed.next_due_at) == (False, made.next_due_at)
    with pytest.raises(ValueError, match="never"):
        await schedules.resume(made.id, "never")


async def test_a_deleted_schedule_is_not_found(schedules):
    made = await schedules.create("note", interval="10m")
    assert await schedules.delete(made.id) is None
    for call in (schedules.get, schedules.update, schedules.delete, schedules.pause, schedules.resume):
        with pytest.raises(NotFound):
            await call(made.id)
    for call in (schedules.trigger, schedules.preview, schedules.get_trigger):
        with pytest.raises(NotFound):
            await call(made.id)


async def test_a_delete_whose_answer_was_lost_succeeds(schedules, server, monkeypatch):
    made = await schedules.create("note", interval="10m")
    real, tries = server.engine.schedules.delete, []

    async def loses_its_answer(*args):
        tries.append(args)
        await real(*args)
        raise refusals.Unavailable("gone")

    monkeypatch.setattr(server.engine.schedules, "delete", loses_its_answer)
    await schedules.delete(made.id)
    assert len(tries) == 2
    assert await ids(schedules.list()) == []


# Triggers


async def test_a_triggered_schedule_runs_its_task_even_while_it_is_paused(server, client, schedules):
    made = await schedules.create("note", interval="10m", paused=True, params={"x": 1})
    trigger = await schedules.trigger(made.id)
    assert (trigger.schedule_id, trigger.state, trigger.state.ended) == (made.id, TriggerState.EXECUTING, False)
    task = await client.get(trigger.task_id)
    assert (task.action, task.params, task.idempotency_key) == ("note", {"x": 1}, trigger.id)
    assert task.traceparent == trigger.traceparent
    shown = await schedules.get(made.id)
    assert (shown.last_task_id, shown.last_fired_at) == (task.id, trigger.fired_at)
    await server.complete(await server.run())
    assert (await client.wait(task.id)).state is TaskState.DONE
    ended = await schedules.get_trigger(trigger.id)
    assert (ended.state, ended.reason) == (TriggerState.COMPLETED, None)
    assert ended.state.ended
    assert ended.due_at <= ended.fired_at <= ended.ended_at


async def test_a_skipped_trigger_has_a_reason(schedules):
    made = await schedules.create("note", interval="10m")
    await schedules.trigger(made.id)
    skipped = await schedules.trigger(made.id)
    assert (skipped.state, skipped.task_id, skipped.fired_at) == (TriggerState.SKIPPED, None, None)
    assert skipped.reason
    assert skipped.state.ended


async def test_one_key_makes_one_trigger_and_calls_without_a_key_make_one_each(schedules):
    made = await schedules.create("note", interval="10m", overlap="allow")
    first, again = [await schedules.trigger(made.id, "mine") for _ in range(2)]
    assert again == first
    assert first.idempotency_key == "mine"
    others = {(await schedules.trigger(made.id)).id for _ in range(2)}
    assert len(others - {first.id}) == 2


async def test_a_trigger_whose_answer_was_lost_fires_once(server, schedules, lose_first_answer):
    made = await schedules.create("note", interval="10m", overlap="allow")
    calls = lose_first_answer("trigger")
    trigger = await schedules.trigger(made.id)
    assert len(calls) == 2
    assert await ids(schedules.triggers()) == [trigger.id]
    assert await server.made() == 1


async def test_triggers_are_listed_latest_due_first_by_filters_and_pages(schedules):
    one, other = [await schedules.create("note", interval="10m") for _ in range(2)]
    made = [await schedules.trigger(one.id) for _ in range(3)] + [await schedules.trigger(other.id)]
    latest = [trigger.id for trigger in reversed(made)]
    assert await ids(schedules.triggers(page_size=3)) == latest
    assert await ids(schedules.triggers(one.id)) == latest[1:]
    assert await ids(schedules.triggers(states=[TriggerState.EXECUTING])) == [latest[0], latest[3]]
    assert await ids(schedules.triggers(one.id, states=["skipped", "failed"])) == latest[1:3]
    minute = timedelta(minutes=1)
    first, last = made[0].due_at, made[-1].due_at
    assert await ids(schedules.triggers(due_from=first - minute, due_before=last + minute)) == latest
    assert await ids(schedules.triggers(due_from=last + minute)) == []
    assert await ids(schedules.triggers(due_before=first - minute)) == []
    with pytest.raises(TypeError, match="states"):
        await ids(schedules.triggers(states="failed"))
    with pytest.raises(BadRequest, match="nonsense"):
        await ids(schedules.triggers(states=["nonsense"]))


# Outages and namespaces


async def test_calls_about_schedules_sit_out_a_restart_of_the_server(server, schedules):
    made = await schedules.create("note", interval="10m")
    await server.stop()
    calls = (
        schedules.create("note", at=FUTURE),
        schedules.trigger(made.id),
        schedules.update(made.id, cron="0 9 * * *"),
    )
    waiting = asyncio.gather(*calls)
    await asyncio.sleep(0)
    await server.start()
    once, trigger, changed = await waiting
    assert (once.at, trigger.schedule_id, changed.cron) == (FUTURE, made.id, "0 9 * * *")


async def test_calls_of_a_closed_client_raise_client_closed(client):
    await client.close()
    for call in (client.schedules.get("s"), client.schedules.trigger("s"), client.schedules.delete("s")):
        with pytest.raises(ClientClosed, match="closed"):
            await call


async def test_schedules_belong_to_the_namespace_of_the_client(server, schedules, open_client):
    await schedules.create("note", interval="10m")
    assert await ids(open_client(server, namespace="other").schedules.list()) == []


# Put


async def test_put_creates_a_schedule_and_then_replaces_all_of_its_parts(client):
    first = await client.schedules.put("nightly", "note", cron="0 3 * * *", time_zone="Asia/Tokyo", display_name="n")
    assert (first.id, first.cron, first.time_zone, first.display_name) == ("nightly", "0 3 * * *", "Asia/Tokyo", "n")
    await client.schedules.pause("nightly")
    second = await client.schedules.put("nightly", NewTask("other"), interval="1h", priority=3)
    assert (second.cron, second.interval, second.time_zone, second.display_name) == (None, "1h", "UTC", None)
    assert (second.task.action, second.task.priority, second.paused) == ("other", 3, True)
    assert second.created_at == first.created_at


async def test_put_needs_exactly_one_cadence(client):
    for cadence in ({}, {"cron": "0 3 * * *", "interval": "1h"}):
        with pytest.raises(ValueError, match="exactly one must be given"):
            await client.schedules.put("s", "note", **cadence)
