"""What is done to many tasks at once, slice by slice (docs/rules.md, Operations)."""

import pytest

from taskyard_server.core.errors import Conflict, NotFound, TooManyOperations
from taskyard_server.core.names import names
from taskyard_server.core.operations.operation import OperationKind, OperationRequest, OperationStatus
from taskyard_server.core.operations.operations import (
    MAX_COUNTED,
    MAX_LIVE,
    MAX_LIVE_OF_ONE,
    MAX_TREATED,
    RETAINED_SECS,
)
from taskyard_server.core.search.task_filter import TaskFilter
from taskyard_server.core.task import TaskState
from taskyard_server.core.task_options import TaskExtras
from tests.core.yard import Yard

CANCEL = OperationKind.CANCEL
ALL = TaskFilter()


@pytest.fixture
def yard():
    return Yard()


def begin(yard, kind=CANCEL, operation_id="op", agents=None, *, token_limit=None, result=None, priority=0, **criteria):
    request = OperationRequest(
        operation_id, kind, TaskFilter(agents=agents, **criteria), None, token_limit, result, priority
    )
    return yard.scheduler.operations.begin(yard.now, request)


def step(yard):
    yard.scheduler.operations.step(yard.now)


def finish(yard, most=10_000):
    """Do all slices that can be done; how many these were."""
    done = 0
    while yard.scheduler.operations.is_ready:
        step(yard)
        done += 1
        assert done < most
    return done


def counts(operation):
    return operation.matched, operation.done, operation.skipped, operation.failed


def states(tasks):
    return [task.state.value for task in tasks]


def test_what_matches_is_treated_and_all_else_stays(yard):
    mine, others = [yard.submit("ann") for _ in range(3)], [yard.submit("bob") for _ in range(2)]
    operation = begin(yard, agent_id="ann")
    finish(yard)
    assert operation.status is OperationStatus.DONE
    assert operation.ended_at == yard.now
    assert counts(operation) == (3, 3, 0, 0)
    assert states(mine) == ["cancelled"] * 3
    assert states(others) == ["queued"] * 2


def test_what_is_submitted_later_is_not_touched(yard):
    operation = begin(yard)
    task = yard.submit()
    finish(yard)
    assert counts(operation) == (0, 0, 0, 0)
    assert task.state is TaskState.QUEUED


def test_a_slice_treats_a_bounded_number_and_looks_at_a_bounded_number(yard):
    for _ in range(MAX_COUNTED + MAX_TREATED + 1):
        yard.submit()
    operation = begin(yard)
    assert (operation.matched, operation.done, operation.is_counted) == (MAX_COUNTED, 0, False)
    step(yard)
    assert (operation.matched, operation.done, operation.is_counted) == (MAX_COUNTED + MAX_TREATED + 1, 0, True)
    step(yard)
    assert operation.done == MAX_TREATED
    finish(yard)
    assert operation.done == operation.matched


def test_a_slice_that_finds_nothing_goes_on_after_what_it_looked_at(yard):
    for _ in range(MAX_COUNTED):
        yard.submit("bob")
    task = yard.submit("ann")
    begin(yard, agent_id="ann")
    assert finish(yard) == 3
    assert task.state is TaskState.CANCELLED


def test_a_task_that_matches_no_longer_when_its_turn_comes_is_skipped(yard):
    yard.register()
    first, second = yard.submit(priority=-1), yard.submit()
    operation = begin(yard, states=frozenset({TaskState.QUEUED}))
    yard.claim_one()
    finish(yard)
    assert counts(operation) == (2, 1, 1, 0)
    assert states([first, second]) == ["assigned", "cancelled"]


def test_one_that_came_to_match_meanwhile_is_treated_and_counted(yard):
    yard.register()
    yard.submit()
    lease = yard.claim_one()
    operation = begin(yard, states=frozenset({TaskState.QUEUED}))
    yard.release(lease)
    finish(yard)
    assert counts(operation) == (1, 1, 0, 0)


def test_only_what_is_in_a_state_for_it_is_counted(yard):
    yard.register()
    done = yard.submit()
    yard.complete(yard.start_one())
    yard.submit()
    operation = begin(yard)
    finish(yard)
    assert counts(operation) == (1, 1, 0, 0)
    assert done.state is TaskState.DONE


def test_a_repeat_is_the_same_operation_and_another_request_is_a_conflict(yard):
    yard.submit()
    operation = begin(yard, agent_id="ann")
    assert begin(yard, agent_id="ann") is operation
    with pytest.raises(Conflict, match="operationId: is that of another operation"):
        begin(yard, agent_id="bob")
    with pytest.raises(Conflict):
        begin(yard, OperationKind.PAUSE, agent_id="ann")
    finish(yard)
    assert begin(yard, agent_id="ann") is operation


def test_an_ended_one_is_known_for_an_hour(yard):
    operation = begin(yard)
    finish(yard)
    yard.now += RETAINED_SECS - 1
    assert yard.scheduler.operations.get(yard.now, "op", None) is operation
    yard.now += 1
    with pytest.raises(NotFound, match="operation not found"):
        yard.scheduler.operations.get(yard.now, "op", None)
    assert begin(yard) is not operation


def test_so_many_may_be_at_work_of_one_caller_and_of_all(yard):
    yard.submit()
    for number in range(MAX_LIVE_OF_ONE):
        begin(yard, operation_id=f"op-{number}")
    with pytest.raises(TooManyOperations) as refused:
        begin(yard)
    assert refused.value.details == {"maxOperations": MAX_LIVE_OF_ONE}
    for number in range(MAX_LIVE - MAX_LIVE_OF_ONE):
        begin(yard, agents=names([f"agent-{number}"]))
    with pytest.raises(TooManyOperations) as refused:
        begin(yard, agents=names(["one-more"]))
    assert refused.value.details == {"maxOperations": MAX_LIVE}
    finish(yard)
    begin(yard)


def test_callers_with_other_agents_have_other_operations(yard):
    ann, bob = yard.submit("ann"), yard.submit("bob")
    operation = begin(yard, agents=names(["ann"]))
    finish(yard)
    assert states([ann, bob]) == ["cancelled", "queued"]
    operations = yard.scheduler.operations
    assert operations.get(yard.now, "op", names(["ann"])) is operation
    with pytest.raises(NotFound):
        operations.get(yard.now, "op", names(["bob"]))
    others = begin(yard, agents=names(["bob"]))
    assert others is not operation
    assert operations.before(yard.now, 0, names(["ann"])) == [operation]
    assert operations.before(yard.now, 0, None) == [others, operation]
    assert operations.get(yard.now, "op", None) is others
    own = begin(yard)
    assert operations.get(yard.now, "op", None) is own


def test_they_take_turns(yard):
    for _ in range(3 * MAX_TREATED):
        yard.submit()
    one, other = begin(yard, operation_id="one"), begin(yard, operation_id="other", agent_id="bob")
    step(yard)
    step(yard)
    step(yard)
    assert (one.done, other.status.value) == (2 * MAX_TREATED, "done")


def test_a_cancelled_one_stays_where_it_stands(yard):
    tasks = [yard.submit() for _ in range(MAX_TREATED + 5)]
    operation = begin(yard)
    step(yard)
    yard.scheduler.operations.cancel(yard.now, "op", None)
    assert operation.status is OperationStatus.CANCELLED
    assert not yard.scheduler.operations.is_ready
    assert states(tasks[-5:]) == ["queued"] * 5
    assert counts(operation) == (MAX_TREATED + 5, MAX_TREATED, 0, 0)
    assert yard.scheduler.operations.cancel(yard.now, "op", None) is operation


def test_what_is_refused_counts_as_failed_with_the_first_reason(yard):
    yard.register()
    for limit in (10, None):
        yard.submit(token_limit=limit)
        lease = yard.start_one()
        yard.complete(lease) if limit is None else yard.fail(lease, tokens=11)
    paused = yard.submit()
    yard.pause(yard.start_one().task)
    operation = begin(yard, OperationKind.RESUME)
    finish(yard)
    assert counts(operation) == (2, 1, 0, 1)
    assert operation.first_error is not None
    assert operation.first_error.endswith("task has used 11 of 10 tokens, resume it with a higher tokenLimit")
    assert paused.state is TaskState.QUEUED


def test_pausing_and_resuming(yard):
    yard.register()
    tasks = [yard.submit(deadline=yard.now + 100_000) for _ in range(3)]
    for _ in range(2):
        yard.start_one()
    paused = begin(yard, OperationKind.PAUSE, operation_id="pause")
    finish(yard)
    assert states(tasks) == ["paused", "paused", "queued"]
    assert counts(paused) == (2, 2, 0, 0)
    begin(yard, OperationKind.RESUME, operation_id="resume", token_limit=7)
    finish(yard)
    assert states(tasks) == ["queued"] * 3
    assert [task.token_limit for task in tasks] == [7, 7, None]


def test_held_tasks_are_released(yard):
    task = yard.submit(hold=True)
    begin(yard, OperationKind.RESUME)
    finish(yard)
    assert task.state is TaskState.QUEUED


def test_resolving_records_the_result_for_each(yard):
    yard.register()
    tasks = [yard.submit() for _ in range(2)]
    for _ in tasks:
        yard.fail(yard.start_one())
    begin(yard, OperationKind.RESOLVE, result=b"r")
    finish(yard)
    assert [(task.state.value, task.result) for task in tasks] == [("done", b"r")] * 2


def test_a_failed_task_that_blocks_its_target_can_be_cancelled(yard):
    yard.register()
    blocker, waiting = yard.submit(target="lock"), yard.submit(target="lock")
    yard.fail(yard.start_one())
    begin(yard, states=frozenset({TaskState.FAILED}))
    finish(yard)
    assert states([blocker, waiting]) == ["cancelled", "queued"]
    assert yard.claim_one().task is waiting


def test_resuming_waits_while_the_queue_is_full():
    yard = Yard(max_queue_size=2, max_per_agent=2)
    yard.register()
    tasks = []
    for _ in range(3):
        tasks.append(yard.submit())
        yard.pause(yard.start_one().task)
    filler = yard.submit("bob")
    operation = begin(yard, OperationKind.RESUME)
    finish(yard)
    assert operation.status is OperationStatus.WAITING
    assert states(tasks) == ["queued", "paused", "paused"]
    assert not yard.scheduler.operations.is_ready
    yard.cancel(filler)
    assert yard.scheduler.operations.is_ready
    finish(yard)
    assert states(tasks) == ["queued", "queued", "paused"]
    assert operation.status is OperationStatus.WAITING
    yard.claim(count=2)
    finish(yard)
    assert operation.status is OperationStatus.DONE
    assert counts(operation) == (3, 3, 0, 0)


def test_one_that_waits_goes_on_when_the_task_that_it_waits_for_has_ended():
    yard = Yard(max_queue_size=10, max_per_agent=1)
    yard.register()
    first = yard.submit("ann")
    yard.pause(yard.start_one().task)
    yard.submit("ann")
    second = yard.submit("bob")
    claimed(yard)
    yard.pause(second)
    yard.submit("ann")
    operation = begin(yard, OperationKind.RESUME)
    finish(yard)
    assert operation.status is OperationStatus.WAITING
    yard.cancel(first)
    finish(yard)
    assert second.state is TaskState.QUEUED
    assert operation.skipped == 1


def test_resuming_waits_during_a_drain(yard):
    yard.register()
    task = yard.submit()
    yard.pause(yard.start_one().task)
    yard.scheduler.drain()
    operation = begin(yard, OperationKind.RESUME)
    finish(yard)
    assert operation.status is OperationStatus.WAITING
    assert task.state is TaskState.PAUSED


def reprioritize(yard, priority, **criteria):
    begin(yard, OperationKind.REPRIORITIZE, f"to {priority} {criteria}", priority=priority, **criteria)
    finish(yard)


def claimed(yard):
    return [lease.task for lease in yard.claim(count=100)]


def test_another_priority_holds_from_the_next_claim_on(yard):
    yard.register()
    first, second, third = (yard.submit(action=action) for action in ("a", "b", "c"))
    reprioritize(yard, -1, action="c")
    reprioritize(yard, 5, action="a")
    assert claimed(yard) == [third, second, first]


def test_among_those_of_its_new_priority_a_task_stands_by_its_age(yard):
    yard.register()
    tasks = [yard.submit(priority=number % 2, labels=(("n", str(number)),)) for number in range(10)]
    reprioritize(yard, 0)
    assert claimed(yard) == tasks


def test_a_task_that_goes_to_and_fro_is_handed_out_once(yard):
    yard.register()
    tasks = [yard.submit() for _ in range(5)]
    for priority in (3, 0, 3, 0, -3, 3):
        begin(yard, OperationKind.REPRIORITIZE, f"to {priority}", priority=priority, parent_id=None)
        for _ in range(3):
            step(yard)
        yard.scheduler.operations._by_name.clear()
    assert claimed(yard) == tasks
    assert claimed(yard) == []


def test_a_place_that_a_task_has_left_for_another_priority_is_not_handed_out(yard):
    yard.register()
    tasks = [yard.submit(action="a" if number == 2 else "b") for number in range(5)]
    reprioritize(yard, 9, action="a")
    assert claimed(yard) == [tasks[0], tasks[1], tasks[3], tasks[4], tasks[2]]


def test_the_order_of_a_target_stays_that_of_age(yard):
    yard.register()
    first, second = yard.submit(target="lock"), yard.submit(target="lock", action="b")
    reprioritize(yard, -5, action="b")
    assert claimed(yard) == [first]
    assert second.priority == -5


def test_tasks_that_are_not_queued_have_it_when_they_are(yard):
    yard.register()
    held, flying = yard.submit(hold=True), yard.submit(action="b")
    lease = yard.claim_one()
    reprioritize(yard, 4)
    yard.release(lease)
    yard.resume(held)
    urgent = yard.submit(priority=3)
    assert claimed(yard) == [urgent, held, flying]


def test_watchers_learn_of_another_priority(yard):
    yard.submit()
    yard.scheduler.take_events()
    reprioritize(yard, 4)
    reprioritize(yard, 4, action="click")
    assert [(event.kind.value, event.state.value) for event in yard.scheduler.take_events()] == [
        ("reprioritized", "queued")
    ]


def test_tasks_with_concurrency_keys_move_likewise(yard):
    yard.register()
    extras = TaskExtras(concurrency_keys=("site:a",))
    tasks = [yard.submit(action="b" if number == 3 else "a", extras=extras) for number in range(5)]
    plain = yard.submit(priority=-1)
    reprioritize(yard, -3, action="b")
    reprioritize(yard, 7, action="a")
    assert claimed(yard) == [tasks[3], plain, tasks[0], tasks[1], tasks[2], tasks[4]]


def test_held_tasks_never_wait_for_room():
    yard = Yard(max_queue_size=1, max_per_agent=1)
    held = yard.submit(hold=True)
    operation = begin(yard, OperationKind.RESUME)
    finish(yard)
    assert (held.state, operation.status) == (TaskState.QUEUED, OperationStatus.DONE)


def test_restored_ones_are_forgotten_in_the_order_of_their_ends(yard):
    operations = yard.scheduler.operations
    for _ in range(MAX_COUNTED + 1):
        yard.submit("ann")
    first, second = begin(yard, operation_id="first"), begin(yard, operation_id="second")
    operations.cancel(yard.now, "second", None)
    yard.now += 100
    operations.cancel(yard.now, "first", None)
    restored = Yard()
    for each in (first, second):
        restored.scheduler.operations.restore(each)
    restored.scheduler.operations.settle()
    restored.now = yard.now - 100 + RETAINED_SECS
    assert begin(restored, OperationKind.RESUME, "second") is not second
    with pytest.raises(Conflict):
        begin(restored, OperationKind.RESUME, "first")
