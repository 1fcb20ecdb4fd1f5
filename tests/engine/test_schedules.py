"""Schedules in every engine: firing as time passes and as the wall clock jumps, listeners, listings, recovery."""

import pytest
import structlog

from taskyard.v1.schedule_pb2 import ListTriggersRequest, PreviewScheduleRequest
from taskyard_server.cadence import Once, parse_cron, parse_interval
from taskyard_server.conversion import requests
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.core.schedules.schedule import CatchUp, Overlap, ScheduleSpec, TriggerState
from taskyard_server.engine.views import TriggerFilter
from tests.live import live

NS = "default"
TICK = 0.125


class Wall:
    """A wall clock that follows the clock of the engine and jumps where a test sets `ahead`."""

    def __init__(self, clock):
        self._clock = clock
        self.ahead = 0.0

    def __call__(self):
        return self._clock.now + self.ahead


@pytest.fixture
def wall(clock):
    return Wall(clock)


@pytest.fixture
def spec(submission):
    """Makes schedule specifications. The cadence is an interval, a cron expression or a time."""

    def make(when, **fields):
        if isinstance(when, float):
            cadence = Once(when)
        else:
            cadence = parse_cron(when, "UTC") if " " in when else parse_interval(when)
        return ScheduleSpec(cadence, "UTC", submission(action="report"), **{"overlap": Overlap.ALLOW, **fields})

    return make


async def triggers(engine, trigger_filter=None, limit=1000, before=None):
    return (await engine.schedules.list_triggers(NS, trigger_filter or TriggerFilter(), before, limit)).triggers


async def test_an_interval_fires_by_itself(engine, clock, spec):
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    await clock.advance(10)
    assert await triggers(engine) == []
    await clock.advance(TICK)
    (trigger,) = await triggers(engine)
    assert trigger.state is TriggerState.EXECUTING
    assert (await engine.tasks.get(NS, trigger.task_id, show=live)).action == "report"


async def test_a_cron_expression_fires_at_the_full_minute(engine, clock, spec):
    # Tests start at 22:13:20.
    await engine.schedules.create(NS, "s", spec("*/2 * * * *"), show=live)
    await clock.advance(40 + TICK)
    assert len(await triggers(engine)) == 1
    await clock.advance(120)
    assert [trigger.due_at - clock.now + TICK for trigger in await triggers(engine)] == [0, -120]


async def test_a_single_time_fires_once(engine, clock, spec):
    await engine.schedules.create(NS, "s", spec(clock.now + 5), show=live)
    await clock.advance(5 + TICK)
    await clock.advance(86_400)
    assert len(await triggers(engine)) == 1
    assert (await engine.schedules.get(NS, "s", show=live)).next_due is None


async def test_the_wall_clock_is_read_at_every_poll(make_engine, clock, wall, spec):
    engine = make_engine(wall=wall, poll_secs=30)
    await engine.schedules.create(NS, "s", spec(clock.now + 3600), show=live)
    wall.ahead = 3590.0
    await clock.advance(29)
    assert await triggers(engine) == []
    await clock.advance(1 + TICK)
    assert len(await triggers(engine)) == 1


async def test_a_wall_clock_that_goes_back_fires_nothing_twice(make_engine, clock, wall, spec):
    engine = make_engine(wall=wall, poll_secs=30)
    await engine.schedules.create(NS, "s", spec("* * * * *"), show=live)
    await clock.advance(40 + TICK)
    for _ in range(20):
        await clock.advance(30)
    assert len(await triggers(engine)) == 11
    wall.ahead = -600.0
    for _ in range(20):
        await clock.advance(30)
    assert len(await triggers(engine)) == 11
    await clock.advance(60)
    assert len(await triggers(engine)) == 12


async def test_a_wall_clock_that_was_years_ahead_does_not_stop_a_cron_schedule(make_engine, clock, wall, spec):
    engine = make_engine(wall=wall, poll_secs=30)
    wall.ahead = 10 * 365 * 86_400.0
    await engine.schedules.create(NS, "s", spec("* * * * *"), show=live)
    await clock.advance(60)
    wall.ahead = 0.0
    await clock.advance(30)
    assert (await engine.schedules.get(NS, "s", show=live)).next_due - clock.now <= 60
    before = len(await triggers(engine))
    for _ in range(4):
        await clock.advance(30 + TICK)
    assert len(await triggers(engine)) == before + 2


async def test_a_jump_of_the_wall_clock_does_not_move_intervals(make_engine, clock, wall, spec):
    engine = make_engine(wall=wall, poll_secs=30)
    await engine.schedules.create(NS, "s", spec("1m"), show=live)
    for ahead in (86_400.0, -86_400.0):
        wall.ahead = ahead
        await clock.advance(60 + TICK)
    assert len(await triggers(engine)) == 2


@pytest.mark.parametrize(("policy", "fired"), [(CatchUp.LAST, 1), (CatchUp.NONE, 0), (CatchUp.ALL, 10)])
async def test_the_catch_up_policy_decides_what_fires_after_an_outage(make_engine, clock, wall, spec, policy, fired):
    engine = make_engine(wall=wall, poll_secs=30, max_queued_triggers=100, max_jitter_secs=10)
    await engine.schedules.create(NS, "s", spec("* * * * *", catch_up=policy), show=live)
    # The jump ends at 22:23:40, so that ten due times are late by more than a poll.
    wall.ahead = 590.0
    await clock.advance(30 + TICK)
    await clock.advance(10 + TICK)
    assert len(await triggers(engine, TriggerFilter(states=frozenset({TriggerState.EXECUTING})))) == fired


async def test_a_listener_receives_trigger_events_in_order(engine, clock, spec):
    received = []
    stop = engine.schedules.subscribe(
        lambda ns, events: received.extend((ns, trigger.kind.value) for trigger in events)
    )
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    await clock.advance(10 + TICK)
    await engine.tasks.cancel(NS, (await triggers(engine))[0].task_id, show=live)
    await clock.run_pending()
    stop()
    await clock.advance(10 + TICK)
    assert received == [(NS, "due"), (NS, "claimed"), (NS, "failed")]


async def test_a_failing_listener_does_not_stop_triggers(engine, clock, spec):
    def broken(namespace, events):
        raise RuntimeError(namespace, events)

    engine.schedules.subscribe(broken)
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    for _ in range(2):
        await clock.advance(10 + TICK)
    assert len(await triggers(engine)) == 2


async def test_a_page_starts_where_the_previous_one_ended(engine, clock, spec):
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    for _ in range(5):
        await clock.advance(10 + TICK)
    all_ids = [trigger.id for trigger in await triggers(engine)]
    ids, before = [], None
    while True:
        page = await engine.schedules.list_triggers(NS, TriggerFilter(), before, 2)
        ids += [trigger.id for trigger in page.triggers]
        before = page.next_before
        if before is None:
            break
    assert ids == all_ids
    assert len(ids) == 5


async def test_a_preview_starts_now_or_at_a_given_time(engine, clock, spec):
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    now = clock.now
    assert await engine.schedules.preview(NS, "s", 3, None) == [now + 10, now + 20, now + 30]
    assert await engine.schedules.preview(NS, "s", 1, now + 95) == [now + 100]


async def test_an_unused_namespace_has_no_schedules(engine):
    assert await engine.schedules.list_schedules("unused", 0, show=live) == []
    assert await engine.schedules.list_triggers("unused", TriggerFilter(), None, 10) is not None
    for call in (engine.schedules.get, engine.schedules.pause, engine.schedules.get_trigger):
        with pytest.raises(NotFound):
            await call("unused", "s", show=live)
    with pytest.raises(NotFound):
        await engine.schedules.delete("unused", "s")
    assert engine.admin.namespaces() == []


async def test_a_draining_engine_fires_nothing_and_refuses_new_schedules(engine, clock, spec):
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    engine.admin.drain()
    await clock.advance(10 + TICK)
    assert [trigger.state for trigger in await triggers(engine)] == [TriggerState.PENDING]
    with pytest.raises(Unavailable):
        await engine.schedules.create(NS, "t", spec("10s"), show=live)
    with pytest.raises(Unavailable):
        await engine.schedules.trigger(NS, "s", None, None, show=live)


async def test_jitter_is_the_same_for_the_same_seed(make_engine, clock, spec):
    fire_times = []
    for _ in range(2):
        engine = make_engine(seed=7, max_concurrent=100)
        for number in range(6):
            await engine.schedules.create(NS, f"s{number}", spec("10s"), show=live)
        begin = clock.now
        await clock.advance(10 + TICK)
        fire_times.append([trigger.fire_at - begin for trigger in await triggers(engine)])
        # Jitter never exceeds the next due time.
        assert all(10 <= at <= 20 + TICK for at in fire_times[-1])
    assert fire_times[0] == fire_times[1]
    assert len(set(fire_times[0])) == 6


async def test_the_limit_that_triggers_wait_for_is_logged_once(make_engine, clock, spec):
    engine = make_engine(max_queued_triggers=1)
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            await clock.advance(10 + TICK)
    received = [line["raise_key"] for line in lines if line["event"] == "limit_reached"]
    assert received == ["daemon.maxQueuedTriggers"]


@pytest.mark.parametrize(("policy", "fired"), [(CatchUp.NONE, 0), (CatchUp.LAST, 1), (CatchUp.ALL, 3)])
async def test_a_resumed_schedule_shows_a_future_due_time(make_engine, clock, spec, policy, fired):
    engine = make_engine(max_concurrent=10)
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    await engine.schedules.pause(NS, "s", show=live)
    await clock.advance(35)
    schedule = await engine.schedules.resume(NS, "s", policy, show=live)
    assert schedule.next_due == clock.now + 5
    executing = await triggers(engine, TriggerFilter(states=frozenset({TriggerState.EXECUTING})))
    assert len(executing) == fired


@pytest.mark.parametrize("interval", ["1.1s", "2s", "1.3s"])
@pytest.mark.parametrize("secs", [0.1, 0.123456, 1 / 3])
async def test_a_due_time_from_a_response_can_be_used_in_a_request(make_engine, clock, spec, secs, interval):
    engine = make_engine(max_concurrent=100)
    clock.now += secs
    schedule = await engine.schedules.create(NS, "s", spec(interval), show=live)
    for _ in range(40):
        await clock.advance(schedule.next_due + TICK - clock.now)
    made = await triggers(engine)
    following = None
    for place, trigger in enumerate(made, 1):
        shown = timestamp(trigger.due_at)
        asked = ListTriggersRequest(due_from=shown, due_before=shown)
        due_from = requests.bound(asked, "due_from", "dueFrom")
        due_before = requests.bound(asked, "due_before", "dueBefore")
        assert len(await triggers(engine, TriggerFilter(due_from=due_from))) == place
        assert len(await triggers(engine, TriggerFilter(due_before=due_before))) == 40 - place
        after = requests.last_before(PreviewScheduleRequest(after=shown), "after", "after")
        (previewed,) = await engine.schedules.preview(NS, "s", 1, after)
        assert following in (None, previewed)
        following = trigger.due_at


@pytest.mark.parametrize("half", [130_656.5, 130_657.5])
async def test_rounding_half_a_microsecond_does_not_shorten_an_interval(engine, clock, spec, half):
    clock.now += half / 1e6
    assert clock.now * 1e6 % 1 == 0.5
    schedule = await engine.schedules.create(NS, "s", spec("10m"), show=live)
    created, due = timestamp(schedule.created_at), timestamp(schedule.next_due)
    assert due.ToMicroseconds() - created.ToMicroseconds() == 600_000_000


class FaultyOnce:
    """A scheduler whose first `advance` fails."""

    def __init__(self, scheduler):
        self._scheduler = scheduler
        self._faults = iter([RuntimeError("broken")])

    def __getattr__(self, name):
        return getattr(self._scheduler, name)

    def advance(self, now):
        for fault in self._faults:
            raise fault
        return self._scheduler.advance(now)


@pytest.mark.python_core
async def test_a_fault_in_one_namespace_does_not_affect_the_others(make_engine, clock, spec, monkeypatch):
    engine = make_engine()
    await engine.schedules.create("faulty", "s", spec("10s"), show=live)
    await engine.schedules.create(NS, "s", spec("10s"), show=live)
    faulty = engine._namespaces.get("faulty", "namespace")
    monkeypatch.setattr(faulty, "scheduler", FaultyOnce(faulty.scheduler))
    await clock.advance(10 + TICK)
    assert len(await triggers(engine)) == 1
    await clock.advance(1)
    assert (await engine.schedules.list_triggers("faulty", TriggerFilter(), None, 10)).triggers
