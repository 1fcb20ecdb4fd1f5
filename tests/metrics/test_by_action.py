"""What happened to tasks, by namespace, action and outcome, for few names (docs/operate/monitoring.md)."""

import pytest

from taskyard_server.core.errors import QueueFull
from taskyard_server.interceptors.errors import MAPPINGS
from tests.live import live

from .conftest import MAX_NAMES


def ended(scrape, namespace, action):
    """How many tasks of an action ended, by outcome."""
    return {
        sample.labels["outcome"]: sample.value
        for sample in scrape.families["taskyard_action_ended"].samples
        if sample.labels["namespace"] == namespace and sample.labels["action"] == action
    }


def names(scrape, label, name="taskyard_action_submitted"):
    return {sample.labels[label] for sample in scrape.families[name].samples}


async def test_tasks_are_counted_by_namespace_action_and_outcome(make_harness):
    harness = await make_harness(max_queue_size=1)
    await harness.submit("acme", action="crawl")
    lease = await harness.claim("acme")
    await harness.start(lease, "acme")
    harness.now += 3
    await harness.complete(lease, "acme")
    for _ in range(2):
        await harness.submit("acme", action="crawl")
        await harness.fail(await harness.claim("acme"), "acme")
    cancelled = await harness.submit("acme", action="crawl")
    await harness.engine.tasks.cancel("acme", cancelled.id, show=live)
    await harness.submit("acme", action="crawl", deadline=harness.now + 1)
    await harness.pass_time(2)
    await harness.submit("acme", action="index")
    with pytest.raises(QueueFull):
        await harness.submit("acme", action="crawl")
    scrape = await harness.scrape()
    assert ended(scrape, "acme", "crawl") == {"done": 1, "failed": 2, "cancelled": 1, "expired": 1, "rejected": 1}
    assert ended(scrape, "acme", "index") == {}
    of = {"namespace": "acme", "action": "crawl"}
    assert scrape.value("taskyard_action_submitted_total", **of) == 5
    assert scrape.value("taskyard_action_dispatched_total", **of) == 3
    assert scrape.value("taskyard_action_runs_total", **of) == 1
    assert scrape.value("taskyard_action_run_seconds_total", **of) == 3


async def test_only_the_first_actions_of_a_namespace_have_names(harness):
    for number in range(MAX_NAMES + 2):
        await harness.submit("acme", action=f"action-{number}")
    await harness.submit("umbrella", action="late")
    scrape = await harness.scrape()
    assert names(scrape, "action") == {f"action-{number}" for number in range(MAX_NAMES)} | {"other", "late"}
    assert scrape.value("taskyard_action_submitted_total", namespace="acme", action="other") == 2


async def test_only_the_first_namespaces_have_names(harness):
    for number in range(MAX_NAMES + 2):
        await harness.submit(f"namespace-{number}", action="crawl")
    scrape = await harness.scrape()
    for family in ("taskyard_action_submitted", "taskyard_namespace_queued"):
        assert names(scrape, "namespace", family) == {f"namespace-{number}" for number in range(MAX_NAMES)} | {"other"}
    assert scrape.value("taskyard_action_submitted_total", namespace="other", action="crawl") == 2
    assert scrape.value("taskyard_namespace_queued", namespace="other") == 2


async def test_one_called_other_is_counted_with_the_others(harness):
    await harness.submit("other", action="other")
    for number in range(MAX_NAMES + 1):
        await harness.submit(f"namespace-{number}", action="other")
    scrape = await harness.scrape()
    assert scrape.value("taskyard_action_submitted_total", namespace="other", action="other") == 2


async def test_a_namespace_that_was_deleted_leaves_its_place_to_another_one(harness):
    for number in range(MAX_NAMES):
        await harness.submit(f"namespace-{number}")
    await harness.scrape()
    harness.engine.namespaces.subscribe(harness.metrics.deleted)
    await harness.engine.namespaces.delete("namespace-0", force=True)
    await harness.submit("late")
    scrape = await harness.scrape()
    assert names(scrape, "namespace") == {*(f"namespace-{number}" for number in range(1, MAX_NAMES)), "late"}


async def test_refused_calls_are_counted_by_their_code(harness):
    harness.metrics.refused.update({"queue_full": 3, "not_found": 1})
    scrape = await harness.scrape()
    counts = {sample.labels["code"]: sample.value for sample in scrape.families["taskyard_calls_refused"].samples}
    assert counts == dict.fromkeys(MAPPINGS, 0) | {"queue_full": 3, "not_found": 1}


async def test_hosts_are_counted_by_status(harness):
    await harness.submit()
    await harness.claim()
    scrape = await harness.scrape()
    assert {sample.labels["status"] for sample in scrape.families["taskyard_hosts"].samples} == {
        *("alive", "idle", "busy", "dead"),
    }
    assert sum(sample.value for sample in scrape.families["taskyard_hosts"].samples) == 1
    await harness.pass_time(3_600)
    assert (await harness.scrape()).value("taskyard_hosts", status="dead") == 1
