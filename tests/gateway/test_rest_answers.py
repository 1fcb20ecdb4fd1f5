"""The shape of what REST callers get: statuses, empty lists, names, zeros, streams."""

import asyncio
import json

import httpx
import pytest

from tests.gateway.gateways import SECS, assert_json
from tests.gateway.scripted_server import Tasks

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("path", ["/tasks", "/tasks/", "/tasks//", "/tasks?"])
async def test_a_submit_is_202(rest: httpx.AsyncClient, path: str) -> None:
    answer = await rest.post(path, json={"agentId": "a"})
    assert_json(answer, 202, {"taskId": "tsk_1", "state": "queued", "position": 0})


@pytest.mark.parametrize("path", ["//tasks", "/./tasks", "/x/../tasks", "/%74asks", "/tasks%2F", "/tasks/.", "/TASKS"])
async def test_no_other_spelling_of_its_path_is_200(rest: httpx.AsyncClient, path: str) -> None:
    answer = await rest.post(path, json={"agentId": "a"})
    assert answer.status_code in (202, 404)
    assert "x-http-status" not in answer.headers


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("", '{"tasks":[],"count":0}'),
        ("?state=failed", '{"tasks":[]}'),
        ("?state=done", '{"tasks":[{"taskId":"tsk_1"}],"count":1}'),
    ],
)
async def test_an_empty_list_is_there(rest: httpx.AsyncClient, query: str, text: str) -> None:
    answer = await rest.get(f"/tasks{query}")
    assert_json(answer, 200, json.loads(text))
    assert answer.text == text


async def test_figures_are_there_even_if_0(rest: httpx.AsyncClient) -> None:
    body = {"queue": {"totalQueued": 0, "totalInflight": 0, "agentCounts": {}}}
    assert_json(await rest.get("/scheduler/stats"), 200, body)


async def test_host_calls_speak_snake_case(rest: httpx.AsyncClient) -> None:
    assert_json(await rest.get("/api/leases"), 200, {"leases": []})
    claim = {"claimed": True, "task_id": "tsk_1", "fencing_token": 1, "task": {"task_id": "tsk_1", "agent_id": "a"}}
    assert_json(await rest.post("/api/runtime-hosts/h/tasks/claim", json={}), 200, claim)


@pytest.mark.parametrize("path", ["/tasks/", "/tasks//", "/tasks/?state="])
async def test_a_closing_slash_changes_nothing(rest: httpx.AsyncClient, path: str) -> None:
    assert_json(await rest.get(path), 200, {"tasks": [], "count": 0})


async def test_a_watch_sends_a_line_a_message_and_ends_with_its_reader(tasks: Tasks, rest: httpx.AsyncClient) -> None:
    tasks.left.clear()
    async with rest.stream("GET", "/tasks:watch") as answer:
        lines = answer.aiter_lines()
        assert [json.loads(await anext(lines)) for _ in range(2)] == [{"cursor": "1"}, {"cursor": "2"}]
    await asyncio.wait_for(tasks.left.wait(), SECS)
