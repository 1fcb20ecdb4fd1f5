"""ListLeases (docs/rules.md, Grants): order, filter and pages."""

import pytest


async def test_live_leases_are_listed_in_the_order_of_their_claims(api):
    assert not (await api.list_leases()).leases
    await api.register("other")
    ids = [await api.submit() for _ in range(4)]
    claims = [await api.claim(host_id) for host_id in ("other", "host", "other", "host")]
    await api.report("CompleteTask", claims[1])
    listed = (await api.list_leases()).leases
    assert [(lease.task_id, lease.host_id) for lease in listed] == [
        (ids[0], "other"),
        (ids[2], "other"),
        (ids[3], "host"),
    ]
    assert listed[2].expires_at == claims[3].lease_expires_at
    assert listed[2].fencing_token == claims[3].fencing_token


async def test_leases_are_filtered_by_host(api):
    await api.register("other")
    for host_id in ("host", "other", "host"):
        await api.submit()
        await api.claim(host_id)
    assert [lease.host_id for lease in (await api.list_leases("host")).leases] == ["host", "host"]
    assert [lease.host_id for lease in (await api.list_leases("other")).leases] == ["other"]


@pytest.mark.parametrize(("size", "pages"), [(0, [5]), (1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (1000, [5])])
@pytest.mark.parametrize("host_id", [None, "host"])
async def test_the_pages_of_leases_are_complete_and_in_order(api, host_id, size, pages):
    ids = []
    for _ in range(5):
        ids.append(await api.submit())
        await api.claim()
    listed, token = [], None
    while True:
        response = await api.list_leases(host_id, page_size=size, page_token=token)
        listed.append([lease.task_id for lease in response.leases])
        if not response.HasField("next_page_token"):
            break
        token = response.next_page_token
    assert [len(page) for page in listed] == pages
    assert [task_id for page in listed for task_id in page] == ids


async def test_a_renewed_lease_keeps_its_place_in_the_list(api):
    ids = [await api.submit(), await api.submit()]
    first, _ = await api.claim(), await api.claim()
    await api.report("RenewLease", first, lease_secs=3600)
    assert [lease.task_id for lease in (await api.list_leases()).leases] == ids


async def test_a_page_token_of_another_filter_is_refused(api, refused):
    await api.register("other")
    for host_id in ("host", "host"):
        await api.submit()
        await api.claim(host_id)
    token = (await api.list_leases("host", page_size=1)).next_page_token
    for wrong_fields in ({}, {"host_id": "other"}):
        assert (await refused(api.list_leases(page_token=token, **wrong_fields))).code == "bad_request"
