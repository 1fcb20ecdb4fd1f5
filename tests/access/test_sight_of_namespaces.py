"""Which namespaces are there for whom, and what is shown of them (docs/operate/security.md, What)."""

from collections.abc import Iterator

import grpc
import pytest

from taskyard.v1 import namespace_pb2 as pb
from taskyard.v1 import task_pb2, task_pb2_grpc
from taskyard.v1.namespace_pb2_grpc import NamespaceServiceStub
from tests.access.yards import AGENT, NAMESPACE, OTHER_NAMESPACE, Yard, new_token, yard

PREFIXED = f"{NAMESPACE}-too"
ALL = [PREFIXED, NAMESPACE, OTHER_NAMESPACE]
ROLES = {"agent": False, "host": False, "viewer": True, "operator": True}
"""Whether a role is told what is in a namespace."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("yard")) as made, grpc.insecure_channel(made.address) as channel:
        tasks = task_pb2_grpc.TaskServiceStub(channel)
        for name in ALL:
            request = task_pb2.SubmitTaskRequest(agent_id=AGENT, action="click")
            tasks.SubmitTask(request, metadata=made.metadata("admin", name))
        yield made


@pytest.fixture(scope="module")
def stub(running: Yard) -> Iterator[NamespaceServiceStub]:
    with grpc.insecure_channel(running.address) as channel:
        yield NamespaceServiceStub(channel)


def listed(stub, metadata, **fields):
    return stub.ListNamespaces(pb.ListNamespacesRequest(**fields), metadata=metadata)


def names(answer):
    return [each.name for each in answer.namespaces]


@pytest.mark.parametrize("role", ROLES)
def test_a_role_sees_the_namespaces_in_which_it_is_held(running, stub, role):
    found = listed(stub, running.metadata(role))
    assert names(found) == [NAMESPACE]
    (shown,) = found.namespaces
    assert shown.HasField("totals") == ROLES[role]
    assert shown.effective_limits.max_inflight
    request = pb.GetNamespaceRequest(namespace=NAMESPACE)
    assert stub.GetNamespace(request, metadata=running.metadata(role)).namespace == shown


def test_an_admin_sees_all_of_them(running, stub):
    assert names(listed(stub, running.metadata("admin"))) == sorted(ALL)


def test_a_pattern_covers_what_it_covers(running, stub):
    secret = new_token(running, [{"role": "viewer", "namespaces": [f"{NAMESPACE}*"]}, {"role": "host",
                       "namespaces": [OTHER_NAMESPACE], "hosts": ["h"]}])  # fmt: skip
    metadata = (("authorization", f"Bearer {secret}"),)
    found = listed(stub, metadata)
    assert [(each.name, each.HasField("totals")) for each in found.namespaces] == [
        (NAMESPACE, True),
        (PREFIXED, True),
        (OTHER_NAMESPACE, False),
    ]
    first = listed(stub, metadata, page_size=1)
    assert names(listed(stub, metadata, page_size=1, page_token=first.next_page_token)) == [PREFIXED]


@pytest.mark.parametrize("role", ROLES)
def test_one_that_is_not_there_is_refused_as_one_that_is(running, stub, role):
    refusals = []
    for name in (OTHER_NAMESPACE, "nowhere"):
        with pytest.raises(grpc.RpcError) as refused:
            stub.GetNamespace(pb.GetNamespaceRequest(namespace=name), metadata=running.metadata(role))
        refusals.append((refused.value.code(), refused.value.details().replace(name, "NAME")))
    assert refusals[0] == refusals[1]
    assert refusals[0][0] is grpc.StatusCode.PERMISSION_DENIED
