"""The log of leases that are lost (docs/rules.md, Logs)."""

from collections import Counter
from functools import partial

import pytest
import structlog

from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.streams import Hello
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.virtual_clock import VirtualClock
from taskyard_server.logs import logs
from taskyard_server.logs.logs import LossLog
from taskyard_server.logs.throttle import Throttle
from tests import reporting
from tests.engines import running_engine, settled
from tests.live import live

NS = "red"
START = 1_700_000_000.0
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def lines():
    """The lines that are logged during the test, as dicts."""
    with structlog.testing.capture_logs() as captured:
        yield captured


@pytest.fixture
def clock():
    return VirtualClock(START)


@pytest.fixture
async def engine(clock, monkeypatch):
    monkeypatch.setattr(logs, "Throttle", partial(Throttle, clock=lambda: 1000.0))
    many = {"max_per_agent": 1000, "max_inflight": 1000, "max_per_agent_inflight": 1000}
    async with running_engine(Limits(**many, default_deadline_secs=10_000), clock) as made:
        made.leases.subscribe(LossLog())
        await made.hosts.register(NS, "host", None, HostProfile(), show=live)
        yield made


async def pass_time(engine, clock, secs):
    """Let everything happen that comes due."""
    await settled(engine)
    clock.move_to(clock() + secs)
    clock.ring()
    await settled(engine)


def expired(lines):
    return [line for line in lines if line["event"] == "lease_expired"]


async def test_a_lost_lease_is_a_line_with_task_host_attempt_and_reason(engine, clock, lines):
    submission = Submission("ann", "click", options=TaskOptions(traceparent=TRACE))
    task = await engine.tasks.submit(NS, submission, show=live)
    for _ in range(2):
        (lease,) = await engine.leases.claim(NS, "host", lease_secs=10, show=live)
        await reporting.start(engine, NS, "host", task.id, lease.token)
        await pass_time(engine, clock, 11)
    common = {"event": "lease_expired", "log_level": "warning", "why": "lease expired", "namespace": NS}
    of_task = {"task_id": task.id, "agent_id": "ann", "host_id": "host", "trace_id": TRACE[3:35]}
    assert expired(lines) == [
        {**common, **of_task, "attempt": attempt, "fencing_token": attempt, "state": "queued"} for attempt in (1, 2)
    ]


async def test_it_says_what_becomes_of_the_task(engine, clock, lines):
    submission = Submission("ann", "click", options=TaskOptions(target="till"))
    await engine.tasks.submit(NS, submission, show=live)
    await engine.leases.claim(NS, "host", lease_secs=10, show=live)
    await pass_time(engine, clock, 11)
    assert [line["state"] for line in expired(lines)] == ["failed"]


async def test_a_dead_host_is_the_reason(engine, clock, lines):
    await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
    await engine.leases.claim(NS, "host", lease_secs=3600, show=live)
    await pass_time(engine, clock, 200)
    engine.admin.reconcile()
    await settled(engine)
    assert [line["why"] for line in expired(lines)] == ["lease expired: runtime host host missed 2 heartbeats"]


async def test_a_task_that_its_host_does_not_begin_is_told_too(engine, clock, lines):
    session, _ = await engine.hosts.connect(NS, Hello("other", "i1"), lambda: None, show=live)
    await engine.hosts.give_credit(session, 1)
    await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
    await pass_time(engine, clock, 30)
    line = expired(lines)[0]
    assert (line["why"], line["host_id"], line["attempt"]) == ("not started by its host", "other", 1)


async def test_reports_and_cancellations_are_no_losses(engine, lines):
    for end in (partial(reporting.complete, result=None), reporting.release):
        await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
        (lease,) = await engine.leases.claim(NS, "host", show=live)
        await end(engine, NS, "host", lease.task.id, lease.token)
    (lease,) = await engine.leases.claim(NS, "host", show=live)
    await engine.tasks.cancel(NS, lease.task.id, show=live)
    await settled(engine)
    assert expired(lines) == []


async def test_a_hundred_a_second_are_logged(engine, clock, lines):
    for _ in range(130):
        await engine.tasks.submit(NS, Submission("ann", "click"), show=live)
    await engine.leases.claim(NS, "host", 130, lease_secs=10, show=live)
    await pass_time(engine, clock, 11)
    assert Counter(line["event"] for line in expired(lines)) == {"lease_expired": 100}
