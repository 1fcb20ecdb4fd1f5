"""The scheduler's figures as Prometheus metrics: their names, types and values."""

import asyncio
from types import SimpleNamespace

import psutil
import pytest

from taskyard_server.cadence import parse_interval
from taskyard_server.core.errors import LeaseLost, QueueFull
from taskyard_server.core.history import RetryPolicy, Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.runs.artifacts import Right
from taskyard_server.core.schedules.schedule import Overlap, ScheduleSpec
from taskyard_server.core.streams import Hello
from taskyard_server.core.task import Submission
from tests.live import live
from tests.speakers import HOST, speaker
from tests.uploaders import got, put
from tests.waiting import until

from .conftest import MAX_NAMES

TYPES = {
    "taskyard_tasks_queued": "gauge",
    "taskyard_tasks_inflight": "gauge",
    "taskyard_tasks_paused": "gauge",
    "taskyard_tasks_parked": "gauge",
    "taskyard_tasks_after_others": "gauge",
    "taskyard_operations": "gauge",
    "taskyard_events": "gauge",
    "taskyard_tasks_noticed": "gauge",
    "taskyard_tasks_deadlocked": "gauge",
    "taskyard_targets_blocked": "gauge",
    "taskyard_tasks_retained": "gauge",
    "taskyard_namespaces": "gauge",
    "taskyard_schedules": "gauge",
    "taskyard_triggers_pending": "gauge",
    "taskyard_triggers_executing": "gauge",
    "taskyard_triggers_fired": "counter",
    "taskyard_triggers_completed": "counter",
    "taskyard_triggers_failed": "counter",
    "taskyard_triggers_skipped": "counter",
    "taskyard_triggers_deferred": "counter",
    "taskyard_hosts": "gauge",
    "taskyard_hosts_online": "gauge",
    "taskyard_host_streams": "gauge",
    "taskyard_tasks_submitted": "counter",
    "taskyard_tasks_completed": "counter",
    "taskyard_tasks_failed": "counter",
    "taskyard_tasks_cancelled": "counter",
    "taskyard_tasks_rejected": "counter",
    "taskyard_tasks_expired": "counter",
    "taskyard_tasks_dispatched": "counter",
    "taskyard_tasks_evicted": "counter",
    "taskyard_tasks_retried": "counter",
    "taskyard_tasks_reopened": "counter",
    "taskyard_leases_expired": "counter",
    "taskyard_late_reports": "counter",
    "taskyard_keys": "gauge",
    "taskyard_keys_inflight": "gauge",
    "taskyard_keys_waiting": "gauge",
    "taskyard_webhooks": "counter",
    "taskyard_output_chunks": "counter",
    "taskyard_output_bytes": "counter",
    "taskyard_output_dropped_bytes": "counter",
    "taskyard_artifacts": "counter",
    "taskyard_artifact_bytes": "counter",
    "taskyard_artifact_read_bytes": "counter",
    "taskyard_artifact_failures": "counter",
    "taskyard_steps": "counter",
    "taskyard_artifact_stored_bytes": "gauge",
    "taskyard_calls_refused": "counter",
    "taskyard_calls_with_ignored_fields": "counter",
    "taskyard_action_submitted": "counter",
    "taskyard_action_dispatched": "counter",
    "taskyard_action_ended": "counter",
    "taskyard_action_runs": "counter",
    "taskyard_action_run_seconds": "counter",
    "taskyard_namespace_queued": "gauge",
    "taskyard_namespace_inflight": "gauge",
    "taskyard_namespace_paused": "gauge",
    "taskyard_namespace_parked": "gauge",
    "taskyard_namespace_questions": "gauge",
    "taskyard_namespace_oldest_question_seconds": "gauge",
    "taskyard_namespace_oldest_seconds": "gauge",
    "taskyard_namespace_starving": "gauge",
    "taskyard_namespace_starving_seconds": "gauge",
    "taskyard_queue_wait_seconds": "histogram",
    "taskyard_run_time_seconds": "histogram",
}
BY_NAME = {name for name in TYPES if name.startswith(("taskyard_keys", "taskyard_action", "taskyard_namespace_"))} | {
    "taskyard_calls_refused"
}
"""These have a sample for each pattern, action, namespace or code, of which there are none here."""
COUNTED = (
    "submitted",
    "completed",
    "failed",
    "cancelled",
    "rejected",
    "expired",
    "dispatched",
    "evicted",
    "retried",
    "reopened",
)
PROCESS = (
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_start_time_seconds",
    "process_open_fds",
    "process_max_fds",
)


def every_hour(overlap):
    task = Submission("ann", "report")
    return ScheduleSpec(parse_interval("1h"), "UTC", task, overlap=overlap)


async def run_with_retries_and_resume(harness, namespace):
    """A task fails, is repeated, fails for good, is resumed, loses its lease, is repeated and cancelled."""
    task = await harness.submit(namespace, deadline=harness.now + 1_000, retry=RetryPolicy(2, 0.0))
    await harness.fail(await harness.claim(namespace), namespace)
    await harness.pass_time(1)
    await harness.fail(await harness.claim(namespace), namespace)
    await harness.engine.tasks.resume(namespace, task.id, show=live)
    await harness.start(await harness.claim(namespace, lease_secs=1), namespace)
    await harness.pass_time(2)
    await harness.pass_time(1)
    lease = await harness.claim(namespace)
    assert lease.task == task
    await harness.engine.tasks.cancel(namespace, task.id, show=live)


async def run_every_outcome(harness, namespace, rounds):
    """Cause every outcome `rounds` times, then a rejection. In the end one task is queued and one in flight."""
    for _ in range(rounds):
        await harness.submit(namespace)
        lease = await harness.claim(namespace)
        await harness.start(lease, namespace)
        await harness.complete(lease, namespace)
        with pytest.raises(LeaseLost):
            await harness.complete(lease, namespace)
        await harness.submit(namespace)
        await harness.fail(await harness.claim(namespace), namespace)
        task = await harness.submit(namespace)
        await harness.engine.tasks.cancel(namespace, task.id, show=live)
        await harness.submit(namespace, deadline=harness.now + 1)
        harness.now += 2
        assert await harness.engine.leases.claim(namespace, "host", show=live) == []
        await run_with_retries_and_resume(harness, namespace)
    await harness.submit(namespace)
    await harness.claim(namespace)
    await harness.submit(namespace)
    with pytest.raises(QueueFull):
        await harness.submit(namespace)


async def test_each_metric_has_its_name_and_type(make_harness):
    harness = await make_harness(max_queue_size=1)
    await run_every_outcome(harness, "default", 1)
    families = (await harness.scrape()).families
    ours = {name: family.type for name, family in families.items() if name.startswith("taskyard_")}
    assert ours == TYPES


async def test_each_metric_has_a_description(harness):
    families = (await harness.scrape()).families
    assert [name for name in TYPES if not families[name].documentation] == []


async def test_all_metrics_exist_before_the_first_event(harness):
    scrape = await harness.scrape()
    assert set(TYPES) <= set(scrape.families)
    assert {name: scrape.value(f"taskyard_tasks_{name}_total") for name in COUNTED} == dict.fromkeys(COUNTED, 0)
    assert scrape.value("taskyard_namespaces") == 0


async def test_counters_end_in_total_and_durations_are_in_seconds(harness):
    scrape = await harness.scrape()
    for name, kind in TYPES.items():
        if name in BY_NAME:
            continue
        samples = {sample.name for sample in scrape.families[name].samples}
        expected = {
            "gauge": {name},
            "counter": {f"{name}_total"},
            "histogram": {f"{name}_bucket", f"{name}_count", f"{name}_sum"},
        }
        assert samples == expected[kind]
        assert name.endswith("_seconds") == (kind == "histogram")


async def test_every_figure_counts_the_outcome_of_its_name(make_harness):
    harness = await make_harness(max_queue_size=1, max_inflight=1, max_retained_tasks=5)
    await run_every_outcome(harness, "default", 2)
    scrape = await harness.scrape()
    assert {name: scrape.value(f"taskyard_tasks_{name}_total") for name in COUNTED} == {
        "submitted": 2 * 5 + 2,
        "completed": 2,
        "failed": 2 * 3,
        "cancelled": 2 * 2,
        "rejected": 1,
        "expired": 2,
        "dispatched": 2 * (2 + 4) + 1,
        "evicted": 2 * 5 - 5,
        "retried": 2 * 2,
        "reopened": 2,
    }
    assert scrape.value("taskyard_tasks_queued") == 1
    assert scrape.value("taskyard_tasks_inflight") == 1
    assert scrape.value("taskyard_tasks_retained") == 5 + 1
    assert scrape.value("taskyard_namespaces") == 1
    assert scrape.value("taskyard_late_reports_total") == 2
    assert scrape.value("taskyard_leases_expired_total") == 2


async def test_figures_are_the_sums_over_all_namespaces(make_harness):
    harness = await make_harness(max_queue_size=1, max_inflight=1, max_retained_tasks=9)
    namespaces = {"default": 1, "acme": 2, "umbrella": 4}
    for namespace, rounds in namespaces.items():
        await run_every_outcome(harness, namespace, rounds)
    scrape = await harness.scrape()
    stats = [await harness.engine.admin.stats(namespace) for namespace in namespaces]
    for name in COUNTED:
        figure = scrape.value(f"taskyard_tasks_{name}_total")
        assert figure == sum(getattr(each.counters, name) for each in stats) > 0, name
    assert scrape.value("taskyard_late_reports_total") == sum(each.counters.late_reports for each in stats) == 7
    assert scrape.value("taskyard_tasks_queued") == sum(each.queued for each in stats) == 3
    assert scrape.value("taskyard_tasks_inflight") == sum(each.inflight for each in stats) == 3
    assert scrape.value("taskyard_namespaces") == 3


async def test_gauges_decrease_and_counters_do_not(harness):
    await harness.submit()
    before = await harness.scrape()
    assert (before.value("taskyard_tasks_queued"), before.value("taskyard_tasks_inflight")) == (1, 0)
    lease = await harness.claim()
    leased = await harness.scrape()
    assert (leased.value("taskyard_tasks_queued"), leased.value("taskyard_tasks_inflight")) == (0, 1)
    await harness.complete(lease)
    after = await harness.scrape()
    assert (after.value("taskyard_tasks_queued"), after.value("taskyard_tasks_inflight")) == (0, 0)
    assert after.value("taskyard_tasks_submitted_total") == 1


async def test_a_reopened_failure_stays_counted_as_a_failure(harness):
    task = await harness.submit()
    await harness.fail(await harness.claim())
    for resumes in range(1, 4):
        await harness.engine.tasks.resume("default", task.id, show=live)
        await harness.fail(await harness.claim())
        scrape = await harness.scrape()
        failed, reopened = (scrape.value(f"taskyard_tasks_{name}_total") for name in ("failed", "reopened"))
        assert (failed, reopened) == (resumes + 1, resumes)


async def test_webhooks_are_counted_by_outcome(harness):
    harness.webhooks.delivered, harness.webhooks.failed, harness.webhooks.dropped = 5, 3, 2
    scrape = await harness.scrape()
    by_outcome = {sample.labels["outcome"]: sample.value for sample in scrape.families["taskyard_webhooks"].samples}
    assert by_outcome == {"delivered": 5, "failed": 3, "dropped": 2}


async def test_what_runs_leave_behind_is_counted(make_harness):
    harness = await make_harness(max_output_bytes=100)
    host = await speaker(harness.engine)
    await host.say(1, 8)
    await host.say(9, 4)
    right = Right(host.task_id, HOST, host.token)
    for data in (b"one", b"other"):
        await put(harness.engine, right, "data", data)
    assert await got(harness.engine, host.task_id, "data", 1, 3) == b"th"
    scrape = await harness.scrape()
    chunks, said, dropped = (
        scrape.value(f"taskyard_output_{name}_total") for name in ("chunks", "bytes", "dropped_bytes")
    )
    assert (chunks, said, dropped) == (12, 120, 80)
    artifacts = [
        scrape.value(f"taskyard_{name}_total") for name in ("artifacts", "artifact_bytes", "artifact_read_bytes")
    ]
    assert artifacts == [2, 8, 2]
    assert scrape.value("taskyard_artifact_stored_bytes") == 5
    assert scrape.value("taskyard_artifact_failures_total") == 0


async def test_no_label_has_a_value_that_callers_choose_but_for_namespaces_and_actions(harness):
    await harness.submit("acme", "agent-of-theirs", tab_id="tab-of-theirs", project="project-of-theirs")
    await harness.claim("acme")
    scrape = await harness.scrape()
    assert scrape.value("taskyard_tasks_dispatched_total") == 1
    assert "of-theirs" not in scrape.text
    labels = {
        label
        for name, family in scrape.families.items()
        if name.startswith("taskyard_")
        for sample in family.samples
        for label in sample.labels
    }
    assert labels == {"outcome", "le", "namespace", "action", "status", "code"}


async def test_the_number_of_series_does_not_grow_with_agents_namespaces_and_tasks(make_harness):
    harness = await make_harness(max_queue_size=1)
    await run_every_outcome(harness, "default", 1)
    for number in range(2 * MAX_NAMES):
        await harness.submit(f"namespace-{number}", f"agent-{number}")
    few = (await harness.scrape()).families
    for number in range(20):
        await harness.submit(f"namespace-{number}-more", f"agent-{number}")
    many = (await harness.scrape()).families
    assert {name: len(family.samples) for name, family in many.items()} == {
        name: len(family.samples) for name, family in few.items()
    }


async def test_the_usual_process_metrics_exist(harness):
    scrape = await harness.scrape()
    assert {name: scrape.value(name) > 0 for name in PROCESS} == dict.fromkeys(PROCESS, True)
    assert "python_info" in scrape.families
    assert "python_gc_collections" in scrape.families


async def test_the_answer_is_in_the_text_format_of_prometheus(harness):
    assert (await harness.scrape()).content_type.startswith("text/plain; version=")


async def test_scrapes_are_answered_while_the_loop_is_busy(harness):
    async def work():
        while True:
            await harness.complete(await claimed())

    async def claimed():
        await harness.submit()
        # A loop that never waits would hardly let another thread have the interpreter.
        await asyncio.to_thread(int)
        return await harness.claim()

    working = asyncio.create_task(work())
    first = await until(harness.scrape_at_once, lambda scrape: scrape.value("taskyard_tasks_submitted_total") > 0)
    scrapes = [first, *await asyncio.gather(*[harness.scrape_at_once() for _ in range(2)])]
    working.cancel()
    for scrape in scrapes:
        submitted, completed = (scrape.value(f"taskyard_tasks_{name}_total") for name in ("submitted", "completed"))
        waiting = scrape.value("taskyard_tasks_queued") + scrape.value("taskyard_tasks_inflight")
        assert submitted == completed + waiting


async def test_a_paused_task_is_neither_queued_nor_in_flight(make_harness):
    harness = await make_harness()
    task = await harness.submit()
    await harness.claim()
    await harness.engine.tasks.pause("default", task.id, show=live)
    scrape = await harness.scrape()
    names = ("queued", "inflight", "paused")
    assert [scrape.value(f"taskyard_tasks_{name}") for name in names] == [0, 0, 1]


async def test_a_parked_task_is_counted_as_nothing_else(make_harness):
    harness = await make_harness()
    await harness.submit()
    await harness.park(await harness.claim(), Wait("time", "a", harness.now + 9))
    scrape = await harness.scrape()
    names = ("queued", "inflight", "paused", "parked")
    assert [scrape.value(f"taskyard_tasks_{name}") for name in names] == [0, 0, 0, 1]


async def test_hosts_are_counted_at_the_time_of_the_scrape(harness):
    await harness.engine.hosts.register("default", "silent", None, HostProfile(), show=live)
    await harness.pass_time(61)
    await harness.engine.hosts.register("red", "polls", None, HostProfile(), show=live)
    await harness.engine.hosts.register("red", "taskyard:tabs", None, HostProfile(), built_in=True, show=live)
    session, _ = await harness.engine.hosts.connect("default", Hello("streams", "i1"), lambda: None, show=live)
    scrape = await harness.scrape()
    assert (scrape.value("taskyard_hosts_online"), scrape.value("taskyard_host_streams")) == (2, 1)
    await harness.engine.hosts.disconnect(session)
    assert (await harness.scrape()).value("taskyard_host_streams") == 0


async def test_the_machine_is_that_of_the_newest_snapshot_and_absent_before_the_first(harness, monkeypatch):
    monkeypatch.setattr(psutil, "cpu_percent", lambda _interval: 12.5)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(used=64 * 1024 * 1024))
    assert not [name for name in (await harness.scrape()).families if name.startswith("taskyard_machine")]
    await harness.snapshots.take()
    scrape = await harness.scrape()
    for name, value in (("cpu_percent", 12.5), ("memory_mb", 64)):
        family = scrape.families[f"taskyard_machine_{name}"]
        assert (family.type, family.samples[0].value) == ("gauge", value)
        assert family.documentation


async def test_triggers_are_counted_by_outcome(make_harness):
    harness = await make_harness(max_queue_size=2, max_concurrent=2)
    schedules = harness.engine.schedules
    await schedules.create("default", "s", every_hour(Overlap.ALLOW), show=live)
    await schedules.create("default", "t", every_hour(Overlap.SKIP), paused=True, show=live)
    for _ in range(2):
        await schedules.trigger("default", "s", None, None, show=live)
        await harness.complete(await harness.claim("default"), "default")
    await schedules.trigger("default", "t", None, None, show=live)
    await schedules.trigger("default", "t", None, None, show=live)
    await harness.fail(await harness.claim("default"), "default")
    for _ in range(2):
        await harness.submit("default")
    await schedules.trigger("default", "s", None, None, show=live)
    await schedules.trigger("default", "t", None, None, show=live)
    scrape = await harness.scrape()
    counted = ("fired", "completed", "failed", "skipped", "deferred")
    assert [scrape.value(f"taskyard_triggers_{name}_total") for name in counted] == [3, 2, 1, 1, 2]
    gauges = ("schedules", "triggers_pending", "triggers_executing")
    assert [scrape.value(f"taskyard_{name}") for name in gauges] == [2, 2, 0]
