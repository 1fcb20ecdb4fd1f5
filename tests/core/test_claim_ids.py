"""A claim that is repeated under its id is answered with the leases that it got (docs/rules.md, Claim ids)."""

import pytest

from taskyard_server.core.errors import BadRequest

FAR = 100_000


@pytest.fixture
def busy_yard(yard):
    """A yard with two hosts and five tasks whose deadlines are far off."""
    yard.register("host")
    yard.register("other")
    for _ in range(5):
        yard.submit(deadline=yard.now + FAR)
    return yard


def test_a_repeat_is_answered_with_the_lease_as_it_is(busy_yard):
    (lease,) = busy_yard.claim(lease_secs=10, claim_id="first")
    before = (lease.token, lease.expires_at)
    busy_yard.pass_time(5)
    assert busy_yard.claim(lease_secs=60, claim_id="first") == [lease]
    assert (lease.token, lease.expires_at) == before
    assert len(lease.host.leases) == 1


def test_a_repeat_is_answered_with_all_that_is_left_of_several_leases(busy_yard):
    first, second, third = busy_yard.claim(count=3, claim_id="first")
    assert busy_yard.claim(count=1, claim_id="first") == [first, second, third]
    busy_yard.start(second)
    busy_yard.complete(second)
    assert busy_yard.claim(count=5, claim_id="first") == [first, third]


def test_once_all_leases_of_an_id_have_ended_it_is_free(busy_yard):
    first, second = busy_yard.claim(count=2, claim_id="first")
    busy_yard.complete(first)
    busy_yard.release(second)
    (again,) = busy_yard.claim(claim_id="first")
    assert again.task is second.task
    assert again.token > second.token
    assert busy_yard.claim(claim_id="first") == [again]


@pytest.mark.parametrize("end", ["cancel", "pause", "expire", "fail"])
def test_a_lease_that_ended_in_any_way_is_no_longer_answered(busy_yard, end):
    (lease,) = busy_yard.claim(lease_secs=10, claim_id="first")
    match end:
        case "cancel":
            busy_yard.cancel(lease.task)
        case "pause":
            busy_yard.pause(lease.task)
        case "expire":
            busy_yard.pass_time(11)
        case "fail":
            busy_yard.fail(lease)
    (again,) = busy_yard.claim(claim_id="first")
    assert again is not lease
    assert again.token > lease.token


def test_an_id_is_its_hosts_own(busy_yard):
    (lease,) = busy_yard.claim("host", claim_id="first")
    (others,) = busy_yard.claim("other", claim_id="first")
    assert others.task is not lease.task
    assert busy_yard.claim("host", claim_id="first") == [lease]


def test_claims_with_another_id_or_none_lease_anew(busy_yard):
    (lease,) = busy_yard.claim(claim_id="first")
    (second,) = busy_yard.claim(claim_id="second")
    (third,) = busy_yard.claim()
    assert len({lease.task.id, second.task.id, third.task.id}) == 3


def test_an_id_under_which_nothing_was_leased_is_free(yard):
    yard.register()
    assert yard.claim(claim_id="first") == []
    yard.submit()
    assert len(yard.claim(claim_id="first")) == 1


def test_a_host_that_drains_is_answered_with_what_it_has_under_the_id(busy_yard):
    (lease,) = busy_yard.claim(claim_id="first")
    busy_yard.scheduler.drain_host("host")
    assert busy_yard.claim(claim_id="first") == [lease]
    assert busy_yard.claim(claim_id="second") == []


def test_a_host_that_was_deregistered_has_nothing_under_the_id(busy_yard):
    (lease,) = busy_yard.claim(claim_id="first")
    busy_yard.deregister()
    busy_yard.register()
    (again,) = busy_yard.claim(claim_id="first")
    assert again.token > lease.token


def test_a_repeat_that_is_wrong_is_refused(busy_yard):
    busy_yard.claim(claim_id="first")
    with pytest.raises(BadRequest, match="lease_secs"):
        busy_yard.claim(lease_secs=0, claim_id="first")


def test_what_a_waiting_claim_is_handed_belongs_to_its_id(yard):
    yard.register()
    yard.offer(room=2, claim_id="first")
    yard.submit()
    yard.submit()
    leases = yard.dispatch()
    assert len(leases) == 2
    assert yard.claim(claim_id="first") == leases


def test_a_repeat_takes_the_place_of_the_claim_that_waits(yard):
    host = yard.register()
    first = yard.offer(claim_id="first")
    again = yard.offer(claim_id="first")
    others = yard.offer(claim_id="second")
    assert host.offers == [again, others]
    yard.scheduler.withdraw(first)
    assert host.waiting == {"first": again, "second": others}
    yard.scheduler.withdraw(again)
    yard.scheduler.withdraw(others)
    assert host.waiting == {}


def test_nothing_of_an_id_stays_after_its_leases(busy_yard):
    for number in range(5):
        (lease,) = busy_yard.claim(claim_id=f"claim-{number}")
        busy_yard.complete(lease)
    assert lease.host.claimed == {}
