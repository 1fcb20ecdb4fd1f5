"""Every call by every role: it is let in or refused as the table of docs/operate/access.md says, over gRPC and REST.

The table is made of the options in the protos (tools/access_doc.py). A call that is let in may still be refused for its
content: all requests here are as empty as can be. The whole table is asked of a server by gRPC. A path leads to its
RPC, so that each is asked by somebody who is let in, by somebody who is not, and by nobody. What a role is worth in
another namespace is judged here, and asked of a server for a call of each kind.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

import taskyard.v1
from taskyard_server.access.authorization import judge, named_namespace
from taskyard_server.access.configured_grants import grants_of
from taskyard_server.access.grants import Principal
from taskyard_server.access.requirements import NoRequirement, requirement_in, requirement_of
from taskyard_server.core.errors import PermissionDenied
from taskyard_server.settings.security import GrantSettings
from tests.access.yards import (
    AGENT,
    GRANTS,
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
PAGE = (Path(__file__).parents[2] / "docs/operate/access.md").read_text()
TABLE = {
    found[1]: dict(zip(ROLES, (cell.strip() for cell in found[2].split("|")), strict=True))
    for found in re.finditer(r"^\| \[(\w+)\]\(\.\./use/api\.md#\w+\) \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE)
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
PRINCIPALS = {role: Principal(role, role, grants_of([GrantSettings(**grant)])) for role, grant in GRANTS.items()}
PRINCIPALS["admin"] = Principal("admin", "admin", grants_of([GrantSettings(role="admin")]))
ENDS_THE_SERVER = "DrainServer"
"""Whoever is let in to it ends the server of all others here. That it does is in tests/gateway/test_shutdown.py."""


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


def empty_call(channel: grpc.Channel, name: str, metadata: Any, **names: str) -> str:
    """What becomes of a call that says in which names it is made, and nothing else."""
    return outcome(channel, METHODS[name], request_of(METHODS[name], **names), metadata)


def judged(name: str, role: str, namespace: str = NAMESPACE) -> str:
    """The same by the judgement alone, of a call in this namespace that names it where it names one."""
    requirement = requirement_in(METHODS[name])
    if requirement.namespace_field:
        namespace = named_namespace(requirement, request_of(METHODS[name], namespace=namespace), "")
    try:
        judge(PRINCIPALS[role], requirement, namespace)
    except PermissionDenied:
        return "permission_denied"
    return "let in"


def is_allowed(name: str, role: str) -> bool:
    return TABLE[name][role] != ""


def assert_same(found: Mapping[Any, str], expected: Mapping[Any, str]) -> None:
    """There are cases, and all are as they are to be; else each that is not is named."""
    wrong = [
        f"{case}: {found[case]} instead of {outcome}" for case, outcome in expected.items() if found[case] != outcome
    ]
    assert expected
    assert not wrong, "\n".join(wrong)


def test_every_rpc_says_who_may_call_it():
    for method in METHODS.values():
        assert requirement_of(f"/{method.containing_service.full_name}/{method.name}") == requirement_in(method)


def test_an_rpc_that_does_not_say_so_is_never_served():
    with pytest.raises(NoRequirement):
        requirement_of("/taskyard.v1.TaskService/Unheard")


def test_the_table_has_every_rpc():
    assert set(TABLE) == set(METHODS)


def test_nobody_is_let_in_without_a_credential_unless_anyone_is(running):
    expected = {name: "let in" if name in FOR_ANYONE else "unauthenticated" for name in SERVED}
    with grpc.insecure_channel(running.address) as channel:
        found = {name: empty_call(channel, name, running.metadata("nobody")) for name in SERVED}
    assert_same(found, expected)


def test_a_credential_that_does_not_hold_is_none_where_anyone_is_let_in(running):
    metadata = (("authorization", "Bearer not-a-token"),)
    with grpc.insecure_channel(running.address) as channel:
        found = {name: empty_call(channel, name, metadata) for name in FOR_ANYONE}
    assert_same(found, dict.fromkeys(FOR_ANYONE, "let in"))


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_let_in_as_the_table_says(running, role):
    expected = {name: "let in" if is_allowed(name, role) else "permission_denied" for name in SERVED}
    if is_allowed(ENDS_THE_SERVER, role):
        del expected[ENDS_THE_SERVER]
        assert judged(ENDS_THE_SERVER, role) == "let in"
    with grpc.insecure_channel(running.address) as channel:
        found = {name: empty_call(channel, name, running.metadata(role)) for name in expected}
    assert_same(found, expected)


def test_a_role_is_worth_nothing_in_another_namespace():
    names = [name for name in SERVED if name not in FOR_ANY_PRINCIPAL]
    found = {(name, role): judged(name, role, OTHER_NAMESPACE) for name in names for role in GRANTS}
    assert_same(found, dict.fromkeys(found, "permission_denied"))


@pytest.mark.parametrize("name", ["GetTask", "WatchTasks", "SubmitTasks", "Connect"])
def test_nor_is_it_at_a_server(running, name):
    with grpc.insecure_channel(running.address) as channel:
        found = {role: empty_call(channel, name, running.metadata(role, OTHER_NAMESPACE)) for role in GRANTS}
    assert_same(found, dict.fromkeys(GRANTS, "permission_denied"))


def test_the_namespace_of_the_call_lets_nobody_into_the_one_that_the_request_names(running):
    names = [name for name in SERVED if requirement_in(METHODS[name]).namespace_field]
    with grpc.insecure_channel(running.address) as channel:
        found = {
            (name, role): empty_call(channel, name, running.metadata(role), namespace=OTHER_NAMESPACE)
            for name in names
            for role in GRANTS
        }
    assert_same(found, dict.fromkeys(found, "permission_denied"))


def test_an_agent_acts_in_its_own_name_only(running):
    names = [name for name in SERVED if requirement_in(METHODS[name]).agent_field]
    with grpc.insecure_channel(running.address) as channel:
        found = {name: empty_call(channel, name, running.metadata("agent"), agent=OTHER_AGENT) for name in names}
    assert_same(found, dict.fromkeys(found, "permission_denied"))


def test_a_host_acts_in_its_own_name_only(running):
    names = ["Connect", *(name for name in SERVED if requirement_in(METHODS[name]).host_field)]
    with grpc.insecure_channel(running.address) as channel:
        found = {name: empty_call(channel, name, running.metadata("host"), host=OTHER_HOST) for name in names}
    assert_same(found, dict.fromkeys(found, "permission_denied"))


# REST


def status(http: httpx.Client, route: Route, agent: str = AGENT, host: str = HOST) -> str:
    """`let in`, or the status of a call that is not."""
    requirement = requirement_in(METHODS[route.name])
    body = {route.camel(requirement.agent_field): agent} if requirement.agent_field else {}
    if requirement.host_field and "host_id" not in route.variables:
        body["host_id"] = host
    path = route.path(host_id=host, namespace=NAMESPACE)
    with http.stream(route.verb, path, json=body if route.has_body else None) as answer:
        if not METHODS[route.name].server_streaming:
            answer.read()
        return str(answer.status_code) if answer.status_code in (401, 403) else "let in"


def test_a_path_lets_in_without_a_credential_whom_its_rpc_lets_in(running):
    with running.rest("nobody") as http:
        found = {name: status(http, route) for name, route in BY_REST.items()}
    assert_same(found, {name: "let in" if name in FOR_ANYONE else "401" for name in BY_REST})


@pytest.mark.parametrize("outcome", ["let in", "403"])
def test_a_path_lets_in_what_roles_its_rpc_lets_in(running, outcome):
    found = {}
    with ExitStack() as open_clients:
        clients = {role: open_clients.enter_context(running.rest(role)) for role in ROLES}
        for name, route in BY_REST.items():
            roles = [role for role in ROLES if is_allowed(name, role) == (outcome == "let in")]
            if roles and (name, outcome) != (ENDS_THE_SERVER, "let in"):
                found[name, roles[0]] = status(clients[roles[0]], route)
    assert_same(found, dict.fromkeys(found, outcome))


def test_a_path_with_the_name_of_another_host_is_refused(running):
    names = [name for name in BY_REST if requirement_in(METHODS[name]).host_field]
    with running.rest("host") as http:
        found = {name: status(http, BY_REST[name], host=OTHER_HOST) for name in names}
    assert_same(found, dict.fromkeys(names, "403"))


def test_a_body_with_the_name_of_another_agent_is_refused(running):
    names = [name for name in BY_REST if requirement_in(METHODS[name]).agent_field]
    with running.rest("agent") as http:
        found = {name: status(http, BY_REST[name], agent=OTHER_AGENT) for name in names}
    assert_same(found, dict.fromkeys(names, "403"))


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
