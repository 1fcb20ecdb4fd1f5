"""gateway/openapi.json describes what the server behind the gateway answers.

schemathesis makes up requests, most of which name objects that exist, and checks every answer.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode

from tests.gateway.control_plane import roomy_control_plane
from tests.gateway.valid_requests import ABOUT_OTHERS, REQUESTS, ValidRequests

pytest_plugins = "schemathesis.pytest.plugin"
pytestmark = [pytest.mark.gate("minutes of made up requests"), pytest.mark.long]

FILE = Path(__file__).parents[2] / "gateway/openapi.json"
SECS = 20.0
EXAMPLES = 10
ENDLESS = "WatchTasks"
LAST = "DrainServer"

load_all_checks()
CONFORMS = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)
SESSION = requests.Session()
SESSION.trust_env = False
DESCRIPTION = json.loads(FILE.read_text())
API = schemathesis.openapi.from_dict(DESCRIPTION)
CALLS = {
    call["operationId"]: (verb, path) for path, item in DESCRIPTION["paths"].items() for verb, call in item.items()
}


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with roomy_control_plane(tmp_path_factory.mktemp("openapi")) as plane, plane.client() as http:
        yield http


@pytest.fixture(scope="module")
def valid(http: httpx.Client) -> ValidRequests:
    return ValidRequests(http)


def called(http: httpx.Client, case: Any) -> Any:
    """The answer to a request, which must be as it is described."""
    return case.call_and_validate(base_url=str(http.base_url), session=SESSION, checks=CONFORMS, timeout=SECS)


def test_the_gateway_serves_the_description(http: httpx.Client) -> None:
    answer = http.get("/openapi.json")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.content == FILE.read_bytes()
    assert http.post("/openapi.json").status_code == 404


def test_generators_of_clients_find_the_fields_of_every_schema() -> None:
    """Several take a schema with alternatives, or an object of which nothing is said, for one without fields."""
    for name, schema in DESCRIPTION["components"]["schemas"].items():
        assert not schema.keys() & {"oneOf", "anyOf", "allOf"}, name
        for field, inner in schema.get("properties", {}).items():
            if inner.get("type") == "object":
                assert "additionalProperties" in inner, f"{name}.{field}"


@pytest.mark.parametrize(
    ("given", "is_valid"),
    [({"cron": "0 9 * * *"}, True), ({"interval": "30s"}, True), ({}, False), ({"cron": "0 9 * * *", "at": ""}, False)],
)
def test_alternatives_exclude_each_other(given: dict[str, str], is_valid: bool) -> None:
    schema = {"$ref": "#/components/schemas/CreateScheduleRequest", "components": DESCRIPTION["components"]}
    task = {"agentId": "ann", "action": "click"}
    assert jsonschema_rs.Draft202012Validator(schema).is_valid({"task": task, **given}) is is_valid


def test_every_operation_has_a_valid_request() -> None:
    assert CALLS.keys() - {ENDLESS} == REQUESTS.keys()


@pytest.mark.parametrize("operation", [operation for operation in REQUESTS if operation != LAST])
def test_a_valid_request_is_answered_as_described(http: httpx.Client, valid: ValidRequests, operation: str) -> None:
    answer = called(http, case_of(operation, valid))
    assert answer.status_code in ((ABOUT_OTHERS[operation],) if operation in ABOUT_OTHERS else (200, 202)), answer.text


def case_of(operation: str, valid: ValidRequests, api: Any = API) -> Any:
    """A request that must succeed."""
    verb, path = CALLS[operation]
    request = valid.request_for(operation)
    described = api[path][verb.upper()]
    body = {"body": request.body, "media_type": "application/json"} if described.body else {}
    if request.content is not None:
        body = {"body": request.content, "media_type": "application/octet-stream"}
    return described.Case(path_parameters=request.path, query=request.query, **body)


@API.exclude(operation_id=[ENDLESS, LAST]).parametrize()
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_any_request_is_answered_as_described(http: httpx.Client, valid: ValidRequests, case: Any) -> None:
    aim(case, valid)
    called(http, case)


def aim(case: Any, valid: ValidRequests) -> None:
    """Let a made-up request name objects that exist: in its path three times of four, in its body every other time."""
    operation = case.operation.definition.raw["operationId"]
    turn = valid.turn()
    # What is invalid changes nothing: all of a call name the same objects.
    is_invalid = case.meta is not None and case.meta.generation.mode is GenerationMode.NEGATIVE
    request = valid.last_request_for(operation) if is_invalid else valid.request_for(operation)
    if turn % 4:
        case.path_parameters = {**case.path_parameters, **request.path}
    if turn % 2 and isinstance(case.body, dict):
        case.body = {**case.body, **request.body}
    # No call waits long.
    if operation == "StreamOutput":
        case.query.pop("follow", None)
    if operation == "WaitTask":
        case.query = {**case.query, "timeoutMs": 1}
    if operation == "ClaimTask" and isinstance(case.body, dict):
        case.body.pop("wait_ms", None)
    if operation in ("CancelTask", "PauseTask") and isinstance(case.body, dict):
        case.body.pop("waitMs", None)


def test_each_line_of_a_watch_is_as_described(http: httpx.Client, valid: ValidRequests) -> None:
    task = valid.request_for("GetTask").path["taskId"]
    lines = []
    watch = {"taskIds": task, "includeCurrent": True, "untilEnded": True}
    with http.stream("GET", "/tasks:watch", params=watch) as answer:
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
        for line in answer.iter_lines():
            lines.append(json.loads(line))
            if lines[-1].get("bookmark"):
                http.post(f"/tasks/{task}/cancel")
    assert [event["kind"] for line in lines for event in line.get("events", ())] == ["current", "changed"]
    assert lines[-1]["end"]["reason"] == "tasks_ended"
    described = DESCRIPTION["paths"]["/tasks:watch"]["get"]["responses"]["200"]["content"]["application/x-ndjson"]
    validator = jsonschema_rs.Draft202012Validator({**described["schema"], "components": DESCRIPTION["components"]})
    for line in lines:
        validator.validate(line)
    assert not validator.is_valid({"events": [{}]})


def test_an_answer_that_is_not_as_described_is_noticed(http: httpx.Client, valid: ValidRequests) -> None:
    wrong = json.loads(FILE.read_text())
    wrong["components"]["schemas"]["Attempt"]["required"].append("colour")
    case = case_of("GetTask", valid, schemathesis.openapi.from_dict(wrong))
    with pytest.raises(FailureGroup, match="colour"):
        called(http, case)


@pytest.mark.parametrize("header", ["x!", "a'b", "a*b", "a^b", "a|b", "x-bin", "-bin"])
def test_a_header_that_grpc_rejects_is_dropped(http: httpx.Client, header: str) -> None:
    answer = http.get("/tasks", headers={header: "%%"})
    assert answer.status_code == 200, answer.text


def test_a_drain_answers_as_described(tmp_path: Path) -> None:
    with roomy_control_plane(tmp_path) as plane, plane.client() as http:
        answer = called(http, case_of(LAST, ValidRequests(http)))
        assert answer.status_code == 200, answer.text
