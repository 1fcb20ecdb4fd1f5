"""What is left in memory of a deleted namespace (docs/rules.md, Deleting a namespace)."""

import asyncio

import pytest

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import IdempotencyKey, TaskOptions
from taskyard_server.engine import namespace_disposal as emptying
from taskyard_server.engine.engine import Engine
from tests import reporting
from tests.live import live
from tests.store.dict_store import DictStore

NS = "default"


def submission(number, **options):
    return Submission("ann", "click", options=TaskOptions(key=IdempotencyKey(f"{number}", b""), **options))


@pytest.mark.parametrize("store", [None, DictStore])
async def test_tasks_of_all_kinds_are_freed_in_slices(monkeypatch, store):
    monkeypatch.setattr(emptying, "AT_ONCE", 10)
    monkeypatch.setattr(emptying, "PAUSE_SECS", 0)
    limits = Limits(max_inflight=100, max_per_agent_inflight=100, idempotency_secs=1000)
    engine = Engine(limits, store=store and store())
    await engine.open()
    await engine.hosts.register(NS, "host", None, HostProfile(), show=live)
    for number in range(30):
        await engine.tasks.submit(NS, submission(number, target=f"t{number % 3}"), show=live)
    await engine.tasks.submit_batch(NS, [submission(100 + number) for number in range(30)], show=live)
    await engine.tasks.submit(NS, submission(200, hold=True), show=live)
    first, second, third, *_ = await engine.leases.claim(NS, "host", 20, show=live)
    for lease in (first, second, third):
        await reporting.start(engine, NS, "host", lease.task.id, lease.token)
    await reporting.complete(engine, NS, "host", first.task.id, first.token, None)
    await reporting.fail(engine, NS, "host", second.task.id, second.token, "broken")
    await engine.tasks.pause(NS, third.task.id, show=live)

    scheduler = engine._namespaces.here(NS).scheduler
    await engine.namespaces.delete(NS, force=True)
    for _ in range(50):
        await asyncio.sleep(0)
    life = scheduler.life
    assert list(scheduler.tasks_after(0)) == []
    assert (life.counts.queued, life.counts.inflight, life.counts.paused) == (0, 0, 0)
    assert (life.tasks.by_key, life.agents.by_id, list(life.targets.after(""))) == ({}, {}, [])
    await engine.admin.close()
