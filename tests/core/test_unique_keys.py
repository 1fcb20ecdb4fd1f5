"""One task of an agent for one thing (docs/rules.md, Unique keys)."""

import pytest

from taskyard_server.core.errors import AlreadyExists, BadRequest, QueueFull, Unavailable
from taskyard_server.core.task import Existing
from taskyard_server.core.task_options import AfterPolicy, IdempotencyKey, OnConflict, UniqueWhile
from taskyard_server.core.unique_keys import MAX_BOUND

QUEUED = UniqueWhile.QUEUED
REJECT, REPLACE = OnConflict.REJECT, OnConflict.REPLACE_QUEUED


@pytest.fixture
def yard(yard):
    """The yard with a host, and deadlines that are far off."""
    yard.reconfigure(default_deadline_secs=1e9, heartbeat_timeout_secs=1e9, lease_secs=1e3, result_ttl_secs=1e3)
    yard.register()
    return yard


def submit(yard, agent="ann", key="sync", **fields):
    return yard.submit(agent, unique_key=key, **fields)


def is_free(yard, key="sync"):
    return yard.scheduler.life.unique_keys.holders("ann", key) == []


def test_a_second_submission_is_answered_with_the_first_task(yard):
    first = submit(yard)
    assert submit(yard, action="other") == Existing(first)
    assert yard.tasks() == [first]


@pytest.mark.parametrize("policy", list(AfterPolicy))
def test_a_task_does_not_replace_the_one_that_it_comes_after(yard, policy):
    first, other = submit(yard), yard.submit()
    for after in ((first.id,), (other.id, first.id)):
        with pytest.raises(BadRequest, match=r"^after: names a task that this one replaces$"):
            submit(yard, on_conflict=REPLACE, after=after, after_policy=policy)
    assert yard.tasks() == [first, other]
    assert (first.state, submit(yard)) == ("queued", Existing(first))
    assert submit(yard, on_conflict=REPLACE, after=(other.id,), after_policy=policy).state == "pending"
    assert first.state == "cancelled"


def test_a_key_belongs_to_its_agent(yard):
    assert submit(yard) is not submit(yard, "bob")
    assert len(yard.tasks()) == 2


def test_a_key_is_taken_until_its_task_has_ended(yard):
    first = submit(yard)
    lease = yard.start_one()
    assert submit(yard) == Existing(first)
    yard.pause(first)
    assert submit(yard) == Existing(first)
    yard.resume(first)
    yard.complete(yard.start_one())
    assert lease.task is first
    second = submit(yard)
    assert (second.state, first.state) == ("queued", "done")


@pytest.mark.parametrize("state", ["pending", "queued", "assigned", "running", "paused"])
def test_with_queued_a_key_is_free_once_its_task_is_handed_out(yard, state):
    first = submit(yard, unique_while=QUEUED, hold=state == "pending")
    if state in ("assigned", "running", "paused"):
        yard.claim_one()
        if state != "assigned":
            yard.start(first.lease)
        if state == "paused":
            yard.pause(first)
    assert first.state == state
    assert (submit(yard) == Existing(first)) == (state in ("pending", "queued"))


def test_the_task_that_has_a_key_says_for_how_long(yard):
    first = submit(yard)
    yard.claim_one()
    assert submit(yard, unique_while=QUEUED) == Existing(first)


def test_a_task_that_comes_back_into_the_queue_has_its_key_again(yard):
    first = submit(yard, unique_while=QUEUED)
    lease = yard.claim_one()
    second = submit(yard, unique_while=QUEUED)
    yard.release(lease)
    assert (first.state, second.state) == ("queued", "queued")
    # The youngest that has it is the answer.
    assert submit(yard) == Existing(second)
    yard.cancel(second)
    assert submit(yard) == Existing(first)


def test_a_failed_task_has_ended_also_while_it_blocks_its_target(yard):
    first = submit(yard, target="till")
    yard.fail(yard.start_one())
    assert yard.scheduler.targets.blocks(first)
    second = submit(yard, target="till")
    assert (first.state, second.state) == ("failed", "queued")
    yard.resume(first)
    yard.cancel(second)
    assert submit(yard) == Existing(first)


def test_a_task_that_is_resumed_has_its_key(yard):
    first = submit(yard)
    yard.fail(yard.start_one())
    assert is_free(yard)
    yard.resume(first)
    assert submit(yard) == Existing(first)


def test_reject_is_told_which_task_has_the_key(yard):
    first = submit(yard)
    with pytest.raises(AlreadyExists, match=r"^uniqueKey: another task has it$") as refused:
        submit(yard, on_conflict=REJECT)
    assert refused.value.details == {"taskId": first.id}
    assert yard.tasks() == [first]


@pytest.mark.parametrize("hold", [False, True])
def test_replace_cancels_what_waits_and_submits_the_new_one(yard, hold):
    first = submit(yard, hold=hold)
    follower = yard.submit(after=(first.id,))
    second = submit(yard, on_conflict=REPLACE)
    assert (first.state, first.error) == ("cancelled", "replaced by a task with the same unique key")
    assert second.state == "queued"
    yard.pass_time(0)
    assert follower.state == "cancelled"
    assert submit(yard) == Existing(second)


@pytest.mark.parametrize("state", ["assigned", "running", "paused"])
def test_replace_is_answered_with_what_was_handed_out(yard, state):
    first = submit(yard)
    lease = yard.claim_one()
    if state != "assigned":
        yard.start(lease)
    if state == "paused":
        yard.pause(first)
    assert submit(yard, on_conflict=REPLACE) == Existing(first)
    assert first.state == state


def test_replace_needs_no_room_but_that_of_the_task_it_replaces(yard):
    yard.reconfigure(max_queue_size=1)
    first = submit(yard)
    second = submit(yard, on_conflict=REPLACE)
    assert (first.state, second.state) == ("cancelled", "queued")


def test_replace_takes_the_place_of_the_other_task_also_above_a_lowered_limit(yard):
    first = submit(yard)
    yard.submit()
    yard.reconfigure(max_queue_size=1)
    second = submit(yard, on_conflict=REPLACE)
    assert (first.state, second.state) == ("cancelled", "queued")


def test_replace_that_is_refused_changes_nothing(yard):
    first = submit(yard)
    yard.submit(target="till", priority=-1)
    yard.fail(yard.start_one())
    yard.reconfigure(max_blocked_targets=1)
    with pytest.raises(QueueFull):
        submit(yard, on_conflict=REPLACE, target="other")
    assert first.state == "queued"


def test_a_wrong_request_is_refused_whoever_has_the_key(yard):
    submit(yard)
    with pytest.raises(BadRequest):
        submit(yard, deadline=yard.now - 1)
    yard.scheduler.drain()
    with pytest.raises(Unavailable):
        submit(yard)


def test_an_existing_task_is_the_answer_also_while_the_queue_is_full(yard):
    yard.reconfigure(max_queue_size=1)
    first = submit(yard)
    assert submit(yard) == Existing(first)


def test_a_replacement_is_told_its_position_without_the_task_it_replaces(yard):
    first = submit(yard)
    yard.submit()
    assert (first.position, submit(yard, on_conflict=REPLACE).position) == (1, 2)


# Together with idempotency keys


def idempotent(key="once", fingerprint=b"1"):
    return IdempotencyKey(key, fingerprint)


def test_idempotency_is_looked_at_first(yard):
    first = submit(yard, key="a")
    repeated = yard.submit(key=idempotent(), unique_key="a")
    assert repeated == Existing(first)
    own = yard.submit(key=idempotent("own"), unique_key="b")
    yard.complete(yard.start_one())
    assert yard.submit(key=idempotent("own"), unique_key="b", on_conflict=REJECT) is own


def test_an_existing_answer_binds_the_idempotency_key_to_the_task(yard):
    first = submit(yard)
    assert yard.submit(key=idempotent(), unique_key="sync") == Existing(first)
    yard.complete(yard.start_one())
    assert yard.submit(key=idempotent(), unique_key="sync") == Existing(first)
    with pytest.raises(AlreadyExists, match=r"^idempotencyKey: is that of another task$"):
        yard.submit(key=idempotent(fingerprint=b"2"), unique_key="sync")
    assert first.history.bound == (("once", b"1", yard.now),)


def test_a_bound_key_is_known_as_long_as_an_own_one(yard):
    yard.reconfigure(idempotency_secs=5_000, result_ttl_secs=10)
    first = submit(yard)
    yard.pass_time(100)
    yard.submit(key=idempotent(), unique_key="sync")
    yard.complete(yard.start_one())
    yard.pass_time(4_990)
    assert yard.tasks() == []
    assert yard.submit(key=idempotent(), unique_key="sync").id == first.id
    yard.pass_time(100)
    assert yard.submit(key=idempotent(), unique_key="sync").id != first.id


def test_bound_keys_leave_with_their_task(yard):
    yard.reconfigure(result_ttl_secs=10)
    submit(yard)
    yard.submit(key=idempotent(), unique_key="sync")
    yard.complete(yard.start_one())
    yard.pass_time(11)
    life = yard.scheduler.life
    assert (yard.tasks(), life.tasks.by_key, len(life.unique_keys)) == ([], {}, 0)


def test_a_task_has_no_more_than_a_hundred_bound_keys(yard):
    first = submit(yard)
    for number in range(MAX_BOUND + 5):
        assert yard.submit(key=idempotent(f"key-{number}"), unique_key="sync") == Existing(first)
    keys = [key for _, key in yard.scheduler.life.tasks.by_key]
    assert keys == [f"key-{number}" for number in range(5, MAX_BOUND + 5)]
    assert [bound.key for bound in first.history.bound] == keys
