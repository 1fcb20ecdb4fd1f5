"""The path names the object of a call: neither the query nor the body names another (docs/rules.md, REST)."""

import json
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias
from urllib.parse import urlencode

import httpx
import pytest
from google.protobuf.descriptor import FieldDescriptor

from tests.gateway.control_plane import roomy_control_plane
from tests.gateway.routes import ROUTES, Route
from tests.gateway.valid_requests import Request, ValidRequests, is_done

pytestmark = pytest.mark.gate("tests/interceptors/test_request_target.py holds the rule lower")

STREAM = "WatchTasks"
SELDOM = 7
"""Of so many routes one is tried in every way; that all are alike is what the lower test shows."""
Sent: TypeAlias = "tuple[str, str]"
"""The query and the text of the body."""
Override: TypeAlias = "Callable[[dict[str, Any], str, str, str], Sent]"


def each(routes: list[Route]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("route", routes, ids=lambda route: f"{route.verb} {route.template}")


NAMING = [route for route in ROUTES if route.variables]
each_naming_route = each(NAMING)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with roomy_control_plane(tmp_path_factory.mktemp("paths")) as plane, plane.client() as http:
        yield http


@pytest.fixture(scope="module")
def valid(http: httpx.Client) -> ValidRequests:
    return ValidRequests(http)


def text_of(body: dict[str, Any]) -> str:
    return json.dumps(body) if body else ""


def with_first(member: str, body: dict[str, Any]) -> str:
    return "{" + ", ".join([member, *(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in body.items())]) + "}"


# Each way to name an object beside the path: by the two names of the field, spelled plainly and escaped.
OVERRIDES: dict[str, Override] = {
    "query": lambda body, _, camel, value: (urlencode({camel: value}), text_of(body)),
    "query, snake_case": lambda body, snake, _, value: (urlencode({snake: value}), text_of(body)),
    "query, escaped": lambda body, _, camel, value: (f"%{ord(camel[0]):02x}{camel[1:]}={value}", text_of(body)),
    "query, after another": lambda body, _, camel, value: (f"&&{camel}={value}&", text_of(body)),
    "query, empty": lambda body, _, camel, __: (f"{camel}=", text_of(body)),
    "body": lambda body, _, camel, value: ("", text_of({**body, camel: value})),
    "body, snake_case": lambda body, snake, _, value: ("", text_of({**body, snake: value})),
    "body, first": lambda body, _, camel, value: ("", with_first(f'"{camel}": "{value}"', body)),
    "body, snake_case, first": lambda body, snake, _, value: ("", with_first(f'"{snake}": "{value}"', body)),
    "body, key escaped": lambda body, snake, _, value: (
        "",
        with_first(f'"\\u{ord(snake[0]):04x}{snake[1:]}": "{value}"', body),
    ),
    "body, value escaped": lambda body, _, camel, value: (
        "",
        with_first(f'"{camel}": "\\u{ord(value[0]):04x}{value[1:]}"', body),
    ),
    "body, empty": lambda body, snake, _, __: ("", text_of({**body, snake: ""})),
}


def send(http: httpx.Client, route: Route, request: Request, query: str, body: str) -> httpx.Response:
    url = route.path(**request.path) + ("?" if query else "") + query
    return http.request(route.verb, url, content=body, headers={"content-type": "application/json"})


def send_valid(http: httpx.Client, route: Route, request: Request) -> httpx.Response:
    return send(http, route, request, urlencode(request.query), request.content or text_of(request.body))


def overridden(request: Request, route: Route, override: str, variable: str, value: str) -> tuple[str, str]:
    """The query and the body of a request in which a variable of the path has another value."""
    query, body = OVERRIDES[override](request.body, variable, route.camel(variable), value)
    if not route.has_body:
        query = "&".join(filter(None, (query, urlencode(request.query))))
    return query, body if request.content is None else request.content


def error_of(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json"), answer.text
    body = answer.json()
    assert body.keys() == {"code", "error"}
    assert body["code"] == "bad_request"
    return str(body["error"])


def value_of(request: Request, route: Route, variable: str) -> str:
    return request.path.get(variable) or request.path[route.camel(variable)]


def another(variable: str, route: Route, valid: ValidRequests) -> tuple[Request, str]:
    """A request that succeeds, and the name of another object of its kind."""
    request, other = valid.request_for(route.name), valid.request_for(route.name)
    given, named = value_of(request, route, variable), value_of(other, route, variable)
    if named == given:  # All leases are those of one host.
        named = valid.host()
    return request, named


@pytest.mark.parametrize(
    ("route", "override"),
    [
        pytest.param(route, override, id=f"{route.verb} {route.template} {override}")
        for number, route in enumerate(NAMING)
        for override in (OVERRIDES if number % SELDOM == 0 else ("query", "body"))
        if not (route.has_content and override.startswith("body"))
    ],
)
def test_another_object_is_refused_and_the_one_of_the_path_is_left_alone(
    http: httpx.Client, valid: ValidRequests, route: Route, override: str
) -> None:
    for variable in route.variables:
        request, other = another(variable, route, valid)
        query, body = overridden(request, route, override, variable, other)
        error = error_of(send(http, route, request, query, body))
        assert error.startswith((f"{variable}: ", f"{route.camel(variable)}: ")), error
        # What can be done once, such as to cancel, was not done to it.
        assert is_done(route.name, send_valid(http, route, request))


@each_naming_route
def test_the_other_object_is_left_alone(http: httpx.Client, valid: ValidRequests, route: Route) -> None:
    for override in ("query",) if route.has_content else ("query", "body", "body, snake_case"):
        request, other = valid.request_for(route.name), valid.request_for(route.name)
        named = value_of(other, route, route.variables[-1])
        variable = route.variables[-1]
        query, body = overridden(request, route, override, variable, named)
        send(http, route, request, query, body)
        assert is_done(route.name, send_valid(http, route, other))


@each_naming_route
def test_the_same_object_may_be_named_again(http: httpx.Client, valid: ValidRequests, route: Route) -> None:
    for override in ("query", "query, snake_case", "body", "body, snake_case", "body, key escaped"):
        if override.startswith("query") if route.has_body else route.has_content and override.startswith("body"):
            continue
        for variable in route.variables:
            request = valid.request_for(route.name)
            value = value_of(request, route, variable)
            query, body = overridden(request, route, override, variable, value)
            assert is_done(route.name, send(http, route, request, query, body))


@each_naming_route
def test_the_path_names_what_it_means_and_not_how_it_is_spelled(
    http: httpx.Client, valid: ValidRequests, route: Route
) -> None:
    request = valid.request_for(route.name)
    escaped = {name: "".join(f"%{byte:02X}" for byte in value.encode()) for name, value in request.path.items()}
    content = request.content or text_of(request.body)
    answer = send(http, route, Request(escaped), urlencode(request.query), content)
    assert is_done(route.name, answer), answer.text


@pytest.mark.parametrize(
    "name", ["a%2Fb", "a+b", "a%20b", "%zz", "a%", "%C3%A9", "a:b", "a%3Await", "%25", "a;b=c", "a%00b"]
)
def test_a_name_of_any_characters_is_read_as_the_gateway_reads_it(http: httpx.Client, name: str) -> None:
    answer = http.get(f"/tasks/{name}")
    assert (answer.status_code, answer.json()["error"]) == (404, "task not found")


# Queries as such


VALUES = {
    FieldDescriptor.TYPE_STRING: "2",
    FieldDescriptor.TYPE_UINT32: "2",
    FieldDescriptor.TYPE_DOUBLE: "2",
    FieldDescriptor.TYPE_BOOL: "true",
    FieldDescriptor.TYPE_MESSAGE: "2030-01-01T00:00:00Z",
    FieldDescriptor.TYPE_ENUM: "0",
}


@each([route for route in ROUTES if not route.has_body])
def test_what_is_one_value_cannot_be_given_twice(http: httpx.Client, valid: ValidRequests, route: Route) -> None:
    for field in route.request.fields:
        if field.is_repeated or (route.has_content and field.name == "content"):
            continue
        request = Request() if route.name == STREAM else valid.request_for(route.name)
        given = value_of(request, route, field.name) if field.name in route.variables else VALUES[field.type]
        for first, second in ((field.name, field.name), (field.json_name, field.name)):
            error = error_of(send(http, route, request, f"{first}={given}&{second}={given}", ""))
            assert error in (f"{field.name}: is given more than once", f"{field.json_name}: is given more than once")


def test_a_list_may_be_given_item_by_item(http: httpx.Client) -> None:
    answer = http.get("/tasks:watch?taskIds=tsk_1&task_ids=tsk_2&untilEnded=true")
    assert answer.status_code == 200


@each([route for route in ROUTES if route.has_body])
def test_a_query_beside_a_body_is_refused(http: httpx.Client, route: Route) -> None:
    for field in route.request.fields:
        if field.name in route.variables or field.type == field.TYPE_MESSAGE:
            continue
        for name in (field.name, field.json_name):
            for body in ("{}", ""):
                parameter = f"{name}={VALUES.get(field.type, 2)}"
                error = error_of(send(http, route, Request(), parameter, body))
                assert error == f"{name}: belongs in the body, not in the query"


def test_nobody_submits_for_another_agent_by_the_query(http: httpx.Client) -> None:
    answer = http.post("/tasks?agentId=evil", json={"agentId": "ann", "action": "click"})
    assert error_of(answer) == "agentId: belongs in the body, not in the query"
    assert http.get("/tasks?agentId=evil").json()["count"] == 0


@each(ROUTES)
def test_an_unknown_parameter_is_refused(http: httpx.Client, route: Route) -> None:
    for parameter in ("colour=red", "colour", "task.task_id=x", "=x", "colour=red&colour=red"):
        assert error_of(send(http, route, Request(), parameter, "")).startswith("unknown query parameter: ")


def test_a_parameter_without_a_value_is_refused(http: httpx.Client) -> None:
    assert error_of(http.get("/tasks?agentId")) == "agentId: has no value"
