"""Which rows a change leads to."""

from __future__ import annotations

import pytest

from taskyard_server.core.errors import QueueFull
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.streams import Hello
from taskyard_server.store.port import Table, key_of
from taskyard_server.store.records.records import decode_agent, decode_state, decode_stopping
from tests.store.kept_yard import NUMBER, KeptYard, written


@pytest.fixture
def yard() -> KeptYard:
    yard = KeptYard()
    yard.host()
    yard.commit()
    return yard


def test_a_submitted_task_is_two_rows_and_its_state_is_empty(yard):
    yard.submit()
    yard.submit(hold=True)
    group = yard.commit()
    assert written(group) == {"tasks": 2, "states": 2}
    assert [record for _, record in group.puts[Table.STATES]] == [b"", b""]


def test_what_happens_to_a_task_writes_its_state_alone(yard):
    yard.submit()
    yard.commit()
    lease = yard.claim()
    assert written(yard.commit()) == {"states": 1}
    yard.start(lease)
    yard.scheduler.reports.progress(yard.now, "host", lease.task.id, lease.token, b"half")
    assert written(yard.commit()) == {"states": 1}
    yard.complete(lease)
    assert written(yard.commit()) == {"ended": 1, "no states": 1}


def test_a_task_that_comes_and_ends_within_one_group_has_no_state(yard):
    yard.submit()
    yard.complete(yard.claim())
    assert written(yard.commit()) == {"tasks": 1, "ended": 1}


def test_nothing_changed_is_the_row_of_the_namespace_alone(yard):
    assert not yard.scheduler.changes
    assert len(yard.commit()) == 1


def test_a_heartbeat_a_renewal_and_credit_write_nothing(yard):
    yard.submit()
    lease = yard.claim()
    stream = yard.scheduler.connect(yard.now, Hello("other", "red")).offer
    yard.commit()
    yard.now += 1
    yard.scheduler.heartbeat(yard.now, "host")
    yard.scheduler.reports.renew(yard.now, "host", lease.task.id, lease.token)
    yard.scheduler.give_credit(yard.now, stream, 1)
    yard.scheduler.beat(yard.now, stream, [])
    yard.scheduler.take_events()
    assert not yard.scheduler.changes


def test_a_rejected_task_is_never_written():
    yard = KeptYard(max_queue_size=0)
    with pytest.raises(QueueFull):
        yard.submit()
    group = yard.commit()
    assert written(group) == {}
    ((_, record),) = group.puts[Table.AGENTS]
    assert decode_agent(record).rejected == 1


def test_a_failed_task_that_is_resumed_has_ended_no_more(yard):
    task = yard.submit()
    yard.fail(yard.claim())
    yard.commit()
    assert yard.rows(task).ended
    yard.scheduler.resume(yard.now, task.id)
    assert written(yard.commit()) == {"tasks": 1, "states": 1, "no ended": 1}
    assert yard.rows(task).ended is None


def test_a_failed_task_that_is_resolved_ends_again(yard):
    task = yard.submit()
    yard.fail(yard.claim())
    yard.commit()
    yard.scheduler.resolve(yard.now, task.id, b"2")
    yard.commit()
    state = decode_state(yard.rows(task).ended)
    assert (state.state, state.result) == ("done", b"2")


def test_a_task_that_blocks_its_target_is_live(yard):
    task = yard.submit(target="door")
    lease = yard.claim()
    yard.start(lease)
    yard.fail(lease)
    yard.commit()
    assert decode_state(yard.rows(task).state).state == "failed"
    yard.scheduler.cancel(yard.now, task.id)
    yard.commit()
    assert decode_state(yard.rows(task).ended).state == "cancelled"


@pytest.mark.parametrize("keep_history", [True, False])
def test_a_task_that_leaves_memory_is_removed_only_without_history(keep_history):
    yard = KeptYard(keep_history, result_ttl_secs=10)
    yard.host()
    task, live = yard.submit(), yard.submit(deadline=yard.now + 1000)
    yard.complete(yard.claim())
    yard.commit()
    yard.pass_time(11)
    assert written(yard.commit()) == ({} if keep_history else {"no tasks": 1, "no states": 1, "no ended": 1})
    assert len(yard.store.tables[Table.TASKS]) == 1 + keep_history
    assert yard.rows(live if not keep_history else task)


def test_without_history_a_task_that_comes_and_goes_within_one_group_is_not_written():
    yard = KeptYard(keep_history=False, max_retained_tasks=0)
    yard.host()
    yard.submit()
    yard.complete(yard.claim())
    assert written(yard.commit()) == {}


@pytest.mark.parametrize("options", [{}, {"retry": RetryPolicy(3)}])
def test_a_task_that_was_handed_out_and_given_back_is_not_as_submitted(yard, options):
    task = yard.submit(**options)
    lease = yard.claim()
    yard.scheduler.reports.release(yard.now, "host", task.id, lease.token)
    yard.commit()
    assert decode_state(yard.rows(task).state).token == lease.token


def test_a_hold_that_is_released_at_once_is_not_as_submitted(yard):
    task = yard.submit(hold=True, not_before=yard.now + 60)
    yard.scheduler.resume(yard.now, task.id)
    yard.commit()
    assert not decode_state(yard.rows(task).state).history.held


def test_tokens_of_an_attempt_that_failed_and_is_repeated_are_kept(yard):
    task = yard.submit(retry=RetryPolicy(3))
    lease = yard.claim()
    yard.commit()
    yard.scheduler.reports.fail(yard.now, "host", task.id, lease.token, "broken", tokens=70)
    ((_, record),) = yard.commit().puts[Table.AGENTS]
    assert decode_agent(record).tokens_used == 70


# What no event tells of


def test_a_hold_that_is_released_before_its_time_is_written(yard):
    task = yard.submit(hold=True, not_before=yard.now + 60)
    yard.commit()
    yard.scheduler.resume(yard.now, task.id)
    yard.commit()
    history = decode_state(yard.rows(task).state).history
    assert (history.held, history.not_before) == (False, yard.now + 60)


def test_the_deadline_of_a_task_that_becomes_the_head_of_its_target_is_written(yard):
    first, second = yard.submit(target="door"), yard.submit(target="door")
    yard.commit()
    assert yard.rows(second).state == b""
    yard.scheduler.cancel(yard.now, first.id)
    yard.commit()
    assert decode_state(yard.rows(second).state).deadline == second.deadline is not None


def test_the_deadline_that_stops_when_an_older_task_comes_back_is_written(yard):
    first, second = yard.submit(target="door"), yard.submit(target="door")
    yard.commit()
    lease = yard.claim()
    yard.scheduler.reports.fail(yard.now, "host", first.id, lease.token, "not begun")
    yard.commit()
    assert decode_state(yard.rows(second).state).deadline is not None
    yard.scheduler.resume(yard.now, first.id)
    yard.commit()
    assert decode_state(yard.rows(second).state).deadline is None


def test_another_length_of_a_lease_is_written(yard):
    task = yard.submit()
    lease = yard.claim()
    yard.commit()
    yard.scheduler.reports.renew(yard.now, "host", task.id, lease.token, 90)
    yard.commit()
    assert decode_state(yard.rows(task).state).held.secs == 90


def test_a_claimed_lease_that_a_stream_takes_over_is_written(yard):
    task = yard.submit()
    lease = yard.claim()
    yard.commit()
    yard.scheduler.connect(yard.now, Hello("host", "red", held=((task.id, lease.token),)))
    yard.commit()
    assert decode_state(yard.rows(task).state).held.is_streamed


# Other things


def test_a_lease_that_stops_is_a_row_until_its_host_has_stopped(yard):
    task = yard.submit(target="door")
    lease = yard.claim()
    yard.scheduler.cancel(yard.now, task.id)
    ((key, record),) = yard.commit().puts[Table.STOPPING]
    assert key == key_of(NUMBER, lease.token)
    assert decode_stopping(record).target == "door"
    yard.scheduler.reports.stopped(yard.now, "host", task.id, lease.token)
    yard.commit()
    assert yard.store.tables[Table.STOPPING] == {}


def test_a_host_is_written_when_it_changes_and_not_when_it_says_the_same(yard):
    yard.host()
    assert Table.HOSTS not in yard.commit().puts
    yard.scheduler.drain_host("host", yard.now + 5)
    assert len(yard.commit().puts[Table.HOSTS]) == 1
    yard.pass_time(6)
    assert len(yard.commit().puts[Table.HOSTS]) == 1
    yard.scheduler.deregister(yard.now, "host")
    yard.commit()
    assert yard.store.tables[Table.HOSTS] == {}


def test_a_built_in_host_is_not_written(yard):
    yard.host("taskyard:tabs", built_in=True)
    assert Table.HOSTS not in yard.commit().puts


def test_figures_of_forgotten_agents_move_to_the_row_of_the_others():
    yard = KeptYard(max_agent_figures=1, result_ttl_secs=1)
    yard.host()
    for agent in ("one", "two", "three"):
        yard.submit(agent)
        yard.complete(yard.claim())
        yard.commit()
        yard.pass_time(2)
    yard.commit()
    agents = {each.name: each.submitted for each in map(decode_agent, yard.store.tables[Table.AGENTS].values())}
    assert agents == {"three": 1, "(others)": 2}
