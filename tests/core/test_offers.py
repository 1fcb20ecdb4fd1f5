"""Hosts that wait: which one is next, and for how many tasks (docs/rules.md, Claim order, Credit)."""

import pytest

from taskyard_server.core.errors import BadRequest, NotFound

# Which host is next


def test_the_host_with_the_smallest_share_of_its_slots_in_use_goes_first(yard):
    yard.stream("small", slots=2, credit=10)
    yard.stream("large", slots=4, credit=10)
    for _ in range(6):
        yard.submit()
    assert yard.dispatched_hosts() == ["small", "large", "large", "small", "large", "large"]


def test_ties_go_to_the_host_that_was_handed_a_task_longest_ago(yard):
    for name in ("a", "b", "c"):
        yard.stream(name, slots=10, credit=10)
    for _ in range(2):
        yard.submit()
    leases = yard.dispatch()
    assert [lease.host.id for lease in leases] == ["a", "b"]
    for lease in leases:
        yard.complete(lease)
    for _ in range(4):
        yard.submit()
    assert yard.dispatched_hosts() == ["c", "a", "b", "c"]


def test_a_host_without_slots_is_loaded_by_its_leases_beside_its_room(yard):
    yard.stream("three", credit=3)
    yard.stream("one", credit=1)
    for _ in range(4):
        yard.submit()
    assert yard.dispatched_hosts() == ["three", "one", "three", "three"]


def test_a_host_that_lost_a_capability_is_handed_nothing_that_needs_it(yard):
    yard.stream("first", "gpu")
    yard.stream("second", "gpu")
    yard.register("first")
    yard.submit(requires=frozenset({"gpu"}))
    assert yard.dispatched_hosts() == ["second"]


def test_hosts_of_different_profiles_are_compared_with_each_other(yard):
    yard.stream("plain", slots=2, credit=2)
    yard.stream("gpu", "gpu", slots=4, credit=4)
    for _ in range(6):
        yard.submit()
    assert yard.dispatched_hosts() == ["plain", "gpu", "gpu", "plain", "gpu", "gpu"]


def test_a_host_whose_task_ends_moves_ahead(yard):
    yard.stream("busy", slots=2, credit=5)
    yard.stream("other", slots=4, credit=5)
    for _ in range(3):
        yard.submit()
    leases = {lease.host.id: lease for lease in yard.dispatch()}
    for _ in range(2):
        yard.submit()
    yard.complete(leases["busy"])
    assert yard.dispatched_hosts() == ["busy", "other"]


def test_what_a_host_claims_counts_as_load_of_its_stream(yard):
    yard.stream("claims", slots=4, credit=5)
    yard.stream("other", slots=4, credit=5)
    yard.submit()
    yard.claim_one("claims")
    for _ in range(2):
        yard.submit()
    assert yard.dispatched_hosts() == ["other", "claims"]


def test_what_one_offer_of_a_host_is_handed_counts_for_its_others(yard):
    yard.register("many")
    yard.scheduler.hosts.get("many").slots = 4
    for _ in range(2):
        yard.offer("many")
    yard.stream("one", slots=4)
    for _ in range(2):
        yard.submit()
    assert yard.dispatched_hosts() == ["many", "one"]


def test_claims_that_wait_are_served_in_the_order_in_which_they_came(yard):
    for name in ("a", "b"):
        yard.register(name)
    claims = [yard.offer(name) for name in ("b", "a")]
    for _ in range(2):
        yard.submit()
    given = yard.scheduler.dispatch(yard.now)
    assert list(given) == claims


def test_each_host_takes_its_tasks_in_claim_order(yard):
    yard.stream(credit=3)
    late, first, second = yard.submit("ann", priority=5), yard.submit("ann", priority=1), yard.submit("bob")
    assert [lease.task for lease in yard.dispatch()] == [first, second, late]


def test_a_host_that_may_run_nothing_of_what_waits_does_not_hold_up_the_next(yard):
    yard.stream("least loaded", slots=10, credit=10, project="blue")
    yard.stream("able", slots=1, credit=1)
    yard.submit(project="red")
    assert yard.dispatched_hosts() == ["able"]


# Room


def test_a_stream_is_never_handed_more_than_its_credit(yard):
    stream = yard.stream(credit=2)
    for _ in range(5):
        yard.submit()
    assert len(yard.dispatch()) == 2
    assert (stream.room, yard.dispatch()) == (0, [])
    yard.give_credit(stream)
    yard.give_credit(stream)
    assert len(yard.dispatch()) == 2


def test_credit_that_is_returned_is_room_but_no_sign_of_life(yard):
    stream = yard.stream()
    for _ in range(2):
        yard.submit()
    heard_at = yard.dispatch_one().host.last_heartbeat_at
    yard.now += 1
    yard.scheduler.return_credit(stream, 1)
    assert stream.host.last_heartbeat_at == heard_at
    assert len(yard.dispatch()) == 1


def test_a_task_that_ends_gives_no_credit_back(yard):
    yard.stream()
    for _ in range(2):
        yard.submit()
    yard.complete(yard.dispatch_one())
    assert yard.dispatch() == []


def test_a_claim_that_waits_is_handed_no_more_tasks_than_its_count(yard):
    yard.register()
    yard.offer(room=2)
    for _ in range(3):
        yard.submit()
    assert len(yard.dispatch()) == 2
    assert yard.dispatch() == []


def test_a_claim_that_waits_is_refused_as_one_that_does_not(yard):
    with pytest.raises(NotFound, match="runtime host not found"):
        yard.offer("stranger")
    yard.register(project="red")
    with pytest.raises(BadRequest, match="project"):
        yard.offer(project="blue")
    with pytest.raises(BadRequest, match="lease_secs"):
        yard.offer(lease_secs=0.5)


def test_a_withdrawn_claim_is_handed_nothing_and_may_be_withdrawn_twice(yard):
    yard.register()
    claim = yard.offer()
    for _ in range(2):
        yard.scheduler.withdraw(claim)
    yard.submit()
    assert yard.dispatch() == []
    assert yard.scheduler.offers_of("host") == []


def test_a_claim_that_waits_may_name_one_project(yard):
    yard.register()
    yard.offer(room=5, project="red")
    yard.submit()
    yard.submit(project="blue")
    red = yard.submit(project="red")
    assert [lease.task for lease in yard.dispatch()] == [red]


def test_a_claim_that_is_served_is_a_sign_of_life(yard):
    host = yard.register()
    yard.offer()
    yard.now += 20
    yard.submit()
    yard.dispatch_one()
    assert host.last_heartbeat_at == yard.now


def test_a_deregistered_host_waits_no_more(yard):
    yard.stream(credit=2)
    yard.offer()
    yard.deregister()
    yard.submit()
    assert yard.dispatch() == []
    yard.register()
    assert yard.dispatch() == []


def test_a_draining_scheduler_hands_out_nothing_to_hosts_that_wait(yard):
    yard.stream()
    yard.submit()
    yard.scheduler.drain()
    assert yard.dispatch() == []


def test_a_task_past_its_deadline_is_expired_and_the_next_one_handed_out(yard):
    yard.stream(lease_secs=60)
    late, next_one = yard.submit(deadline=yard.now + 5), yard.submit(deadline=yard.now + 50)
    yard.now += 5
    assert yard.dispatch_one().task is next_one
    assert (late.state, late.error) == ("failed", "deadline exceeded while queued")


# Memory


def test_hosts_of_made_up_profiles_that_waited_leave_nothing_behind(yard, object_count):
    def come_and_go(first, count):
        for number in range(first, first + count):
            stream = yard.stream("host", f"skill-{number}", credit=2)
            claim = yard.offer(project=f"project-{number}")
            yard.submit()
            yard.complete(yard.dispatch_one())
            yard.scheduler.withdraw(claim)
            yard.disconnect(stream)
            yard.deregister()
            yard.pass_time(0.125)
            yard.transitions()

    yard.reconfigure(result_ttl_secs=1)
    come_and_go(0, 200)
    before = object_count(yard.scheduler)
    come_and_go(200, 2_000)
    assert object_count(yard.scheduler) < before * 1.2


def test_a_group_of_offers_that_come_and_go_stays_small(yard, object_count):
    yard.stream("stays", credit=10_000)

    def work(rounds):
        for number in range(rounds):
            stream = yard.stream(f"host-{number % 7}", credit=3, slots=1 + number % 5)
            yard.submit()
            yard.complete(yard.dispatch_one())
            yard.disconnect(stream)
            yard.transitions()

    yard.reconfigure(max_retained_tasks=10)
    work(200)
    before = object_count(yard.scheduler)
    work(3_000)
    assert object_count(yard.scheduler) < before * 1.5
