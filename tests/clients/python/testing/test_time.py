"""The time of a yard: it stands still, and passes from one due time to the next."""

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from taskyard import RetryPolicy
from taskyard.testing import StillRunning, Yard, YardError

HOUR = timedelta(hours=1)


def hourly(max_attempts):
    return RetryPolicy(max_attempts=max_attempts, first_delay=HOUR, multiplier=1, max_delay=HOUR)


async def test_a_monthly_schedule_fires_twelve_times_a_year(yard):
    times = []

    async def report(_):
        times.append(yard.now)

    yard.host({"report": report})
    await yard.client.schedules.create(schedule_id="monthly", task="report", cron="0 6 1 * *")
    await yard.advance(days=365)
    assert times == [datetime(2029, month, 1, 6, tzinfo=UTC) for month in range(1, 13)]
    assert yard.now == datetime(2030, 1, 1, tzinfo=UTC)


async def test_retries_come_after_hours(yard):
    attempts = []

    async def flaky(task):
        attempts.append((task.attempt, yard.now))
        if task.attempt < 4:
            raise ValueError("not yet")
        return {"attempt": task.attempt}

    yard.host({"flaky": flaky})
    submitted = await yard.client.submit("flaky", retry=hourly(5), deadline=timedelta(days=1))
    await yard.advance(seconds=1)
    assert [number for number, _ in attempts] == [1]
    task = await yard.until_ended(submitted)
    assert task.result == {"attempt": 4}
    begun = [at for _, at in attempts]
    assert all(HOUR / 2 <= later - earlier <= HOUR for earlier, later in pairwise(begun))


async def test_time_stands_still_until_it_is_moved(yard):
    ran = []
    yard.host({"later": ran.append})
    await yard.client.submit("later", not_before=HOUR, deadline=2 * HOUR)
    await yard.client.stats()
    await yard.advance(minutes=59)
    assert not ran
    await yard.advance(minutes=1)
    assert len(ran) == 1


async def test_spans_are_reckoned_from_the_time_of_the_yard(yard):
    await yard.advance(days=400)
    submitted = await yard.client.submit("nobody", deadline=HOUR)
    task = await yard.task(submitted)
    assert abs(task.deadline - yard.now - HOUR) < timedelta(seconds=1)
    await yard.advance(HOUR)
    assert (await yard.task(submitted)).state == "failed"


async def test_due_times_follow_the_clocks_of_a_place():
    async with Yard(start=datetime(2029, 3, 23, 12, tzinfo=UTC)) as yard:
        times = []

        async def report(_):
            times.append(yard.now.hour)

        yard.host({"report": report})
        await yard.client.schedules.create(
            schedule_id="daily", task="report", cron="0 9 * * *", time_zone="Europe/Berlin"
        )
        await yard.advance(days=3)
        assert times == [8, 7, 7]


async def test_each_step_waits_for_what_the_one_before_has_begun(yard):
    """A handler submits the next task, which has to run at the time at which it was submitted."""
    times = []

    async def first(_):
        await yard.client.submit("second")

    async def second(_):
        await asyncio.sleep(0.01)
        times.append(yard.now)

    yard.host({"first": first, "second": second})
    await yard.client.schedules.create(schedule_id="hourly", task="first", cron="0 * * * *")
    await yard.advance(hours=3)
    assert times == [datetime(2029, 1, 1, hour, tzinfo=UTC) for hour in (1, 2, 3)]


async def test_more_tasks_than_slots_all_run_before_time_goes_on(yard):
    ran = []

    async def work(_):
        ran.append(yard.now)

    yard.host({"work": work}, slots=2)
    for _ in range(9):
        await yard.client.submit("work", not_before=HOUR, deadline=timedelta(days=1))
    await yard.advance(hours=2)
    assert ran == [yard.now - HOUR] * 9


async def test_a_handler_that_does_not_end_is_named(yard, monkeypatch):
    monkeypatch.setattr("taskyard.testing.yard.REST_SECS", 0.2)

    async def hang(_):
        await asyncio.Event().wait()

    yard.host({"hang": hang})
    submitted = await yard.client.submit("hang")
    with pytest.raises(StillRunning, match=rf"'hang' has not ended on 'host-1' \({submitted.id}\)"):
        await yard.advance(seconds=1)


async def test_without_waiting_a_deadline_meets_what_runs(yard):
    ended = []

    async def hang(_):
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(yard.now)

    yard.host({"hang": hang})
    submitted = await yard.client.submit("hang", deadline=timedelta(minutes=30))
    await yard.advance(minutes=29, wait=False)
    assert (await yard.task(submitted)).state == "running"
    await yard.advance(minutes=1, wait=False)
    assert (await yard.task(submitted)).state == "failed"
    await yard.advance()
    assert len(ended) == 1


async def test_until_ended_says_why_a_task_cannot_end(yard):
    submitted = await yard.client.submit("nobody", hold=True)
    with pytest.raises(YardError, match=r"\(nobody\) is pending, and nothing"):
        await yard.until_ended(submitted, within=timedelta(days=1))


async def test_time_does_not_go_back(yard):
    with pytest.raises(ValueError, match="does not go back"):
        await yard.advance(hours=-1)
    with pytest.raises(ValueError, match="does not go back"):
        await yard.advance_to(datetime(2028, 12, 31, tzinfo=UTC))
    with pytest.raises(ValueError, match="time zone"):
        await yard.advance_to(datetime(2029, 12, 31))
    with pytest.raises(ValueError, match="time zone"):
        Yard(start=datetime(2029, 12, 31))


async def test_a_run_timeout_meets_a_handler_that_hangs(yard):
    attempts = []

    async def hang(task):
        attempts.append(task.attempt)
        if task.attempt == 1:
            await asyncio.Event().wait()

    yard.host({"hang": hang})
    submitted = await yard.client.submit(
        "hang", run_timeout=HOUR, retry=RetryPolicy(max_attempts=2), deadline=timedelta(days=1)
    )
    await yard.advance(minutes=59, wait=False)
    assert attempts == [1]
    await yard.advance(minutes=2, wait=False)
    task = await yard.until_ended(submitted)
    assert (task.state, attempts, task.attempts[0].code) == ("done", [1, 2], "timed_out")


async def test_a_call_that_was_begun_before_comes_first(yard):
    yard.host({"now": lambda _: str(yard.now)})
    running = asyncio.create_task(yard.client.run("now"))
    await yard.advance(hours=1)
    assert await running == "2029-01-01 00:00:00+00:00"


async def test_handlers_do_not_move_the_time(yard):
    async def impatient(_):
        await yard.advance(hours=1)

    yard.host({"impatient": impatient})
    task = await yard.until_ended(await yard.client.submit("impatient"))
    assert task.error == "YardError: a handler cannot let time pass, since that waits for the handler: the test does"


async def test_samples_are_taken_by_the_clock_of_the_yard(yard):
    begin = yard.now
    await yard.advance(seconds=9)
    assert await yard.client.samples() == []
    await yard.client.submit("greet")
    await yard.advance(seconds=21)
    samples = await yard.client.samples()
    assert [(sample.at - begin).total_seconds() for sample in samples] == [10, 20, 30]
    assert [(sample.queued, sample.submitted) for sample in samples] == [(1, 1), (1, 0), (1, 0)]
    assert [sample.oldest_queued for sample in samples] == [timedelta(seconds=secs) for secs in (1, 11, 21)]
    assert await yard.client.samples(after=samples[1].at) == samples[2:]


async def test_after_a_jump_the_samples_are_those_of_the_last_hour(yard):
    yard.host({"work": lambda _: None})
    await yard.client.submit("work")
    await yard.advance(seconds=1)
    await yard.advance(days=300)
    samples = await yard.client.samples()
    assert (len(samples), yard.now - samples[-1].at) == (360, timedelta(seconds=1))
    assert {(sample.completed, sample.hosts_online) for sample in samples} == {(0, 1)}
