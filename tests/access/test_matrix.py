"""Every call by every role: it is let in or refused as the table of docs/security.md says, over gRPC and REST.

The table is made of the options in the protos (tools/access_doc.py). A call that is let in may still be refused for its
content: all requests here are as empty as can be.
"""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

import taskyard.v1
from taskyard_server.access.requirements import NoRequirement, requirement_in, requirement_of
from tests.access.yards import (
    AGENT,
    HOST,
    NAMESPACE,
    OTHER_AGENT,
    OTHER_HOST,
    OTHER_NAMESPACE,
    Yard,
    yard,
)
from tests.gateway.routes import ROUTES, Route

ROLES = ("agent", "host", "viewer", "operator", "admin")
PAGE = (Path(__file__).parents[2] / "docs/security.md").read_text()
TABLE = {
    found[1]: dict(zip(ROLES, (cell.strip() for cell in found[2].split("|")), strict=True))
    for found in re.finditer(r"^\| \[(\w+)\]\(api\.md#\w+\) \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE)
}
OUTCOMES = {
    code: code.name.lower()
    for code in (
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    )
}
"""What else than `let in` may become of a call. The last two are always wrong."""
ON_THE_ADMIN_SOCKET = {"taskyard.v1.StoreService"}
SECS = 10.0


def _methods() -> Iterator[MethodDescriptor]:
    for file in sorted(Path(taskyard.v1.__path__[0]).glob("*_pb2.py")):
        services = import_module(f"taskyard.v1.{file.stem}").DESCRIPTOR.services_by_name
        for service in services.values():
            yield from service.methods


METHODS = {method.name: method for method in _methods()}
SERVED = [name for name, method in METHODS.items() if method.containing_service.full_name not in ON_THE_ADMIN_SOCKET]
FOR_ANYONE = {name for name in SERVED if requirement_in(METHODS[name]).anyone}
FOR_ANY_PRINCIPAL = FOR_ANYONE | {name for name in SERVED if requirement_in(METHODS[name]).any_principal}
BY_REST = {route.name: route for route in ROUTES}
ENDS_THE_SERVER = "DrainServer"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("yard")) as made:
        yield made


def request_of(method: MethodDescriptor, agent: str = AGENT, host: str = HOST, namespace: str = NAMESPACE) -> Any:
    """A request in the names of this agent and this host, about this namespace, and nothing else."""
    requirement = requirement_in(method)
    request = GetMessageClass(method.input_type)()
    if requirement.agent_field:
        setattr(request, requirement.agent_field, agent)
    if requirement.host_field:
        setattr(request, requirement.host_field, host)
    if requirement.namespace_field:
        setattr(request, requirement.namespace_field, namespace)
    if method.name == "Connect":
        request.hello.host_id = host
        request.hello.instance = "i"
    return request


def outcome(channel: grpc.Channel, method: MethodDescriptor, request: Any, metadata: Any) -> str:
    """`let in`, or one of `OUTCOMES`."""
    path = f"/{method.containing_service.full_name}/{method.name}"
    parse = GetMessageClass(method.output_type).FromString
    try:
        if method.client_streaming:
            call = channel.stream_stream(path, type(request).SerializeToString, parse)
            next(call(iter([request]), metadata=metadata, timeout=SECS), None)
        elif method.server_streaming:
            stream = channel.unary_stream(path, type(request).SerializeToString, parse)(
                request, metadata=metadata, timeout=SECS
            )
            next(stream, None)
            stream.cancel()
        else:
            channel.unary_unary(path, type(request).SerializeToString, parse)(request, metadata=metadata, timeout=SECS)
    except grpc.RpcError as error:
        return OUTCOMES.get(error.code(), "let in")
    return "let in"


def is_allowed(name: str, role: str) -> bool:
    return TABLE[name][role] != ""


def test_every_rpc_says_who_may_call_it():
    for method in METHODS.values():
        assert requirement_of(f"/{method.containing_service.full_name}/{method.name}") == requirement_in(method)


def test_an_rpc_that_does_not_say_so_is_never_served():
    with pytest.raises(NoRequirement):
        requirement_of("/taskyard.v1.TaskService/Unheard")


def test_the_table_has_every_rpc():
    assert set(TABLE) == set(METHODS)


@pytest.mark.parametrize("name", SERVED)
def test_nobody_is_let_in_without_a_credential_unless_anyone_is(running, name):
    expected = "let in" if name in FOR_ANYONE else "unauthenticated"
    with grpc.insecure_channel(running.address) as channel:
        assert outcome(channel, METHODS[name], request_of(METHODS[name]), running.metadata("nobody")) == expected


@pytest.mark.parametrize("name", sorted(FOR_ANYONE))
def test_a_credential_that_does_not_hold_is_none_where_anyone_is_let_in(running, name):
    metadata = (("authorization", "Bearer not-a-token"),)
    with grpc.insecure_channel(running.address) as channel:
        assert outcome(channel, METHODS[name], request_of(METHODS[name]), metadata) == "let in"


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("name", SERVED)
def test_a_role_is_let_in_as_the_table_says(running, tmp_path, name, role):
    if name == ENDS_THE_SERVER and is_allowed(name, role):
        with yard(tmp_path) as another, grpc.insecure_channel(another.address) as channel:
            assert outcome(channel, METHODS[name], request_of(METHODS[name]), another.metadata(role)) == "let in"
        return
    with grpc.insecure_channel(running.address) as channel:
        expected = "let in" if is_allowed(name, role) else "permission_denied"
        assert outcome(channel, METHODS[name], request_of(METHODS[name]), running.metadata(role)) == expected


@pytest.mark.parametrize("role", ROLES[:-1])
@pytest.mark.parametrize("name", [name for name in SERVED if name not in FOR_ANY_PRINCIPAL])
def test_a_role_is_worth_nothing_in_another_namespace(running, name, role):
    metadata = running.metadata(role, OTHER_NAMESPACE)
    request = request_of(METHODS[name], namespace=OTHER_NAMESPACE)
    with grpc.insecure_channel(running.address) as channel:
        assert outcome(channel, METHODS[name], request, metadata) == "permission_denied"


@pytest.mark.parametrize("role", ROLES[:-1])
@pytest.mark.parametrize("name", [name for name in SERVED if requirement_in(METHODS[name]).namespace_field])
def test_the_namespace_of_the_call_lets_nobody_into_the_one_that_the_request_names(running, name, role):
    request = request_of(METHODS[name], namespace=OTHER_NAMESPACE)
    with grpc.insecure_channel(running.address) as channel:
        assert outcome(channel, METHODS[name], request, running.metadata(role)) == "permission_denied"


@pytest.mark.parametrize("name", [name for name in SERVED if requirement_in(METHODS[name]).agent_field])
def test_an_agent_acts_in_its_own_name_only(running, name):
    request = request_of(METHODS[name], agent=OTHER_AGENT)
    with grpc.insecure_channel(running.address) as channel:
        assert outcome(channel, METHODS[name], request, running.metadata("agent")) == "permission_denied"


@pytest.mark.parametrize(
    "name", [name for name in SERVED if requirement_in(METHODS[name]).host_field or name == "Connect"]
)
def test_a_host_acts_in_its_own_name_only(running, name):
    request = request_of(METHODS[name], host=OTHER_HOST)
    with grpc.insecure_channel(running.address) as channel:
        assert outcome(channel, METHODS[name], request, running.metadata("host")) == "permission_denied"


# REST


def status(running: Yard, route: Route, role: str, agent: str = AGENT, host: str = HOST) -> int:
    requirement = requirement_in(METHODS[route.name])
    body = {route.camel(requirement.agent_field): agent} if requirement.agent_field else {}
    if requirement.host_field and "host_id" not in route.variables:
        body["host_id"] = host
    with running.rest(role) as http:
        path = route.path(host_id=host, namespace=NAMESPACE)
        if METHODS[route.name].server_streaming:
            with http.stream(route.verb, path) as answer:
                return answer.status_code
        return http.request(route.verb, path, json=body if route.has_body else None).status_code


@pytest.mark.parametrize("role", ["nobody", *ROLES])
@pytest.mark.parametrize("name", BY_REST)
def test_a_path_lets_in_whom_its_rpc_lets_in(running, tmp_path, name, role):
    route = BY_REST[name]
    if role == "nobody" and name not in FOR_ANYONE:
        assert status(running, route, role) == 401
    elif role == "nobody":
        assert status(running, route, role) not in (401, 403)
    elif not is_allowed(name, role):
        assert status(running, route, role) == 403
    elif name == ENDS_THE_SERVER:
        with yard(tmp_path) as another:
            assert status(another, route, role) == 200
    else:
        assert status(running, route, role) not in (401, 403)


@pytest.mark.parametrize("name", [name for name in BY_REST if requirement_in(METHODS[name]).host_field])
def test_a_path_with_the_name_of_another_host_is_refused(running, name):
    assert status(running, BY_REST[name], "host", host=OTHER_HOST) == 403


@pytest.mark.parametrize("name", [name for name in BY_REST if requirement_in(METHODS[name]).agent_field])
def test_a_body_with_the_name_of_another_agent_is_refused(running, name):
    assert status(running, BY_REST[name], "agent", agent=OTHER_AGENT) == 403


# What is others' is not there

ON_A_TASK = ("GetTask", "WaitTask", "CancelTask", "PauseTask", "ResumeTask", "ResolveTask")


@pytest.fixture(scope="module")
def task_of_another(running: Yard) -> str:
    with running.rest("operator") as http:
        return str(http.post("/tasks", json={"agentId": OTHER_AGENT, "action": "click"}).json()["taskId"])


@pytest.mark.parametrize("name", ON_A_TASK)
def test_a_task_of_another_agent_answers_as_one_that_never_was(running, task_of_another, name):
    route = BY_REST[name]
    with running.rest("agent") as http:
        answers = [
            http.request(route.verb, route.path(task_id=task_id), json={} if route.has_body else None)
            for task_id in (task_of_another, "tsk_" + "0" * 26)
        ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content


def test_the_task_of_another_agent_is_untouched(running, task_of_another):
    with running.rest("operator") as http:
        assert http.get(f"/tasks/{task_of_another}").json()["state"] == "queued"
