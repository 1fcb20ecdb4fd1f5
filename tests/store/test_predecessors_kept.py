"""Tasks that come after others, and unique keys, over restarts (docs/rules.md, Predecessors, Unique keys)."""

from __future__ import annotations

import pytest

from taskyard_server.core.errors import AlreadyExists
from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.task import Existing, Task
from taskyard_server.core.task_options import AfterPolicy, IdempotencyKey, OnConflict, UniqueWhile
from tests.store.kept_yard import START, KeptYard

TTL = 10.0
FAR = 1e9
KEY = IdempotencyKey("once", b"print")


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard(result_ttl_secs=TTL, default_deadline_secs=FAR, lease_secs=1000.0, heartbeat_timeout_secs=FAR)
    yard.host()
    return yard


def restart(yard: KeptYard, after: float = 0.0, shift: float = 0.0) -> None:
    """As the engine does: only tasks whose time in memory is not over are loaded, and those that others wait for."""
    yard.commit()
    yard.now += after
    yard.restart(ended_since_ms=int((yard.now - TTL) * 1000), shift=shift)


def now(yard: KeptYard, task: Task) -> Task:
    """The task as it is loaded."""
    found = yard.scheduler.find(task.id)
    assert found is not None
    return found


def after(*tasks: Task) -> dict[str, tuple[str, ...]]:
    return {"after": tuple(task.id for task in tasks)}


def run(yard: KeptYard, task: Task) -> None:
    lease = yard.claim()
    assert lease.task.id == task.id
    yard.complete(lease)


def test_a_task_goes_on_waiting_and_is_let_go(yard):
    first = yard.submit()
    second = yard.submit(target="till", **after(first))
    restart(yard, after=100)
    assert (now(yard, second).state, stats_of(yard.scheduler).after_others) == ("pending", 1)
    assert now(yard, second).deadline is None
    run(yard, first)
    yard.pass_time(0)
    assert now(yard, second).state == "queued"
    assert now(yard, second).deadline == yard.now + FAR


@pytest.mark.parametrize(("end", "state"), [("done", "queued"), ("failed", "cancelled"), ("cancelled", "cancelled")])
@pytest.mark.parametrize("secs", [0, 10 * TTL], ids=["at once", "after long"])
def test_what_was_to_follow_at_the_end_of_the_process_follows_at_the_next(yard, end, state, secs):
    first = yard.submit()
    second = yard.submit(**after(first))
    third = yard.submit(**after(second))
    if end == "done":
        run(yard, first)
    elif end == "failed":
        yard.fail(yard.claim())
    else:
        yard.scheduler.cancel(yard.now, first.id)
    # Nobody has looked at the followers yet.
    assert second.state == "pending"
    restart(yard, after=secs)
    yard.pass_time(0)
    assert now(yard, second).state == state
    assert now(yard, third).state == ("pending" if end == "done" else "cancelled")


def test_a_cascade_that_was_cut_off_goes_on(yard):
    first = yard.submit()
    line = [first]
    for _ in range(50):
        line.append(yard.submit(**after(line[-1])))
    yard.scheduler.cancel(yard.now, first.id)
    yard.scheduler.advance(yard.now, 21)
    assert 0 < sum(task.state == "pending" for task in line) < 50
    restart(yard, after=100)
    yard.pass_time(0)
    assert {now(yard, task).state for task in line[-10:]} == {"cancelled"}


def test_a_task_that_is_waited_for_is_there_again_though_it_ended_long_ago(yard):
    first, second = yard.submit(), yard.submit()
    third = yard.submit(**after(first, second))
    run(yard, first)
    yard.pass_time(10 * TTL)
    assert yard.scheduler.find(first.id) is first
    restart(yard, after=10 * TTL)
    assert now(yard, first).state == "done"
    yard.pass_time(0)
    assert list(yard.scheduler.life.retention.aside) == [now(yard, first)]
    run(yard, second)
    yard.pass_time(0)
    assert (now(yard, third).state, yard.scheduler.find(first.id)) == ("queued", None)


def test_a_failure_of_long_ago_that_blocks_its_target_is_waited_for(yard):
    first = yard.submit(target="till")
    lease = yard.claim()
    yard.start(lease)
    yard.fail(lease)
    second = yard.submit(**after(first))
    restart(yard, after=10 * TTL)
    yard.pass_time(0)
    assert now(yard, second).state == "pending"
    yard.scheduler.resolve(yard.now, first.id, None)
    yard.pass_time(0)
    assert now(yard, second).state == "queued"


def test_what_was_forgotten_altogether_had_ended_well_enough(yard):
    first, second = yard.submit(), yard.submit()
    third = yard.submit(**after(first, second))
    run(yard, first)
    yard.commit()
    for table in (yard.store.ended, yard.store.tables[1]):
        table.pop(next(key for key in table if key & 0xFFFF == first.seq))
    restart(yard, after=10 * TTL)
    run(yard, second)
    yard.pass_time(0)
    assert now(yard, third).state == "queued"


def test_a_hold_and_a_time_are_waited_for_as_well(yard):
    first = yard.submit()
    held = yard.submit(hold=True, **after(first))
    timed = yard.submit(not_before=START + 1000, **after(first))
    run(yard, first)
    restart(yard)
    yard.pass_time(0)
    assert [now(yard, task).state for task in (held, timed)] == ["pending", "pending"]
    assert stats_of(yard.scheduler).after_others == 0
    yard.scheduler.resume(yard.now, held.id)
    yard.pass_time(1001)
    assert [now(yard, task).state for task in (held, timed)] == ["queued", "queued"]


def test_a_follower_that_was_queued_waits_no_more(yard):
    first = yard.submit()
    second = yard.submit(after_policy=AfterPolicy.ENDED, **after(first))
    yard.fail(yard.claim())
    yard.pass_time(0)
    yard.scheduler.resume(yard.now, first.id)
    assert second.state == "queued"
    restart(yard)
    yard.pass_time(0)
    assert now(yard, second).state == "queued"
    assert yard.scheduler.life.predecessors.followers == {}


def test_a_task_that_is_stored_as_after_itself_closes_the_namespace(yard):
    task = yard.submit(**after(yard.submit()))
    task.options = task.options._replace(extras=task.options.extras._replace(after=(task.id,)))
    yard.commit()
    assert yard.load().error == f"what its rows say together: {task.id} comes after {task.id}, which is no earlier one"


# Unique keys


@pytest.mark.parametrize("state", ["pending", "queued", "assigned", "paused"])
def test_a_unique_key_is_taken_after_a_restart_as_before(yard, state):
    first = yard.submit(unique_key="sync", hold=state == "pending")
    queued = yard.submit(unique_key="clean", unique_while=UniqueWhile.QUEUED)
    if state in ("assigned", "paused"):
        assert yard.claim().task is first
        if state == "paused":
            yard.scheduler.pause(yard.now, first.id)
    restart(yard)
    assert now(yard, first).state == state
    assert yard.submit(unique_key="sync") == Existing(now(yard, first))
    assert yard.submit(unique_key="clean") == Existing(now(yard, queued))
    with pytest.raises(AlreadyExists):
        yard.submit(unique_key="sync", on_conflict=OnConflict.REJECT)


def test_a_key_whose_task_has_ended_is_free_after_a_restart(yard):
    first = yard.submit(unique_key="sync", target="till")
    lease = yard.claim()
    yard.start(lease)
    yard.fail(lease)
    restart(yard)
    assert yard.submit(unique_key="sync", target="till").id != first.id


def test_a_replaced_task_and_the_one_that_replaced_it_are_kept_together(yard):
    first = yard.submit(unique_key="sync")
    second = yard.submit(unique_key="sync", on_conflict=OnConflict.REPLACE_QUEUED)
    restart(yard)
    assert now(yard, first).state == "cancelled"
    assert yard.submit(unique_key="sync") == Existing(now(yard, second))


def test_a_bound_idempotency_key_is_the_answer_after_a_restart(yard):
    first = yard.submit(unique_key="sync")
    yard.commit()
    assert yard.submit(unique_key="sync", key=KEY) == Existing(first)
    restart(yard)
    assert yard.submit(unique_key="sync", key=KEY) == Existing(now(yard, first))
    run(yard, first)
    restart(yard)
    assert yard.submit(unique_key="sync", key=KEY) == Existing(now(yard, first))
    with pytest.raises(AlreadyExists):
        yard.submit(unique_key="sync", key=KEY._replace(fingerprint=b"other"))


def test_a_bound_key_is_known_longer_than_its_task_is_in_memory(yard):
    yard.limits = KeptYard(result_ttl_secs=TTL, idempotency_secs=1000.0).limits
    yard.scheduler.reconfigure(yard.limits)
    first = yard.submit(unique_key="sync", deadline=START + FAR)
    yard.pass_time(500)
    yard.submit(unique_key="sync", key=KEY)
    run(yard, first)
    restart(yard, after=900)
    assert yard.scheduler.find(first.id) is None
    assert yard.submit(unique_key="sync", key=KEY).id == first.id
    restart(yard, after=200)
    assert yard.submit(unique_key="sync", key=KEY).id != first.id


def test_the_time_of_a_bound_key_is_moved_with_the_clock(yard):
    first = yard.submit(unique_key="sync")
    yard.submit(unique_key="sync", key=KEY)
    yard.commit()
    yard.now -= 1000
    yard.restart(shift=-1000)
    assert [bound.at for bound in now(yard, first).history.bound] == [START - 1000]
