"""What commands answer: what `show` made of it, in the turn of the command or of the grant."""

import asyncio

import pytest

from taskyard_server.core.errors import NotFound, Refusal
from taskyard_server.core.reports import Report, ReportKind
from taskyard_server.core.search.task_filter import TaskFilter
from tests.live import live

NS = "default"


def states_of(leases):
    return [lease.task.state.value for lease in leases]


async def test_a_command_answers_what_was_shown_in_its_turn(engine, submission):
    state = await engine.tasks.submit(NS, submission(), show=lambda task: task.state.value)
    assert state == "queued"


async def test_submissions_are_admitted_when_they_are_made_and_answered_later(engine, submission):
    answer = engine.tasks.submit_each(NS, [submission()], show=lambda tasks: [task.state.value for task in tasks])
    (task,) = (await engine.tasks.list_tasks(NS, TaskFilter(), 0, 10)).tasks
    await engine.tasks.cancel(NS, task.id, show=live)
    assert await answer == ["queued"]


async def test_reports_are_applied_when_they_are_made_and_answered_later(engine, host, submission):
    task = await engine.tasks.submit(NS, submission(), show=live)
    (lease,) = await engine.leases.claim(NS, host, show=live)
    started = engine.leases.report(NS, host, [Report(ReportKind.STARTED, task.id, lease.token)])
    completed = engine.leases.report(NS, host, [Report(ReportKind.COMPLETED, task.id, lease.token)])
    assert task.state == "done"
    assert [*await started, *await completed] == ["running", "done"]


async def test_a_waiting_claim_answers_what_was_shown_at_the_grant(engine, host, clock, submission):
    claiming = asyncio.create_task(engine.leases.claim(NS, host, wait_secs=10, show=states_of))
    await clock.run_pending()
    await engine.tasks.submit(NS, submission(), show=live)
    assert await claiming == ["assigned"]


async def test_a_fault_in_showing_a_grant_fails_that_claim_alone(engine, host, clock, submission):
    faulty = asyncio.create_task(engine.leases.claim(NS, host, wait_secs=10, show=lambda leases: leases[1]))
    await clock.run_pending()
    sound = asyncio.create_task(engine.leases.claim(NS, host, wait_secs=10, show=states_of))
    await clock.run_pending()
    for _ in range(2):
        await engine.tasks.submit(NS, submission(), show=live)
    assert await sound == ["assigned"]
    with pytest.raises(IndexError):
        await faulty


async def test_a_refused_command_shows_nothing(engine):
    shown = []
    with pytest.raises(Refusal):
        await engine.leases.claim(NS, "stranger", show=shown.append)
    with pytest.raises(NotFound):
        await engine.tasks.get(NS, "tsk_0", show=shown.append)
    assert shown == []
