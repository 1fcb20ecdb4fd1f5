"""Output in the core: chunks are numbered without a gap, taken once, refused under old leases; the oldest go first."""

from random import Random

import pytest

from taskyard_server.core.errors import BadRequest, LeaseLost, NotFound, Unavailable
from taskyard_server.core.runs.outputs import TaskOutput
from taskyard_server.core.task import RUNNING


def leased(yard):
    """The lease of a task at `host`; there is another host, too."""
    yard.register("host")
    yard.register("other")
    yard.submit()
    return yard.claim_one()


@pytest.fixture
def lease(yard):
    return leased(yard)


def say(yard, lease, number, *sizes, host="host", **only):
    """Say chunks of these sizes: the number of the first new one, how many came before, and what was cut."""
    outputs = yard.scheduler.outputs
    taken = outputs.append(yard.now, host, lease.task.id, lease.token, number, sizes, **only)
    return taken.first, taken.repeated, taken.cut


def test_a_chunk_counts_as_the_start(yard, lease):
    say(yard, lease, 1, 10)
    assert lease.task.state is RUNNING


def test_chunks_are_numbered_over_all_leases_of_a_task(yard, lease):
    assert say(yard, lease, 1, 1, 1, 1) == (1, 0, None)
    yard.release(lease)
    again = yard.claim_one()
    assert again.task is lease.task
    assert say(yard, again, 1, 1) == (4, 0, None)


@pytest.mark.parametrize(
    ("number", "count", "expected"), [(1, 2, (3, 2)), (2, 3, (3, 1)), (3, 1, (3, 0)), (1, 5, (3, 2))]
)
def test_what_came_before_is_taken_once(yard, lease, number, count, expected):
    say(yard, lease, 1, 1, 1)
    assert say(yard, lease, number, *[1] * count)[:2] == expected


def test_a_number_that_leaves_a_gap_is_refused_and_changes_nothing(yard, lease):
    with pytest.raises(BadRequest, match="number: must be at most 1"):
        say(yard, lease, 2, 1)
    assert yard.scheduler.outputs.find(lease.task) is None
    say(yard, lease, 1, 1)
    with pytest.raises(BadRequest, match="must be at most 2, since 1 chunks"):
        say(yard, lease, 3, 1)
    assert yard.scheduler.outputs.find(lease.task).next == 2


def test_an_old_lease_another_host_and_an_unknown_task_are_refused(yard, lease):
    say(yard, lease, 1, 1)
    yard.release(lease)
    with pytest.raises(LeaseLost):
        say(yard, lease, 2, 1)
    yard.claim_one("other")
    with pytest.raises(LeaseLost):
        say(yard, lease, 2, 1)
    with pytest.raises(NotFound):
        say(yard, lease, 2, 1, own_only=True)
    with pytest.raises(NotFound):
        yard.scheduler.outputs.append(yard.now, "host", "tsk_none", 1, 1, [1])
    assert yard.scheduler.outputs.find(lease.task).next == 2


def test_none_is_taken_while_an_earlier_version_may_come_to_serve(yard, lease):
    yard.scheduler.readers.allow_fields(added=True, extras=True, output=False, artifacts=False)
    with pytest.raises(Unavailable, match="output: "):
        say(yard, lease, 1, 1)


@pytest.mark.parametrize("seed", range(20))
def test_the_newest_stays_within_the_bound_and_what_is_dropped_is_counted(make_yard, seed):
    rng, limit = Random(seed), 1_600
    yard = make_yard(max_output_bytes=limit)
    lease = leased(yard)
    kept, said, number = [], 0, 1
    for _ in range(300):
        sizes = [rng.randrange(1, 60) for _ in range(rng.randrange(1, 5))]
        first, _, cut = say(yard, lease, number, *sizes)
        kept += [(first + index, size) for index, size in enumerate(sizes)]
        number += len(sizes)
        said += sum(sizes)
        if cut is not None:
            assert cut <= first
            kept = [(each, size) for each, size in kept if each >= cut]
        output = yard.scheduler.outputs.find(lease.task)
        total = sum(size for _, size in kept)
        assert total <= limit
        assert total == said or total > limit * 13 / 16 - 240
        assert (output.first, output.dropped, output.next) == (kept[0][0], said - total, kept[-1][0] + 1)


def test_a_single_message_may_be_larger_than_the_bound(make_yard):
    yard = make_yard(max_output_bytes=100)
    lease = leased(yard)
    assert say(yard, lease, 1, 500) == (1, 0, None)
    assert say(yard, lease, 2, 10) == (2, 0, 2)


def test_in_a_full_namespace_a_task_keeps_a_sixteenth(make_yard):
    yard = make_yard(max_output_bytes=1_600, max_namespace_output_bytes=2_000)
    one, other = leased(yard), leased(yard)
    outputs = yard.scheduler.outputs
    for number in range(1, 101):
        say(yard, one, number, 16)
    assert outputs.used == 1_600 == outputs.find(one.task).said - outputs.find(one.task).dropped
    for number in range(1, 101):
        say(yard, other, number, 16)
    # At first there is room; what is over is dropped by the task that says more.
    kept = outputs.find(other.task).said - outputs.find(other.task).dropped
    assert outputs.used == 1_600 + kept
    assert kept <= 420
    outputs.forget(one.task, for_ever=True)
    assert outputs.used == kept
    outputs.forget(other.task, for_ever=False)
    assert outputs.used == kept
    outputs.recount()
    assert outputs.used == 0


def test_what_a_store_has_goes_on(yard, lease):
    outputs = yard.scheduler.outputs
    outputs.unknown_until = lease.task.seq
    assert not outputs.is_known(lease.task)
    outputs.adopt(lease.task, TaskOutput(5, 40, lease.token, 3, [(2, 10)]))
    assert outputs.is_known(lease.task)
    assert say(yard, lease, 3, 1, 1) == (5, 1, None)
    assert (outputs.find(lease.task).first, outputs.find(lease.task).dropped) == (2, 10)


def test_what_a_store_has_under_an_earlier_lease_is_not_taken_for_this_one(yard, lease):
    yard.scheduler.outputs.adopt(lease.task, TaskOutput(5, 40, lease.token - 1, 3, [(1, 0)]))
    assert say(yard, lease, 1, 1) == (5, 0, None)


def test_a_task_that_comes_back_from_the_history_is_looked_up_again(yard, lease):
    outputs = yard.scheduler.outputs
    say(yard, lease, 1, 1)
    outputs.forget(lease.task, for_ever=False)
    outputs.came_back(lease.task)
    assert not outputs.is_known(lease.task)
    outputs.forget(lease.task, for_ever=False)
    assert outputs.is_known(lease.task)
