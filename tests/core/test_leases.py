"""The length of a lease, and its renewal (docs/rules.md, Renewal)."""

import pytest

from taskyard_server.core.errors import BadRequest
from tests.cases import every_case
from tests.core.yard import TICK

# Length


@pytest.mark.parametrize("secs", [1, 1.5, 60, 3600])
def test_a_lease_may_have_from_one_second_to_an_hour(yard, secs):
    lease = yard.leased(secs)
    assert lease.expires_at == yard.now + secs
    assert yard.renew(lease, secs).expires_at == yard.now + secs


@every_case("secs", [-1, 0, 0.999, 3600.001, 1e9, float("inf"), float("nan")])
def test_a_lease_outside_of_one_second_to_an_hour_is_refused(yard, watch, secs):
    lease = yard.leased()
    yard.submit()
    changes = watch(yard.scheduler)
    with pytest.raises(BadRequest, match="lease_secs"):
        yard.claim(lease_secs=secs)
    with pytest.raises(BadRequest, match="lease_secs"):
        yard.renew(lease, secs)
    assert changes() == []


def test_the_length_of_leases_is_a_limit(make_yard):
    yard = make_yard(lease_secs=5)
    assert yard.leased().expires_at == yard.now + 5


# Renewal


def test_a_renewed_lease_lives_for_its_own_length_from_now(yard):
    lease = yard.leased(10)
    yard.pass_time(7)
    assert yard.renew(lease) is lease
    assert (lease.expires_at, lease.token) == (yard.now + 10, 1)
    yard.pass_time(10)
    assert lease.task.lease is lease
    yard.pass_time(TICK)
    assert lease.task.state == "queued"


def test_a_lease_may_be_renewed_for_a_given_length(yard):
    lease = yard.leased(10)
    yard.renew(lease, 3600)
    assert lease.expires_at == yard.now + 3600


def test_a_renewal_never_shortens_a_lease(yard):
    lease = yard.leased(100)
    yard.pass_time(10)
    yard.renew(lease, 5)
    assert lease.expires_at == yard.now + 90
    yard.pass_time(90)
    assert lease.task.lease is lease
    yard.pass_time(TICK)
    assert lease.task.state == "queued"


def test_a_renewal_for_a_given_length_is_a_new_length_of_the_lease(yard):
    lease = yard.leased(10)
    yard.renew(lease, 20)
    yard.pass_time(15)
    yard.renew(lease)
    assert lease.expires_at == yard.now + 20


def test_a_lease_that_is_renewed_in_time_never_ends(yard):
    lease = yard.leased(10)
    for _ in range(100):
        yard.pass_time(9)
        yard.renew(lease)
    assert lease.task.deliveries == 1
    assert yard.complete(lease).state == "done"


def test_a_renewal_is_no_start(yard):
    lease = yard.leased()
    yard.transitions()
    yard.renew(lease)
    assert lease.task.state == "assigned"
    assert yard.transitions() == []
