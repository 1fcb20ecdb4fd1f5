"""Latencies: cumulative buckets of seconds, exact at their bounds. All times are passed in."""

import pytest

from taskyard_server.metrics import BUCKETS, Histogram
from tests import reporting

WAIT, RUN = "taskyard_queue_wait_seconds", "taskyard_run_time_seconds"
BOUNDS = [*map(str, BUCKETS), "+Inf"]


def buckets_of(*durations):
    """What the buckets should hold, counted one by one."""
    return {bound: sum(duration <= float(bound) for duration in durations) for bound in BOUNDS}


async def wait_and_run(yard, wait, run):
    await yard.submit()
    yard.now += wait
    lease = await yard.claim()
    await yard.start(lease)
    yard.now += run
    await yard.complete(lease)


def test_the_buckets_reach_from_a_millisecond_to_the_documented_deadlines_and_beyond():
    assert BUCKETS[0] == 0.001
    assert list(BUCKETS) == sorted(set(BUCKETS))
    assert 60 in BUCKETS
    assert BUCKETS[-1] >= 300


@pytest.mark.parametrize("bound", BUCKETS)
def test_a_duration_on_a_bound_belongs_to_its_bucket(bound):
    histogram = Histogram()
    histogram.observe(bound)
    held = {sample.labels["le"]: sample.value for sample in histogram.family("x", "").samples if "le" in sample.labels}
    assert held == buckets_of(bound)


async def test_buckets_are_cumulative_with_their_count_and_sum(yard):
    waits, runs = [0.25, 0.25, 0.375, 20.0], [0.5, 4.0, 0.0, 32.0]
    for wait, run in zip(waits, runs, strict=True):
        await wait_and_run(yard, wait, run)
    scrape = await yard.scrape()
    assert scrape.buckets(WAIT) == buckets_of(*waits)
    assert scrape.buckets(RUN) == buckets_of(*runs)
    assert (scrape.value(f"{WAIT}_count"), scrape.value(f"{WAIT}_sum")) == (4, sum(waits))
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (4, sum(runs))


async def test_what_exceeds_every_bound_is_only_in_the_last_bucket(yard):
    await yard.submit(deadline=yard.now + 10_000)
    yard.now += 512
    await yard.claim()
    scrape = await yard.scrape()
    assert scrape.buckets(WAIT) == {**dict.fromkeys(BOUNDS, 0), "+Inf": 1}
    assert scrape.value(f"{WAIT}_sum") == 512


async def test_bounds_are_seconds_as_numbers(yard):
    buckets = (await yard.scrape()).buckets(WAIT)
    assert [float(bound) for bound in buckets] == [*BUCKETS, float("inf")]


async def test_the_queue_wait_ends_with_the_claim_and_not_with_the_start(yard):
    await yard.submit()
    yard.now += 1
    lease = await yard.claim()
    yard.now += 2
    await yard.start(lease)
    assert (await yard.scrape()).value(f"{WAIT}_sum") == 1


async def test_the_run_time_begins_with_the_start_and_not_with_the_claim(yard):
    await yard.submit()
    lease = await yard.claim()
    yard.now += 2
    await yard.start(lease)
    yard.now += 4
    await yard.complete(lease)
    assert (await yard.scrape()).value(f"{RUN}_sum") == 4


async def test_the_run_time_begins_with_the_first_of_several_starts(yard):
    await yard.submit()
    lease = await yard.claim()
    await yard.start(lease)
    yard.now += 1
    await reporting.release(yard.engine, "default", "host", lease.task.id, lease.token)
    yard.now += 2
    lease = await yard.claim()
    await yard.start(lease)
    yard.now += 4
    await yard.complete(lease)
    scrape = await yard.scrape()
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (1, 1 + 2 + 4)


async def test_each_hand_out_has_a_wait_of_its_own(yard):
    await yard.submit()
    yard.now += 1
    lease = await yard.claim()
    await yard.scrape()
    yard.now += 16
    await reporting.release(yard.engine, "default", "host", lease.task.id, lease.token)
    yard.now += 4
    await yard.claim()
    scrape = await yard.scrape()
    assert (scrape.value(f"{WAIT}_count"), scrape.value(f"{WAIT}_sum")) == (2, 1 + 4)


async def test_waits_agree_with_the_average_of_the_stats(yard):
    for wait in (0.25, 0.5, 3.0):
        await wait_and_run(yard, wait, 0)
    scrape = await yard.scrape()
    average_ms = scrape.value(f"{WAIT}_sum") / scrape.value(f"{WAIT}_count") * 1000
    assert (await yard.engine.admin.stats("default")).avg_dispatch_latency_ms == average_ms == 1250


async def test_failed_and_cancelled_runs_are_measured_too(yard):
    for end in ("fail", "cancel"):
        task = await yard.submit()
        lease = await yard.claim()
        await yard.start(lease)
        yard.now += 2
        if end == "fail":
            await yard.fail(lease)
        else:
            await yard.engine.tasks.cancel("default", task.id)
    scrape = await yard.scrape()
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (2, 4)


async def test_a_task_that_never_ran_has_no_run_time(yard):
    task = await yard.submit()
    yard.now += 2
    await yard.engine.tasks.cancel("default", task.id)
    scrape = await yard.scrape()
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{WAIT}_count")) == (0, 0)
    assert scrape.value("taskyard_tasks_cancelled_total") == 1


async def test_waits_and_runs_of_all_namespaces_are_in_the_one_histogram(yard):
    for namespace in ("default", "acme"):
        await yard.submit(namespace)
        yard.now += 1
        lease = await yard.claim(namespace)
        await yard.start(lease, namespace)
        yard.now += 2
        await yard.complete(lease, namespace)
    scrape = await yard.scrape()
    assert (scrape.value(f"{WAIT}_count"), scrape.value(f"{WAIT}_sum")) == (2, 2)
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (2, 4)
