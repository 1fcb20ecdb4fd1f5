"""GetStats (docs/rules.md, Figures)."""

import asyncio

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from taskyard_server.conversion.payload import message_to_json
from taskyard_server.core.limits import Limits
from taskyard_server.store.figures import StoreFigures
from taskyard_server.store.port import Committed
from taskyard_server.webhooks.webhooks import WebhookCounts


async def test_a_server_without_tasks_shows_zeros_and_the_documented_configuration(api):
    assert message_to_json(await api.stats(), zeros=True) == {
        "queue": {"totalQueued": 0, "totalInflight": 0, "agentCounts": {}},
        "metrics": {
            "tasksSubmitted": 0,
            "tasksCompleted": 0,
            "tasksFailed": 0,
            "tasksCancelled": 0,
            "tasksRejected": 0,
            "tasksExpired": 0,
            "dispatchCount": 0,
            "avgDispatchLatencyMs": 0,
            "agents": {},
        },
        "config": {
            "strategy": "fair-fifo",
            "maxQueueSize": 1000,
            "maxPerAgent": 100,
            "maxInflight": 20,
            "maxPerAgentFlight": 10,
            "workerCount": 4,
            "resultTTL": "5m0s",
        },
    }


async def test_the_queue_section_counts_queued_tasks_and_tasks_in_flight(api):
    for agent in ("ann", "ann", "ann", "bob", "bob", "cy"):
        await api.submit(agent_id=agent)
    leases = await api.claim(2)
    await api.start(leases[0])
    queue = (await api.stats()).queue
    assert queue.total_inflight == 2, "assigned and running"
    assert queue.total_queued == 4
    assert queue.agent_counts == {"ann": 2, "bob": 1, "cy": 1}


async def test_an_agent_without_queued_tasks_has_no_count(api):
    await api.submit()
    await api.claim()
    stats = await api.stats()
    assert stats.queue.agent_counts == {}
    assert set(stats.metrics.agents) == {"ann"}


async def test_the_figures_of_many_agents_are_of_one_moment(start_api):
    api = await start_api(max_queue_size=5_000)
    for number in range(900):
        await api.submit(agent_id=f"agent-{number}")
    asked = asyncio.ensure_future(api.stats())
    for _ in range(3):
        await api.submit(agent_id="ann")
    stats = await asked
    assert len(stats.metrics.agents) in (900, 901)
    assert stats.queue.total_queued == sum(stats.queue.agent_counts.values())
    assert stats.metrics.tasks_submitted == sum(agent.submitted for agent in stats.metrics.agents.values())


# Metrics Fields


async def submitted(api):
    await api.submit()


async def completed(api):
    await api.submit()
    (lease,) = await api.claim()
    await api.complete(lease)


async def failed(api):
    await api.submit()
    (lease,) = await api.claim()
    await api.fail(lease)


async def cancelled(api):
    await api.cancel((await api.submit()).task_id)


async def cancelled_while_running(api):
    await api.submit()
    (lease,) = await api.claim()
    await api.start(lease)
    await api.cancel(lease.task.id)


async def expired(api):
    deadline = Timestamp()
    deadline.FromNanoseconds(int((api.engine.now() + 0.3) * 1e9))
    await api.wait((await api.submit(deadline=deadline)).task_id)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (submitted, {"tasks_submitted": 1}),
        (completed, {"tasks_submitted": 1, "tasks_completed": 1, "dispatch_count": 1}),
        (failed, {"tasks_submitted": 1, "tasks_failed": 1, "dispatch_count": 1}),
        (cancelled, {"tasks_submitted": 1, "tasks_cancelled": 1}),
        (cancelled_while_running, {"tasks_submitted": 1, "tasks_cancelled": 1, "dispatch_count": 1}),
        (expired, {"tasks_submitted": 1, "tasks_failed": 1, "tasks_expired": 1}),
    ],
)
async def test_each_outcome_of_a_task_is_counted(api, action, expected):
    await action(api)
    metrics = (await api.stats()).metrics
    counters = [field for field in metrics.DESCRIPTOR.fields if field.name.startswith(("tasks_", "dispatch_"))]
    assert {field.name: value for field, value in metrics.ListFields() if field in counters and value} == expected


async def test_rejected_tasks_are_counted_at_admission(start_api, refused):
    api = await start_api(max_queue_size=1)
    await api.submit()
    for _ in range(3):
        await refused(api.submit())
    metrics = (await api.stats()).metrics
    assert metrics.tasks_rejected == 3
    assert metrics.tasks_submitted == 1


async def test_dispatch_latency_is_the_average_time_from_queue_entry_to_dispatch(start_api, clock):
    api = await start_api(clock=clock)
    await api.submit()
    clock.now += 0.010
    await api.submit()
    clock.now += 0.020
    first, second = await api.claim(2)
    clock.now += 30
    await api.complete(first)
    await api.complete(second)
    assert (await api.stats()).metrics.avg_dispatch_latency_ms == pytest.approx((30 + 20) / 2, rel=1e-3)


async def test_every_counter_is_shown_per_agent(start_api, refused):
    api = await start_api(max_per_agent=3)
    for _ in range(3):
        await api.submit(agent_id="bob")
    await refused(api.submit(agent_id="bob"))
    done, broken, left = await api.claim(3)
    await api.complete(done)
    await api.fail(broken)
    await api.cancel(left.task.id)
    await api.submit()
    agents = (await api.stats()).metrics.agents
    assert {name: message_to_json(agent, zeros=True) for name, agent in agents.items()} == {
        "bob": {"submitted": 3, "completed": 1, "failed": 1, "cancelled": 1, "rejected": 1},
        "ann": {"submitted": 1, "completed": 0, "failed": 0, "cancelled": 0, "rejected": 0},
    }


async def test_submitted_tasks_are_the_sum_of_ended_and_live_ones_at_any_time(api):
    async def check():
        stats = await api.stats()
        metrics, queue = stats.metrics, stats.queue
        live = queue.total_queued + queue.total_inflight
        ended = metrics.tasks_completed + metrics.tasks_failed + metrics.tasks_cancelled
        assert metrics.tasks_submitted == ended + live

    for action in (submitted, completed, failed, cancelled, cancelled_while_running, expired, submitted):
        await action(api)
        await check()


async def test_late_reports_are_counted_and_change_nothing(api):
    await api.submit()
    (lease,) = await api.claim()
    await api.cancel(lease.task.id)
    assert not (await api.stats()).metrics.HasField("late_reports")
    with pytest.raises(Exception, match="lease lost"):
        await api.complete(lease)
    metrics = (await api.stats()).metrics
    assert metrics.late_reports == 1
    assert metrics.tasks_completed == 0


async def test_deliveries_of_webhooks_are_counted_by_namespace(api):
    api.webhook_counts["default"] = WebhookCounts(delivered=3, failed=2, dropped=1)
    metrics = (await api.stats()).metrics
    assert (metrics.webhooks_delivered, metrics.webhooks_failed) == (3, 2)
    other = (await api.stats(metadata=(("taskyard-namespace", "other"),))).metrics
    assert not other.HasField("webhooks_delivered")
    assert not other.HasField("webhooks_failed")


async def test_evicted_tasks_are_counted_and_not_listed(start_api):
    api = await start_api(max_retained_tasks=2)
    for _ in range(3):
        await cancelled(api)
    assert (await api.stats()).metrics.tasks_evicted == 1
    assert (await api.list_tasks()).count == 2


async def test_a_limit_that_holds_tasks_back_is_shown_by_its_key(start_api):
    api = await start_api(max_inflight=1)
    await api.submit()
    await api.submit()
    assert not (await api.stats()).queue.HasField("limited_by")
    await api.claim(2)
    assert (await api.stats()).queue.limited_by == "maxInflight"


async def test_the_limit_per_agent_is_shown_by_its_key(start_api):
    api = await start_api(max_per_agent_inflight=1)
    await api.submit()
    await api.submit()
    await api.claim(2)
    assert (await api.stats()).queue.limited_by == "maxPerAgentInflight"


# Configuration


async def test_changed_limits_are_shown(api):
    api.engine.admin.reconfigure(
        Limits(max_queue_size=7, max_per_agent=6, max_inflight=5, max_per_agent_inflight=4, result_ttl_secs=3)
    )
    for call in (api.stats(), api.stats(metadata=(("taskyard-namespace", "other"),))):
        config = (await call).config
        assert (config.max_queue_size, config.max_per_agent) == (7, 6)
        assert (config.max_inflight, config.max_per_agent_flight) == (5, 4)
        assert config.result_ttl == "3s"


@pytest.mark.parametrize(
    ("secs", "text"),
    [(300, "5m0s"), (60, "1m0s"), (90, "1m30s"), (59, "59s"), (1.5, "1.5s"), (0.25, "250ms"), (3600, "1h0m0s")],
)
async def test_the_ttl_is_shown_as_a_go_duration(start_api, secs, text):
    api = await start_api(result_ttl_secs=secs)
    assert (await api.stats()).config.result_ttl == text


@pytest.mark.parametrize("secs", [86_400 + 3_600 + 61, 100 * 3600])
async def test_durations_have_no_days(start_api, secs):
    api = await start_api(result_ttl_secs=secs)
    assert (await api.stats()).config.result_ttl == {90_061: "25h1m1s", 360_000: "100h0m0s"}[secs]


async def test_the_size_of_the_store_is_that_of_its_last_commit(start_api):
    figures = StoreFigures("sqlite:////var/lib/yard.db")
    api = await start_api(store=figures)
    figures.note(7, 0.1, Committed(0.1, 5_000_000_000, 9_000_000_000))
    store = message_to_json(await api.stats())["store"]
    assert store == {
        "url": "sqlite:////var/lib/yard.db",
        "usedBytes": 5_000_000_000,
        "freeBytes": 9_000_000_000,
    }


async def test_a_server_that_keeps_nothing_shows_no_store(api):
    assert not (await api.stats()).HasField("store")
