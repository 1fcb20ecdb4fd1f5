"""Histograms of latencies: cumulative buckets of seconds, exact at their bounds."""

from taskyard_server.metrics.histograms import BUCKETS, Histogram
from tests import reporting
from tests.cases import every_case
from tests.live import live

WAIT, RUN = "taskyard_queue_wait_seconds", "taskyard_run_time_seconds"
BOUNDS = [*map(str, BUCKETS), "+Inf"]


def buckets_of(*durations):
    """The expected buckets, counted one by one."""
    return {bound: sum(duration <= float(bound) for duration in durations) for bound in BOUNDS}


async def wait_and_run(harness, wait, run):
    await harness.submit()
    harness.now += wait
    lease = await harness.claim()
    await harness.start(lease)
    harness.now += run
    await harness.complete(lease)


def test_the_buckets_reach_from_a_millisecond_to_the_documented_deadlines_and_beyond():
    assert BUCKETS[0] == 0.001
    assert list(BUCKETS) == sorted(set(BUCKETS))
    assert 60 in BUCKETS
    assert BUCKETS[-1] >= 300


@every_case("bound", BUCKETS)
def test_a_duration_equal_to_a_bound_is_in_its_bucket(bound):
    histogram = Histogram()
    histogram.observe(bound)
    held = {sample.labels["le"]: sample.value for sample in histogram.family("x", "").samples if "le" in sample.labels}
    assert held == buckets_of(bound)


async def test_buckets_are_cumulative_with_their_count_and_sum(harness):
    waits, runs = [0.25, 0.25, 0.375, 20.0], [0.5, 4.0, 0.0, 32.0]
    for wait, run in zip(waits, runs, strict=True):
        await wait_and_run(harness, wait, run)
    scrape = await harness.scrape()
    assert scrape.buckets(WAIT) == buckets_of(*waits)
    assert scrape.buckets(RUN) == buckets_of(*runs)
    assert (scrape.value(f"{WAIT}_count"), scrape.value(f"{WAIT}_sum")) == (4, sum(waits))
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (4, sum(runs))


async def test_a_duration_above_all_bounds_is_only_in_the_last_bucket(harness):
    await harness.submit(deadline=harness.now + 10_000)
    harness.now += 512
    await harness.claim()
    scrape = await harness.scrape()
    assert scrape.buckets(WAIT) == {**dict.fromkeys(BOUNDS, 0), "+Inf": 1}
    assert scrape.value(f"{WAIT}_sum") == 512


async def test_bounds_are_seconds_as_numbers(harness):
    buckets = (await harness.scrape()).buckets(WAIT)
    assert [float(bound) for bound in buckets] == [*BUCKETS, float("inf")]


async def test_the_queue_wait_ends_with_the_claim_and_not_with_the_start(harness):
    await harness.submit()
    harness.now += 1
    lease = await harness.claim()
    harness.now += 2
    await harness.start(lease)
    assert (await harness.scrape()).value(f"{WAIT}_sum") == 1


async def test_the_run_time_begins_with_the_start_and_not_with_the_claim(harness):
    await harness.submit()
    lease = await harness.claim()
    harness.now += 2
    await harness.start(lease)
    harness.now += 4
    await harness.complete(lease)
    assert (await harness.scrape()).value(f"{RUN}_sum") == 4


async def test_the_run_time_begins_with_the_first_of_several_starts(harness):
    await harness.submit()
    lease = await harness.claim()
    await harness.start(lease)
    harness.now += 1
    await reporting.release(harness.engine, "default", "host", lease.task.id, lease.token)
    harness.now += 2
    lease = await harness.claim()
    await harness.start(lease)
    harness.now += 4
    await harness.complete(lease)
    scrape = await harness.scrape()
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (1, 1 + 2 + 4)


async def test_each_dispatch_has_its_own_wait(harness):
    await harness.submit()
    harness.now += 1
    lease = await harness.claim()
    await harness.scrape()
    harness.now += 16
    await reporting.release(harness.engine, "default", "host", lease.task.id, lease.token)
    harness.now += 4
    await harness.claim()
    scrape = await harness.scrape()
    assert (scrape.value(f"{WAIT}_count"), scrape.value(f"{WAIT}_sum")) == (2, 1 + 4)


async def test_waits_agree_with_the_average_of_the_stats(harness):
    for wait in (0.25, 0.5, 3.0):
        await wait_and_run(harness, wait, 0)
    scrape = await harness.scrape()
    average_ms = scrape.value(f"{WAIT}_sum") / scrape.value(f"{WAIT}_count") * 1000
    assert (await harness.engine.admin.stats("default")).avg_dispatch_latency_ms == average_ms == 1250


async def test_failed_and_cancelled_runs_are_measured_too(harness):
    for end in ("fail", "cancel"):
        task = await harness.submit()
        lease = await harness.claim()
        await harness.start(lease)
        harness.now += 2
        if end == "fail":
            await harness.fail(lease)
        else:
            await harness.engine.tasks.cancel("default", task.id, show=live)
    scrape = await harness.scrape()
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (2, 4)


async def test_a_task_that_never_ran_has_no_run_time(harness):
    task = await harness.submit()
    harness.now += 2
    await harness.engine.tasks.cancel("default", task.id, show=live)
    scrape = await harness.scrape()
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{WAIT}_count")) == (0, 0)
    assert scrape.value("taskyard_tasks_cancelled_total") == 1


async def test_one_histogram_holds_the_durations_of_all_namespaces(harness):
    for namespace in ("default", "acme"):
        await harness.submit(namespace)
        harness.now += 1
        lease = await harness.claim(namespace)
        await harness.start(lease, namespace)
        harness.now += 2
        await harness.complete(lease, namespace)
    scrape = await harness.scrape()
    assert (scrape.value(f"{WAIT}_count"), scrape.value(f"{WAIT}_sum")) == (2, 2)
    assert (scrape.value(f"{RUN}_count"), scrape.value(f"{RUN}_sum")) == (2, 4)
