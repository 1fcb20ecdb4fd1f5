"""The length of leases (docs/rules.md, Leases): requested, renewed, and its range."""

import grpc
import pytest

from tests.services.leases.report_calls import seconds


async def test_a_lease_has_the_requested_length_or_one_minute(api):
    lengths = []
    for secs in (None, 1, 90, 3600):
        await api.submit()
        claim = await api.claim(lease_secs=secs)
        lengths.append(round(seconds(claim.lease_expires_at) - api.clock.now, 3))
    assert lengths == [60, 1, 90, 3600]
    assert [lease.lease_secs for lease in (await api.list_leases()).leases] == [60, 1, 90, 3600]


@pytest.mark.parametrize("secs", [0, 3601, 2**32 - 1])
async def test_a_lease_length_out_of_range_is_refused_and_leases_nothing(api, refused, by_rest, secs):
    task_id = await api.submit()
    refusal = await refused(api.claim(lease_secs=secs, metadata=by_rest))
    assert refusal.status is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal.trailers["x-http-status"] == "400"
    assert "lease_secs" in refusal.message
    assert (await refused(api.claim_many(3, lease_secs=secs))).code == "bad_request"
    assert await api.state(task_id) == "queued"
    lease = await api.claim()
    assert (await refused(api.report("RenewLease", lease, lease_secs=secs))).code == "bad_request"


async def test_a_renewal_extends_a_lease_to_its_length_from_now(api):
    task_id = await api.submit()
    lease = await api.claim(lease_secs=30)
    for _ in range(3):
        await api.advance(20)
        renewed = await api.report("RenewLease", lease)
        assert renewed.task_id == task_id
        assert seconds(renewed.lease_expires_at) == pytest.approx(api.clock.now + 30, abs=1e-5)
    await api.advance(29)
    assert await api.state(task_id) == "assigned"
    await api.advance(2)
    assert await api.state(task_id) == "queued"


async def test_a_renewal_never_shortens_a_lease(api):
    task_id = await api.submit()
    lease = await api.claim(lease_secs=100)
    renewed = await api.report("RenewLease", lease, lease_secs=1)
    assert renewed.lease_expires_at == lease.lease_expires_at
    await api.advance(99)
    assert await api.state(task_id) == "assigned"


async def test_a_renewal_can_request_a_longer_lease(api):
    task_id = await api.submit()
    lease = await api.claim(lease_secs=10)
    renewed = await api.report("RenewLease", lease, lease_secs=3600)
    assert seconds(renewed.lease_expires_at) == pytest.approx(api.clock.now + 3600, abs=1e-5)
    await api.advance(100)
    assert await api.state(task_id) == "assigned"
