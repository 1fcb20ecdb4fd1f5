"""What a REST body has that nobody knows and nobody refuses is named, counted and told of (docs/rules.md, REST)."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.gateway.control_plane import ControlPlane, control_plane

NAMES = "taskyard-ignored-fields"
TASK = {"agentId": "ann", "action": "click"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("yard") / "yard.log"


@pytest.fixture(scope="module")
def plane(log: Path) -> Iterator[ControlPlane]:
    with control_plane("--store", "memory://", "--log-file", str(log)) as plane:
        yield plane


@pytest.fixture(scope="module")
def rest(plane: ControlPlane) -> Iterator[httpx.Client]:
    with plane.client() as client:
        yield client


def test_the_answer_names_them_by_their_way(rest: httpx.Client) -> None:
    task = {"action": "a", "lables": {"labels": 1}, "retry_policy": {"max_tries": 1}, "a\nb é": 1, "x" * 90: 1}
    answer = rest.post("/tasks/batch", json={"agentId": "ann", "colour": 1, "tasks": [{"action": "a"}, task]})
    assert answer.status_code == 202
    assert answer.headers[NAMES].split(", ") == [
        *("colour", "tasks[1].lables", "tasks[1].retryPolicy.maxTries"),
        *("tasks[1].a?b???", f"tasks[1].{'x' * 31}"),
    ]


def test_ten_are_named_at_most(rest: httpx.Client) -> None:
    answer = rest.post("/tasks", json={**TASK, **{f"x{number}": 1 for number in range(50)}})
    assert answer.headers[NAMES].count("x") == 10


def test_what_is_a_payload_is_no_field(rest: httpx.Client) -> None:
    answer = rest.post("/tasks", json={**TASK, "params": {"colour": {"a": 1}}, "labels": {"colour": "x"}})
    assert answer.status_code == 202
    assert NAMES not in answer.headers


def test_a_call_of_a_host_has_the_names_too(rest: httpx.Client) -> None:
    answer = rest.post("/api/runtime-hosts/register", json={"host_id": "h", "slots": 1, "version": "1.2"})
    assert answer.is_success
    assert answer.headers[NAMES] == "version"


def test_a_caller_cannot_make_them_up(rest: httpx.Client) -> None:
    answer = rest.post("/tasks", json=TASK, headers={f"x-{NAMES}": "made-up"})
    assert answer.status_code == 202
    assert NAMES not in answer.headers


def test_a_call_that_is_refused_names_its_own_mistake_and_is_not_counted(rest: httpx.Client) -> None:
    headers = {"taskyard-namespace": "refused"}
    rest.post("/tasks", json=TASK, headers=headers)
    answer = rest.post("/tasks", json={"agentId": "", "action": "a", "colour": 1}, headers=headers)
    assert answer.json() == {"code": "bad_request", "error": "agentId: is required"}
    assert "callsWithIgnoredFields" not in rest.get("/scheduler/stats", headers=headers).json()["metrics"]


def test_they_are_counted_and_the_first_of_each_agent_is_logged(
    rest: httpx.Client, plane: ControlPlane, log: Path
) -> None:
    headers = {"taskyard-namespace": "counted"}
    for agent in ("bob", "bob", "cy"):
        rest.post("/tasks", json={"agentId": agent, "action": "a", "colour": 1}, headers=headers)
    assert rest.get("/scheduler/stats", headers=headers).json()["metrics"]["callsWithIgnoredFields"] == 3
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    told = [line for line in lines if line["event"] == "fields_ignored" and line["namespace"] == "counted"]
    assert [(line["by"], line["fields"]) for line in told] == [("bob", "colour"), ("cy", "colour")]
    metrics = httpx.get(f"http://127.0.0.1:{plane.ports['metrics']}/metrics", trust_env=False).text
    count = next(line for line in metrics.splitlines() if line.startswith("taskyard_calls_with_ignored_fields_total "))
    assert float(count.split()[1]) >= 3


def test_by_a_setting_they_are_refused_and_nothing_is_done() -> None:
    with (
        control_plane("--store", "memory://", environment={"TASKYARD_REFUSE_UNKNOWN_FIELDS": "true"}) as plane,
        plane.client() as rest,
    ):
        answer = rest.post("/tasks", json={**TASK, "lables": {"a": "b"}, "colour": 1})
        assert answer.status_code == 400
        assert answer.json() == {"code": "bad_request", "error": "lables: is no field of this request"}
        assert rest.get("/tasks").json()["count"] == 0
        assert rest.post("/tasks", json=TASK).status_code == 202
