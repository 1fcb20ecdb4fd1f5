"""What holds after a restart."""

from __future__ import annotations

import pytest

from taskyard_server.core.figures.figures import stats_of
from taskyard_server.core.limits import RESTART_GRACE_SECS, Limits
from taskyard_server.core.scheduler import RESTARTED
from taskyard_server.core.streams import Hello
from taskyard_server.core.task_options import IdempotencyKey
from taskyard_server.store.loading import adopt
from taskyard_server.store.port import Table, key_of
from tests.store.kept_yard import NUMBER, START, KeptYard


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard()
    yard.host()
    return yard


def test_a_default_deadline_stands_still_while_nobody_serves(yard):
    task = yard.submit()
    yard.pass_time(10)
    yard.commit()
    for _ in range(3):
        yard.restart(after=100)
        assert yard.scheduler.get(task.id).deadline == pytest.approx(yard.now + Limits().default_deadline_secs - 10)


def test_a_default_deadline_stands_still_though_others_commit_in_between(yard):
    task = yard.submit()
    yard.commit()
    yard.restart(after=100)
    yard.pass_time(20)
    yard.commit()
    yard.restart(after=100)
    assert yard.scheduler.get(task.id).deadline == pytest.approx(yard.now + 40)


def test_a_deadline_of_the_caller_that_passed_is_over_before_anything_is_handed_out(yard):
    task = yard.submit(deadline=yard.now + 5)
    yard.commit()
    yard.restart(after=10)
    assert yard.scheduler.claim(yard.now, "host") == []
    assert yard.scheduler.get(task.id).error == "deadline exceeded while queued"


def test_a_lease_counts_one_full_length_from_the_restart(yard):
    yard.submit(deadline=yard.now + 10_000)
    lease = yard.claim(secs=30)
    yard.start(lease)
    yard.commit()
    yard.restart(after=1000)
    again = yard.scheduler.get(lease.task.id).lease
    assert (again.token, again.expires_at, again.started_at) == (lease.token, yard.now + 30, START)
    yard.complete(again)


def test_a_lease_of_a_built_in_host_is_lost_at_once():
    yard = KeptYard()
    yard.host("taskyard:tabs", built_in=True)
    task = yard.submit()
    yard.claim("taskyard:tabs")
    yard.commit()
    scheduler = yard.restart()
    again = scheduler.get(task.id)
    assert (again.state, again.lease) == ("queued", None)
    assert again.history.attempts[-1].error == RESTARTED
    assert scheduler.hosts.find("taskyard:tabs") is None


def test_the_host_of_a_stream_adopts_its_lease(yard):
    lease = _streamed(yard)
    scheduler = yard.restart(after=5)
    welcome = scheduler.connect(yard.now, Hello("remote", "red", held=((lease.task.id, lease.token),)))
    assert [kept.task.id for kept in welcome.kept] == [lease.task.id]
    yard.pass_time(yard.limits.reconnect_grace_secs + 1)
    assert scheduler.get(lease.task.id).lease is welcome.kept[0]


def test_a_lease_of_a_stream_that_does_not_come_back_is_lost_after_the_grace(yard):
    lease = _streamed(yard)
    scheduler = yard.restart(after=5)
    yard.pass_time(RESTART_GRACE_SECS - 0.5)
    assert scheduler.get(lease.task.id).state == "assigned"
    yard.pass_time(1)
    assert scheduler.get(lease.task.id).state == "queued"


def test_a_host_that_does_not_list_its_lease_has_lost_it(yard):
    lease = _streamed(yard)
    scheduler = yard.restart(after=5)
    scheduler.connect(yard.now, Hello("remote", "red"))
    assert scheduler.get(lease.task.id).state == "queued"


def _streamed(yard):
    stream = yard.scheduler.connect(yard.now, Hello("remote", "red")).offer
    yard.scheduler.give_credit(yard.now, stream, 1)
    task = yard.submit(deadline=yard.now + 10_000)
    yard.scheduler.dispatch(yard.now)
    yard.commit()
    return task.lease


def test_a_target_stays_taken_for_one_full_length_by_a_lease_that_stops(yard):
    first, second = yard.submit(target="door"), yard.submit(target="door", deadline=yard.now + 10_000)
    yard.claim(secs=30)
    yard.scheduler.cancel(yard.now, first.id)
    yard.commit()
    scheduler = yard.restart(after=1000, ended_since_ms=int((yard.now + 500) * 1000))
    assert scheduler.claim(yard.now, "host") == []
    assert [target.waits_for for target in scheduler.targets.after("")] == [f"{first.id} to stop at its host"]
    yard.pass_time(31)
    assert [lease.task.id for lease in scheduler.claim(yard.now, "host")] == [second.id]


def test_numbers_and_fencing_tokens_go_on(yard):
    yard.submit()
    lease = yard.claim()
    yard.complete(lease)
    yard.commit()
    yard.restart(ended_since_ms=int((yard.now + 1) * 1000))
    yard.host("third")
    task = yard.submit()
    assert task.seq == lease.task.seq + 1
    assert yard.claim().token == lease.token + 1
    assert [host.number for host in yard.scheduler.hosts] == [1, 2]


def test_what_was_not_committed_never_was(yard):
    kept = yard.submit()
    yard.commit()
    lost = yard.submit()
    yard.restart()
    assert [task.id for task in yard.scheduler.tasks_after(0)] == [kept.id]
    assert lost.id != yard.submit().id


def test_the_agent_that_was_served_longest_ago_comes_first(yard):
    for agent in ("one", "two", "three"):
        for _ in range(3):
            yard.submit(agent)
    for agent in ("one", "two", "three"):
        lease = yard.claim()
        assert lease.task.agent.id == agent
        if agent != "three":
            yard.complete(lease)
    yard.commit()
    yard.restart()
    assert [yard.claim().task.agent.id for _ in range(3)] == ["one", "two", "three"]


def test_a_namespace_with_a_damaged_row_is_named_and_others_load(yard):
    task = yard.submit()
    yard.commit()
    yard.store.tables[Table.TASKS][key_of(NUMBER, task.seq)] = b"\x90"
    loaded = yard.load()
    assert loaded.error is not None
    assert loaded.error.startswith(f"record {task.seq} of tasks: ")
    assert "\n" not in loaded.error


def test_times_of_a_clock_that_was_ahead_are_moved_and_written_again(yard):
    waiting, ended = yard.submit(deadline=yard.now + 60), yard.submit("other")
    yard.host()
    yard.complete(next(iter(yard.scheduler.claim(yard.now, "host", 2)[1:])))
    yard.commit()
    yard.now -= 1000
    scheduler = yard.restart(shift=-1000.0)
    assert scheduler.get(waiting.id).created_at == START - 1000
    yard.restart()
    for task in (waiting, ended):
        again = yard.scheduler.get(task.id)
        assert (again.created_at, again.deadline) == (START - 1000, pytest.approx(task.deadline - 1000))


# Tasks that have left memory


def _failed_and_gone(yard, **options):
    task = yard.submit(**options)
    yard.fail(yard.claim())
    yard.commit()
    rows = yard.rows(task)
    yard.pass_time(yard.limits.result_ttl_secs + 1)
    yard.commit()
    return task.id, rows


def test_a_failed_task_that_left_memory_can_be_resumed(yard):
    task_id, rows = _failed_and_gone(yard)
    again = adopt(yard.scheduler, rows)
    assert again.retained
    yard.scheduler.resume(yard.now, task_id)
    yard.commit()
    assert yard.rows(again).ended is None
    assert yard.claim().task is again
    yard.commit()
    assert stats_of(yard.scheduler).counters.reopened == 1


def test_one_that_is_adopted_for_nothing_leaves_again(yard):
    task_id, rows = _failed_and_gone(yard)
    task = adopt(yard.scheduler, rows)
    assert adopt(yard.scheduler, rows) is task
    yard.pass_time(0)
    yard.commit()
    assert yard.scheduler.life.tasks.get(task_id) is None
    assert yard.rows(task).ended


def test_an_adopted_task_has_its_key_only_where_that_is_free(yard):
    key = IdempotencyKey("key", b"print")
    task_id, rows = _failed_and_gone(yard, key=key)
    other = yard.submit(key=key)
    task = adopt(yard.scheduler, rows)
    yard.scheduler.resume(yard.now, task_id)
    assert yard.submit(key=key) is other
    yard.commit()
    yard.restart()
    assert yard.submit(key=key).id == other.id
    assert task.id != other.id


def test_an_agent_that_was_forgotten_gets_its_failed_task_back():
    yard = KeptYard(max_agent_figures=1)
    yard.host()
    task_id, rows = _failed_and_gone(yard)
    yard.submit("another")
    yard.complete(yard.claim())
    yard.pass_time(yard.limits.result_ttl_secs + 1)
    adopt(yard.scheduler, rows)
    yard.scheduler.resume(yard.now, task_id)
    yard.commit()
    agents = stats_of(yard.scheduler).agents
    assert (agents["agent"].submitted, agents["agent"].failed) == (1, 0)
    assert sum(each.submitted for each in agents.values()) == 2
    assert all(each.failed == 0 for each in agents.values())
