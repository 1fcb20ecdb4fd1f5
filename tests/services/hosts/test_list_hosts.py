"""ListHosts (docs/rules.md, Hosts): order and pages."""

import pytest

from taskyard.v1 import task_pb2


async def test_hosts_are_listed_in_order_of_their_first_registration(api):
    for host_id in ("zoe", "ann", "mia"):
        await api.register(host_id)
    await api.register("zoe")
    assert [host.id for host in (await api.list_hosts()).hosts] == ["zoe", "ann", "mia"]


@pytest.mark.parametrize(("size", "pages"), [(0, [7]), (1, [1] * 7), (3, [3, 3, 1]), (7, [7]), (1000, [7])])
async def test_the_pages_of_hosts_are_complete_and_in_order(api, size, pages):
    names = [(await api.register(f"host-{number}")).id for number in (3, 1, 2, 0, 6, 5, 4)]
    listed, token = [], None
    while True:
        response = await api.list_hosts(page_size=size, page_token=token)
        listed.append([host.id for host in response.hosts])
        if not response.HasField("next_page_token"):
            break
        token = response.next_page_token
    assert [len(page) for page in listed] == pages
    assert [name for page in listed for name in page] == names


async def test_a_host_deregistered_between_two_pages_hides_no_other(api):
    for number in range(4):
        await api.register(f"host-{number}")
    first = await api.list_hosts(page_size=2)
    await api.deregister("host-1")
    second = await api.list_hosts(page_size=2, page_token=first.next_page_token)
    assert [host.id for host in second.hosts] == ["host-2", "host-3"]


async def test_a_page_token_of_another_listing_is_refused(api, refused):
    for _ in range(2):
        await api.submit()
    token = (await api.tasks.ListTasks(task_pb2.ListTasksRequest(page_size=1))).next_page_token
    for page_token in (token, "nonsense", "%%%"):
        assert (await refused(api.list_hosts(page_token=page_token))).code == "bad_request"
