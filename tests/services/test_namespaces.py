"""NamespaceService (docs/rules.md, Namespaces)."""

import asyncio

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from taskyard.v1 import namespace_pb2 as pb
from taskyard.v1 import task_pb2
from taskyard_server.core.limits import OWN_LIMITS, Limits
from tests.cases import every_case

RED = (("taskyard-namespace", "red"),)


@pytest.fixture
def create(api):
    async def create(name="red", **limits):
        request = pb.CreateNamespaceRequest(namespace=name, limits=pb.NamespaceLimits(**limits))
        return (await api.namespaces.CreateNamespace(request)).namespace

    return create


@pytest.fixture
def get(api):
    async def get(name="red"):
        return (await api.namespaces.GetNamespace(pb.GetNamespaceRequest(namespace=name))).namespace

    return get


@pytest.fixture
def update(api):
    async def update(*mask, **limits):
        request = pb.UpdateNamespaceRequest(
            namespace="red", limits=pb.NamespaceLimits(**limits), update_mask=FieldMask(paths=mask)
        )
        return (await api.namespaces.UpdateNamespace(request)).namespace

    return update


def delete(api, name="red", **fields):
    return api.namespaces.DeleteNamespace(pb.DeleteNamespaceRequest(namespace=name, **fields))


def given(limits):
    return {field.name: value for field, value in limits.ListFields()}


async def test_a_namespace_shows_what_is_in_it_and_all_limits_in_force(api, get):
    await api.submit(metadata=RED)
    shown = await get()
    assert shown.name == "red"
    assert shown.created_at.seconds > 1_700_000_000
    assert given(shown.totals) == {
        "queued": 1, "inflight": 0, "paused": 0, "parked": 0, "retained": 0, "hosts": 0, "schedules": 0
    }  # fmt: skip
    assert shown.HasField("limits")
    assert given(shown.limits) == {}
    assert given(shown.effective_limits) == {name: getattr(Limits(), name) for name in OWN_LIMITS}
    assert not shown.HasField("owner")
    assert not shown.HasField("term")


async def test_every_own_limit_is_a_field_and_no_other_is():
    assert {field.name for field in pb.NamespaceLimits.DESCRIPTOR.fields} == set(OWN_LIMITS)


async def test_it_is_created_with_limits_and_answered_again(create, get):
    made = await create(max_inflight=3, lease_secs=7.5)
    assert given(made.limits) == {"max_inflight": 3, "lease_secs": 7.5}
    assert made.effective_limits.max_inflight == 3
    assert made.effective_limits.max_queue_size == 1000
    assert await create(max_inflight=3, lease_secs=7.5) == made == await get()


async def test_one_that_is_there_with_other_limits_is_not_created(create, refused):
    await create(max_inflight=3)
    assert (await refused(create())).code == "already_exists"


@every_case("name", ["", "-a", "a b", "a/b", "x" * 64, "\u00e9"])
async def test_a_name_that_no_namespace_can_have_is_refused(api, create, get, refused, name):
    for call in (create(name), get(name), delete(api, name)):
        answer = await refused(call)
        assert answer.code == "bad_request"
        assert answer.message.startswith("namespace: ")


@pytest.mark.parametrize(
    ("limit", "value", "field"),
    [
        ("max_queue_size", 0, "limits.maxQueueSize"),
        ("max_inflight", 0, "limits.maxInflight"),
        ("result_ttl_secs", 0.0, "limits.resultTtlSecs"),
        ("result_ttl_secs", float("inf"), "limits.resultTtlSecs"),
        ("idempotency_secs", -1.0, "limits.idempotencySecs"),
        ("default_deadline_secs", float("nan"), "limits.defaultDeadlineSecs"),
        ("lease_secs", 3601.0, "limits.leaseSecs"),
        ("lease_secs", 0.5, "limits.leaseSecs"),
        ("max_schedules", 0, "limits.maxSchedules"),
    ],
)
async def test_a_limit_has_the_bounds_of_its_setting(create, update, get, refused, limit, value, field):
    await create()
    for call in (create("blue", **{limit: value}), update(**{limit: value})):
        answer = await refused(call)
        assert answer.code == "bad_request"
        assert answer.message.startswith(f"{field}: must ")
    assert given((await get()).limits) == {}
    assert (await refused(get("blue"))).code == "not_found"


async def test_zero_is_a_limit_where_its_setting_has_one(create):
    assert given((await create(idempotency_secs=0.0)).limits) == {"idempotency_secs": 0.0}


async def test_an_update_changes_what_is_given(create, update):
    await create(max_inflight=3)
    changed = await update(max_queue_size=5)
    assert given(changed.limits) == {"max_inflight": 3, "max_queue_size": 5}


async def test_a_limit_that_is_named_and_absent_is_given_back(create, update):
    await create(max_inflight=3, max_queue_size=5, lease_secs=9)
    changed = await update("limits.max_inflight", "limits.lease_secs", lease_secs=8, max_queue_size=6)
    assert given(changed.limits) == {"max_queue_size": 5, "lease_secs": 8}
    assert changed.effective_limits.max_inflight == Limits().max_inflight
    assert given((await update("limits")).limits) == {}


@pytest.mark.parametrize("path", ["name", "max_inflight", "limits.", "limits.heartbeat_timeout_secs", "totals.queued"])
async def test_what_else_a_mask_names_is_refused(create, update, refused, path):
    await create()
    answer = await refused(update(path))
    assert (answer.code, answer.message.split(":")[0]) == ("bad_request", "updateMask")


async def test_its_own_limit_holds_for_it_alone(api, create, refused):
    await create(max_queue_size=1)
    await api.submit(metadata=RED)
    assert (await refused(api.submit(metadata=RED))).code == "queue_full"
    await api.submit()
    await api.submit()
    assert (await api.stats(metadata=RED)).config.max_queue_size == 1


async def test_they_are_listed_page_by_page(api, create):
    for name in ("c", "a", "d", "b"):
        await create(name)
    page = await api.namespaces.ListNamespaces(pb.ListNamespacesRequest(page_size=3))
    assert [each.name for each in page.namespaces] == ["a", "b", "c"]
    assert page.namespaces[0].HasField("totals")
    rest = await api.namespaces.ListNamespaces(pb.ListNamespacesRequest(page_size=3, page_token=page.next_page_token))
    assert [each.name for each in rest.namespaces] == ["d"]
    assert not rest.HasField("next_page_token")


async def test_what_is_not_there_is_not_found(api, get, update, refused):
    for call in (get(), update(max_inflight=1), delete(api)):
        answer = await refused(call)
        assert (answer.code, answer.message) == ("not_found", "namespace not found")


async def test_a_namespace_with_tasks_is_deleted_by_force(api, get, refused):
    submitted = await api.submit(metadata=RED)
    answer = await refused(delete(api))
    assert answer.code == "conflict"
    assert answer.message == "the namespace red has 1 queued task; with force=true it is deleted with all of that"
    assert (await delete(api, force=True)).deleted
    assert (await refused(get())).code == "not_found"
    assert (await refused(api.get(submitted.task_id, metadata=RED))).code == "not_found"


async def test_default_can_be_deleted_and_is_empty_then(api, get, refused):
    await api.submit()
    await delete(api, "default", force=True)
    assert (await refused(get("default"))).code == "not_found"
    await api.submit()
    assert (await get("default")).totals.queued == 1


async def test_a_watch_ends_and_says_why(api):
    await api.submit(metadata=RED)
    watch = api.watch(metadata=RED)
    first = await watch.read()
    await delete(api, force=True)
    last = await watch.read()
    assert (last.end.reason, last.end.message) == (task_pb2.WatchEnd.deleted, "the namespace was deleted")
    assert await watch.code() is grpc.StatusCode.NOT_FOUND

    await api.submit(metadata=RED)
    again = api.watch(metadata=RED, cursor=first.cursor)
    assert await again.code() is grpc.StatusCode.OUT_OF_RANGE


async def test_a_call_that_waits_ends_as_not_found(api, refused, eventually):
    submitted = await api.submit(metadata=RED)
    waiting = asyncio.ensure_future(
        api.tasks.WaitTask(task_pb2.WaitTaskRequest(task_id=submitted.task_id), metadata=RED)
    )
    # What waits is not to be seen from outside, so that this may find it before or while it waits: it ends likewise.
    await eventually(api.stats, lambda _: True)
    await delete(api, force=True)
    assert (await refused(waiting)).code == "not_found"
