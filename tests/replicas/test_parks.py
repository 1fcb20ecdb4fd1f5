"""Steps, parked tasks and children by name over owners: the next one goes on with them.

None are taken while an older version may come to serve.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.core.errors import NotFound, Unavailable
from taskyard_server.core.history import Wait
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.runs.steps import NewStep
from taskyard_server.core.task import ASSIGNED, DONE, PARKED, QUEUED, Submission
from taskyard_server.core.task_options import TaskExtras, TaskOptions
from taskyard_server.engine.questions import NewAnswer
from taskyard_server.store.port import ARTIFACTS_LEVEL
from tests.live import live
from tests.speakers import HOST

from .members import Yard
from .test_versions import leave, speaker_on

PAGE = Submission("", "crawl", options=TaskOptions(extras=TaskExtras(child_name="page")))
ASKED = (Wait("answer", "go", None, (), b"question"),)


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


async def park(engine, host, *waits):
    report = Report(ReportKind.PARKED, host.task_id, host.token, waits=waits)
    (outcome,) = await engine.leases.report("shop", HOST, [report])
    return outcome


async def submit_child(engine, host):
    under = ("shop", HOST, host.task_id, host.token)
    return await engine.children.submit(*under, PAGE, show=lambda made: (made[0].id, made[0].state, made[1]))


async def answer(engine, host, word=b"yes"):
    said = NewAnswer(host.task_id, "go", word, "bob", lambda _: None, lambda other: other == word)
    return await engine.questions.answer("shop", said)


async def steps_of(engine, host):
    return [(step.kind, step.name, step.result) for step in await engine.steps.list("shop", host.task_id)]


async def test_the_next_owner_has_the_steps_and_wakes_who_is_parked(yard: Yard) -> None:
    one = await yard.member("one")
    host = await speaker_on(one)
    await one.engine.steps.record("shop", HOST, NewStep(host.task_id, host.token, "a", b"1"))
    assert await park(one.engine, host, *ASKED) is PARKED
    other = await yard.member("other")
    await leave(yard, one)
    await yard.settle()
    assert await steps_of(other.engine, host) == [("work", "a", b"1")]
    assert await park(other.engine, host, *ASKED) is PARKED
    assert await answer(other.engine, host) is QUEUED
    assert await answer(other.engine, host) is QUEUED
    assert await steps_of(other.engine, host) == [("work", "a", b"1"), ("answer", "go", b"yes")]
    (lease,) = await other.engine.leases.claim("shop", HOST, show=live)
    assert lease.task.id == host.task_id
    new = NewStep(host.task_id, lease.token, "a", b"2")
    assert await other.engine.steps.record("shop", HOST, new) == (1, True)
    assert (await other.engine.tasks.get("shop", host.task_id, show=live)).state is ASSIGNED


async def test_the_next_owner_finds_the_children_of_a_task(yard: Yard) -> None:
    one = await yard.member("one")
    host = await speaker_on(one)
    made, *rest = await submit_child(one.engine, host)
    assert rest == [QUEUED, False]
    *_, lease = await one.engine.leases.claim("shop", HOST, 2, show=live)
    assert lease.task.id == made
    completed = Report(ReportKind.COMPLETED, made, lease.token, payload=b"1")
    assert await one.engine.leases.report("shop", HOST, [completed]) == [DONE]
    other = await yard.member("other")
    await leave(yard, one)
    await yard.settle()
    assert await submit_child(other.engine, host) == (made, DONE, True)
    under = ("shop", HOST, host.task_id, host.token)
    assert await other.engine.children.fetch(*under, "page", show=lambda found: found.task.result) == b"1"


async def test_none_is_taken_while_an_older_version_lives(yard: Yard) -> None:
    old = await yard.member("old", ARTIFACTS_LEVEL - 1)
    new = await yard.member("new", ARTIFACTS_LEVEL)
    host = await speaker_on(new)
    step = NewStep(host.task_id, host.token, "a", b"1")
    with pytest.raises(Unavailable, match="steps: not before all replicas of this store are of this version"):
        await new.engine.steps.record("shop", HOST, step)
    with pytest.raises(Unavailable, match="onParentEnd: not before all replicas of this store are of this version"):
        await submit_child(new.engine, host)
    refused = await park(new.engine, host, *ASKED)
    assert isinstance(refused, Unavailable)
    assert refused.message.startswith("parked: not before all replicas")
    with pytest.raises(NotFound):
        await answer(new.engine, host)
    await leave(yard, old)
    await yard.settle()
    assert await new.engine.steps.record("shop", HOST, step) == (1, False)
    assert (await submit_child(new.engine, host))[1:] == (QUEUED, False)
    assert await park(new.engine, host, *ASKED) is PARKED
