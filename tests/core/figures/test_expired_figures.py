"""Tasks that expired in the queue are counted as failed, too, whatever becomes of them (docs/rules.md, Figures)."""

from random import Random

import pytest

from taskyard_server.core.errors import Conflict
from taskyard_server.core.figures.figures import stats_of

IN_THE_QUEUE = "deadline exceeded while queued"


def counts(yard):
    """The documented figures: tasks that failed, and those of them that expired."""
    counters = stats_of(yard.scheduler).counters
    return counters.failed - counters.reopened, counters.expired - counters.expired_reopened


def expired(yard, **options):
    task = yard.submit(deadline=yard.now + 1, **options)
    yard.pass_time(1.2)
    assert task.error == IN_THE_QUEUE
    return task


@pytest.mark.parametrize("command", ["resume", "resolve"])
def test_an_expired_task_that_goes_on_counts_neither_as_failed_nor_as_expired(yard, command):
    task = expired(yard)
    assert counts(yard) == (1, 1)
    getattr(yard, command)(task)
    assert counts(yard) == (0, 0)


def test_a_task_that_expires_again_counts_again(yard):
    task = expired(yard)
    for _ in range(3):
        yard.resume(task)
        assert counts(yard) == (0, 0)
        yard.pass_time(1.2)
        assert counts(yard) == (1, 1)


def test_a_task_that_expires_once_and_fails_later_is_a_failure_alone(yard):
    task = expired(yard)
    yard.resume(task)
    yard.register()
    yard.fail(yard.start_one())
    assert counts(yard) == (1, 0)
    yard.resume(task)
    assert counts(yard) == (0, 0)


def test_a_deadline_in_flight_does_not_count_as_expired(yard):
    yard.register()
    task = yard.submit(deadline=yard.now + 1)
    yard.start_one()
    yard.pass_time(1.2)
    assert counts(yard) == (1, 0)
    yard.resume(task)
    assert counts(yard) == (0, 0)


def test_a_host_error_with_the_text_of_an_expiry_does_not_count_as_expired(yard):
    yard.register()
    task = yard.submit()
    yard.fail(yard.start_one(), IN_THE_QUEUE)
    assert counts(yard) == (1, 0)
    yard.resume(task)
    assert counts(yard) == (0, 0)


@pytest.mark.parametrize("seed", range(5))
def test_no_history_of_failures_and_resumes_makes_expired_exceed_failed_or_fall_below_zero(make_yard, seed):
    draw = Random(seed)
    yard = make_yard(max_deliveries=2)
    yard.register()
    for _ in range(400):
        match draw.randrange(5):
            case 0 | 1:
                yard.submit(deadline=yard.now + draw.randrange(1, 20), target=draw.choice([None, "t"]))
            case 2:
                for lease in yard.claim(lease_secs=2):
                    if draw.random() < 0.5:
                        yard.fail(lease, draw.choice(["broken", IN_THE_QUEUE]))
            case 3 if failed := [task for task in yard.tasks() if task.state == "failed"]:
                command = draw.choice([yard.resume, yard.resolve, yard.cancel])
                try:
                    command(draw.choice(failed))
                except Conflict:
                    assert command == yard.cancel
            case _:
                yard.pass_time(draw.randrange(4))
        failures, expirations = counts(yard)
        assert 0 <= expirations <= failures
        assert failures >= sum(task.error == IN_THE_QUEUE for task in yard.tasks())
