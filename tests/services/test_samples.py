"""ListSamples: the figures of a namespace over the last hour (docs/rules.md, Samples)."""

import asyncio
from types import SimpleNamespace

import pytest

from taskyard.v1.namespace_pb2 import DeleteNamespaceRequest
from taskyard.v1.sample_pb2 import ListSamplesRequest
from taskyard_server.core.history import Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.metrics import samples
from tests import reporting
from tests.live import live
from tests.waiting import LIMIT_SECS

NS = "default"
RED = (("taskyard-namespace", "red"),)
COUNTS = ("submitted", "dispatched", "completed", "failed", "cancelled", "rejected", "retried", "leases_expired")


@pytest.fixture
async def api(start_api, clock):
    """A server on a clock that tests control, where no task comes due while samples are taken."""
    return await start_api(clock=clock, default_deadline_secs=100_000.0)


async def list_samples(api, metadata=None, **fields):
    """The samples that ListSamples answers."""
    return list((await api.stats_stub.ListSamples(ListSamplesRequest(**fields), metadata=metadata)).samples)


async def take(api, clock, secs=10):
    """Take a sample, ten seconds after what was there before."""
    clock.now += secs
    await api.samples.take()


def counts_of(sample):
    """What has happened since the sample before, by name, as far as anything has."""
    return {name: count for name in COUNTS if (count := getattr(sample, name))}


async def test_there_are_none_before_the_first_is_taken(api):
    answer = await api.stats_stub.ListSamples(ListSamplesRequest())
    assert (list(answer.samples), answer.interval_secs) == ([], 10)


async def test_a_sample_shows_what_is_there_at_its_time(api, clock):
    for host in ("one", "two"):
        await api.engine.hosts.register(NS, host, None, HostProfile(), show=live)
    await api.engine.hosts.register(NS, "taskyard:tabs", None, HostProfile(), built_in=True, show=live)
    for _ in range(4):
        await api.submit()
    paused = await api.submit(priority=-1)
    await api.claim()
    await api.engine.tasks.pause(NS, paused.task_id, show=live)
    (lease,) = await api.claim()
    await reporting.park(api.engine, NS, "host", lease.task.id, lease.token, Wait("time", "a", clock.now + 99))
    await api.claim()
    await take(api, clock)
    (sample,) = await list_samples(api)
    assert (sample.queued, sample.inflight, sample.paused, sample.parked, sample.hosts_online) == (2, 1, 1, 1, 3)
    assert sample.at.seconds == int(clock.now)
    assert sample.oldest_queued_secs == pytest.approx(10, abs=0.001)


async def test_hosts_that_are_silent_are_not_online(api, clock):
    await api.engine.hosts.register(NS, "silent", None, HostProfile(), show=live)
    await take(api, clock, 59)
    await take(api, clock, 2)
    assert [sample.hosts_online for sample in await list_samples(api)] == [1, 0]


async def test_a_sample_counts_what_has_happened_since_the_one_before(start_api, clock, refused):
    api = await start_api(clock=clock, max_queue_size=3)
    for _ in range(3):
        await api.submit()
    assert (await refused(api.submit())).code == "queue_full"
    await take(api, clock)
    for lease, end in zip(await api.claim(2), (api.complete, api.fail), strict=True):
        await api.start(lease)
        await end(lease)
    (left,) = (await api.list_tasks(state="queued")).tasks
    await api.cancel(left.task_id)
    await take(api, clock)
    await take(api, clock)
    assert [counts_of(sample) for sample in await list_samples(api)] == [
        {"submitted": 3, "rejected": 1},
        {"dispatched": 2, "completed": 1, "failed": 1, "cancelled": 1},
        {},
    ]


async def test_a_failure_that_is_resumed_stays_counted(api, clock):
    await api.submit()
    lease = await api.run_one()
    await api.fail(lease)
    await take(api, clock)
    await api.resume(lease.task.id)
    await take(api, clock)
    assert [sample.failed for sample in await list_samples(api)] == [1, 0]


async def test_the_latency_is_that_of_the_hand_outs_since_the_sample_before(api, clock):
    latencies = []
    for wait_secs in (4, 2, None):
        if wait_secs is not None:
            await api.submit()
            clock.now += wait_secs
            await api.run_one()
        await take(api, clock)
    for sample in await list_samples(api):
        latencies.append(sample.avg_dispatch_latency_ms if sample.HasField("avg_dispatch_latency_ms") else None)
    assert latencies == [pytest.approx(4000, abs=1), pytest.approx(2000, abs=1), None]


async def test_the_oldest_is_the_first_that_waits_for_a_host(api, clock):
    await api.submit(priority=5)
    clock.now += 7
    await api.submit(priority=1)
    await api.submit(hold=True)
    await take(api, clock, 3)
    await api.claim(2)
    await take(api, clock)
    first, second = await list_samples(api)
    assert first.oldest_queued_secs == pytest.approx(10, abs=0.001)
    assert (second.queued, second.HasField("oldest_queued_secs")) == (1, False)


# How many there are


async def test_only_those_after_a_time_are_listed(api, clock):
    for _ in range(3):
        await take(api, clock)
    every = await list_samples(api)
    for count, sample in enumerate(every, 1):
        assert await list_samples(api, after=sample.at) == every[count:]


async def test_a_time_out_of_range_is_refused(api, refused):
    answer = await refused(api.stats_stub.ListSamples(ListSamplesRequest(after={"nanos": -1})))
    assert (answer.code, answer.message) == ("bad_request", "after: must be a time before the year 10000")


async def test_those_of_an_hour_are_there(api, clock):
    for number in range(370):
        if number % 100 == 0:
            await api.submit()
        await take(api, clock)
    every = await list_samples(api)
    assert (len(every), every[-1].at.seconds - every[0].at.seconds) == (360, 3590)
    assert [sample.queued for sample in every] == [1 + number // 100 for number in range(10, 370)]


async def test_a_new_namespace_has_those_since_it_began(api, clock):
    await take(api, clock)
    await api.submit(metadata=RED)
    await take(api, clock)
    (sample,) = await list_samples(api, RED)
    assert (sample.queued, sample.submitted) == (1, 1)
    assert [sample.queued for sample in await list_samples(api)] == [0, 0]
    assert await list_samples(api, (("taskyard-namespace", "blue"),)) == []


async def test_those_of_a_namespace_that_was_deleted_are_gone(api, clock):
    await api.submit(metadata=RED)
    await take(api, clock)
    await api.namespaces.DeleteNamespace(DeleteNamespaceRequest(namespace="red", force=True))
    await api.submit(metadata=RED)
    assert await list_samples(api, RED) == []
    await take(api, clock)
    assert [sample.submitted for sample in await list_samples(api, RED)] == [1]


async def test_one_that_is_deleted_while_samples_are_taken_leaves_none_behind(api, clock, monkeypatch):
    with monkeypatch.context() as deleting:
        deleting.setattr(api.engine.admin, "namespaces", lambda: ["red"])
        await take(api, clock)
    await take(api, clock)
    assert await list_samples(api, RED) == []


async def test_a_namespace_that_came_from_elsewhere_counts_from_there_on(api, clock):
    for _ in range(2):
        await api.submit(metadata=RED)
    api.samples.begin("red")
    await api.submit(metadata=RED)
    await take(api, clock)
    assert [sample.submitted for sample in await list_samples(api, RED)] == [1]
    api.samples.leave("red")
    assert await list_samples(api, RED) == []


async def test_what_a_start_has_loaded_is_not_new(api, clock):
    await api.submit()
    api.samples.open()
    await take(api, clock)
    assert [(sample.queued, sample.submitted) for sample in await list_samples(api)] == [(1, 0)]


async def test_with_too_many_namespaces_the_hour_is_shorter(api, clock, monkeypatch):
    monkeypatch.setattr(samples, "MAX_SAMPLES", 12)
    for _ in range(10):
        for namespace in ("default", "red"):
            await api.submit(metadata=(("taskyard-namespace", namespace),))
        await take(api, clock)
    for metadata in (None, RED):
        assert [sample.queued for sample in await list_samples(api, metadata)] == [5, 6, 7, 8, 9, 10]


async def test_where_nothing_happens_samples_cost_nothing(api, clock, monkeypatch):
    monkeypatch.setattr(samples, "MAX_SAMPLES", 12)
    await api.submit()
    for _ in range(20):
        await take(api, clock)
    assert [sample.queued for sample in await list_samples(api)] == [1] * 20


# When they are taken


async def test_they_are_taken_at_full_tens_of_seconds(api, clock, monkeypatch):
    sleeps, wake_up = asyncio.Queue(), asyncio.Event()

    async def sleep(secs):
        if secs:
            sleeps.put_nowait(secs)
            await wake_up.wait()
            wake_up.clear()

    monkeypatch.setattr(samples, "asyncio", SimpleNamespace(sleep=sleep))
    clock.now = 1_000_003.0
    running = asyncio.create_task(api.samples.run())
    for at in (1_000_010, 1_000_020):
        clock.now += await asyncio.wait_for(sleeps.get(), LIMIT_SECS)
        assert clock.now == at
        wake_up.set()
    await asyncio.wait_for(sleeps.get(), LIMIT_SECS)
    running.cancel()
    assert [sample.at.seconds for sample in await list_samples(api)] == [1_000_010, 1_000_020]


@pytest.mark.parametrize(("now", "secs"), [(27.0, 3.0), (30.0, 10.0), (29.99998, 10.00002), (20.1, 9.9)])
def test_a_sleep_that_ends_a_little_early_takes_no_second_sample(now, secs):
    assert samples.secs_to_next(now) == pytest.approx(secs)
