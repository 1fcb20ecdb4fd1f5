"""The spans of tasks: what each is about, when it begins and ends, and what is below it (docs/rules.md, Telemetry)."""

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanKind, StatusCode

from taskyard_server.core.history import RetryPolicy, Wait
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.task import Submission
from taskyard_server.core.task_options import TaskOptions
from taskyard_server.engine.questions import NewAnswer
from taskyard_server.telemetry.sampling import Sampler
from taskyard_server.telemetry.spans import Spans
from taskyard_server.telemetry.tasks import TaskSpans
from tests import reporting
from tests.engines import settled
from tests.live import live
from tests.telemetry.conftest import CALLER, NOT_RECORDED, RECORDED, TRACE, Sink, ids, parent, traceparent


@pytest.fixture
def yard(engine, clock, sink):
    return Yard(engine, clock, sink)


class Yard:
    def __init__(self, engine, clock, sink):
        self.engine, self.clock, self.sink = engine, clock, sink

    async def submit(self, traceparent=RECORDED, **options):
        submission = Submission("ann", "crawl", options=TaskOptions(traceparent=traceparent, **options))
        return await self.engine.tasks.submit("red", submission, show=live)

    async def claim(self):
        await self.engine.hosts.register("red", "host", None, HostProfile(), show=live)
        (lease,) = await self.engine.leases.claim("red", "host", wait_secs=5, show=live)
        return lease

    async def told(self):
        """The spans so far, by name."""
        await settled(self.engine)
        return {span.name: span for span in self.sink.spans}


def secs(span):
    return span.start_time / 1e9 - 1_700_000_000, span.end_time / 1e9 - 1_700_000_000


async def test_a_task_has_a_span_of_its_run_and_below_it_of_its_wait_and_its_attempt(yard, clock):
    task = await yard.submit()
    clock.now += 2
    lease = await yard.claim()
    clock.now += 1
    await reporting.start(yard.engine, "red", "host", task.id, lease.token)
    clock.now += 3
    await reporting.complete(yard.engine, "red", "host", task.id, lease.token, None)
    spans = await yard.told()
    run, wait, attempt = (spans[name] for name in ("task crawl", "queue crawl", "run crawl"))
    assert ids(run)[0] == ids(wait)[0] == ids(attempt)[0] == TRACE
    assert (parent(run), parent(wait), parent(attempt)) == (CALLER, ids(run)[1], ids(run)[1])
    assert (secs(run), secs(wait), secs(attempt)) == ((0, 6), (0, 2), (2, 6))
    assert [(moment.name, moment.timestamp / 1e9 - 1_700_000_000) for moment in attempt.events] == [("started", 3)]
    assert (run.kind, wait.kind, attempt.kind) == (SpanKind.INTERNAL, SpanKind.INTERNAL, SpanKind.PRODUCER)
    assert run.status.status_code is StatusCode.UNSET
    assert dict(attempt.attributes) == {
        "messaging.system": "taskyard",
        "messaging.destination.name": "crawl",
        "messaging.message.id": task.id,
        "taskyard.namespace": "red",
        "taskyard.agent.id": "ann",
        "taskyard.host.id": "host",
        "taskyard.task.run": 1,
        "taskyard.task.attempt": 1,
        "taskyard.task.state": "done",
    }


@pytest.mark.parametrize("given", [None, NOT_RECORDED])
async def test_a_task_that_is_not_traced_has_none_and_keeps_what_it_was_given(yard, tracing, given):
    task = await yard.submit(given)
    lease = await yard.claim()
    assert tracing.tasks.handed(lease.task) is lease.task
    await reporting.complete(yard.engine, "red", "host", task.id, lease.token, None)
    assert await yard.told() == {}


async def test_a_host_is_handed_the_trace_context_of_its_attempt(yard, tracing):
    task = await yard.submit()
    lease = await yard.claim()
    handed = tracing.tasks.handed(lease.task).options.traceparent
    assert task.options.traceparent == RECORDED
    await reporting.complete(yard.engine, "red", "host", task.id, lease.token, None)
    assert traceparent((await yard.told())["run crawl"]) == handed


async def test_each_attempt_has_its_span_and_its_error(yard, tracing, clock):
    task = await yard.submit(retry=RetryPolicy(max_attempts=2, first_delay_secs=0.0))
    first = await yard.claim()
    handed = [tracing.tasks.handed(first.task).options.traceparent]
    await reporting.start(yard.engine, "red", "host", task.id, first.token)
    await reporting.fail(yard.engine, "red", "host", task.id, first.token, "no page", code="gone")
    clock.now += 1
    second = await yard.claim()
    handed.append(tracing.tasks.handed(second.task).options.traceparent)
    await reporting.fail(yard.engine, "red", "host", task.id, second.token, "no page again", code="gone")
    spans = await yard.told()
    attempts = yard.sink.named("run crawl")
    assert [traceparent(attempt) for attempt in attempts] == handed
    assert [attempt.status.description for attempt in attempts] == ["no page", "no page again"]
    assert [attempt.attributes["taskyard.task.attempt"] for attempt in attempts] == [1, 2]
    assert len(yard.sink.named("queue crawl")) == 2
    assert len(yard.sink.named("task crawl")) == 1
    run = spans["task crawl"]
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "no page again")
    assert run.attributes["error.type"] == "gone"


async def test_what_a_host_gave_back_is_no_attempt(yard):
    task = await yard.submit()
    given_back = await yard.claim()
    await yard.engine.hosts.deregister("red", "host")
    lease = await yard.claim()
    await reporting.complete(yard.engine, "red", "host", task.id, lease.token, None)
    await yard.told()
    first, second = yard.sink.named("run crawl")
    assert given_back.token != lease.token
    assert ids(first)[1] != ids(second)[1]
    assert first.status.status_code is StatusCode.UNSET


async def test_a_run_ends_where_a_task_fails_and_a_resume_begins_the_next_one(yard, clock):
    task = await yard.submit()
    lease = await yard.claim()
    await reporting.fail(yard.engine, "red", "host", task.id, lease.token, "no page")
    clock.now += 10
    await yard.engine.tasks.resume("red", task.id, show=live)
    clock.now += 1
    lease = await yard.claim()
    await reporting.complete(yard.engine, "red", "host", task.id, lease.token, None)
    await yard.told()
    first, second = yard.sink.named("task crawl")
    assert (secs(first), secs(second)) == ((0, 0), (10, 11))
    assert ids(first)[1] != ids(second)[1]
    assert second.attributes["taskyard.task.run"] == 2


async def test_a_failed_task_that_is_resolved_has_no_second_end(yard):
    task = await yard.submit()
    lease = await yard.claim()
    await reporting.fail(yard.engine, "red", "host", task.id, lease.token, "no page")
    await yard.engine.tasks.resolve("red", task.id, None, show=live)
    await yard.told()
    assert len(yard.sink.named("task crawl")) == 1


async def test_a_cancelled_task_is_no_error_and_its_wait_is_told(yard, clock):
    task = await yard.submit()
    clock.now += 4
    await yard.engine.tasks.cancel("red", task.id, show=live)
    spans = await yard.told()
    assert set(spans) == {"queue crawl", "task crawl"}
    assert secs(spans["queue crawl"]) == (0, 4)
    assert spans["task crawl"].status.status_code is StatusCode.UNSET
    assert spans["task crawl"].attributes["taskyard.task.state"] == "cancelled"


async def test_a_task_of_a_server_before_this_one_has_the_spans_that_are_left(yard, tracing, clock):
    task = await yard.submit()
    lease = await yard.claim()
    await yard.told()
    later = Sink()
    yard.engine.subscribe(TaskSpans(Spans(later, Resource({}), clock), Sampler(0)))
    clock.now += 5
    await reporting.complete(yard.engine, "red", "host", task.id, lease.token, None)
    await yard.told()
    spans = {span.name: span for span in later.spans}
    assert set(spans) == {"run crawl", "task crawl"}
    assert parent(spans["run crawl"]) == ids(spans["task crawl"])[1]
    assert traceparent(spans["run crawl"]) == tracing.tasks.handed(lease.task).options.traceparent
    assert secs(spans["task crawl"]) == (0, 5)


async def test_a_parked_task_has_a_span_of_that_below_that_of_its_run(yard, clock):
    task = await yard.submit()
    lease = await yard.claim()
    clock.now += 1
    await reporting.park(yard.engine, "red", "host", task.id, lease.token, Wait("answer", "go"))
    parked = (await yard.told())["run crawl"]
    assert secs(parked) == (0, 1)
    clock.now += 5
    given = NewAnswer(task.id, "go", None, None, lambda _: None, lambda _: False)
    await yard.engine.questions.answer("red", given)
    lease = await yard.claim()
    clock.now += 2
    await reporting.start(yard.engine, "red", "host", task.id, lease.token)
    await reporting.complete(yard.engine, "red", "host", task.id, lease.token, None)
    spans = await yard.told()
    run, park, attempt = (spans[name] for name in ("task crawl", "park crawl", "run crawl"))
    assert (secs(run), secs(park), secs(attempt)) == ((0, 8), (1, 6), (6, 8))
    assert parent(parked) == parent(park) == parent(attempt) == ids(run)[1]
    assert ids(parked) != ids(attempt)
