"""`examples/tab_executor.py` answers as its docstring says."""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.cases import every_case
from tests.ports import free_port

EXAMPLE = Path(__file__).parents[1] / "examples" / "tab_executor.py"


@contextmanager
def served(token=""):
    """Runs the example as its docstring says; its base URL once it is ready."""
    port = free_port()
    command = [sys.executable, str(EXAMPLE), str(port)]
    environment = {**os.environ, "TASKYARD_EXECUTOR_TOKEN": token}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout.readline() == f"tab actions are run at http://127.0.0.1:{port}\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait(timeout=10)
        server.stdout.close()


@pytest.fixture(scope="module")
def url():
    """The base URL of the example without a token."""
    with served() as base_url:
        yield base_url


def post(url, authorization="", **action):
    """POST an action; status and JSON of the answer."""
    headers = {"content-type": "application/json", "authorization": authorization}
    request = Request(url, json.dumps(action).encode(), headers)
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)


@pytest.mark.parametrize("kind", ["click", "type", "waiting", "anything"])
def test_it_succeeds_and_tells_what_it_was_asked_to_do(url, kind):
    assert post(f"{url}/tabs/t1/action", kind=kind, ref="e14", x=1) == (
        200,
        {"success": True, "tab": "t1", "action": {"kind": kind, "ref": "e14", "x": 1}},
    )


@pytest.mark.parametrize("tab", ["..", "a/b", "工 🙂", "%2F"])
def test_it_tells_the_tab_as_its_submitter_wrote_it(url, tab):
    _, answer = post(f"{url}/tabs/{quote(tab, safe='')}/action", kind="click")
    assert answer["tab"] == tab


def test_the_kind_fail_is_answered_with_422(url):
    assert post(f"{url}/tabs/t1/action", kind="fail") == (422, {"success": False, "error": "told to fail"})
    assert post(f"{url}/tabs/t1/action", kind="fail", error="element not found") == (
        422,
        {"success": False, "error": "element not found"},
    )


def test_the_kind_fail_takes_status_code_and_retryable_of_the_action(url):
    fields = {"error": "stale", "code": "stale_ref", "retryable": False}
    assert post(f"{url}/tabs/t1/action", kind="fail", status=200, **fields) == (200, {"success": False, **fields})


def test_with_a_token_other_requests_are_refused():
    with served("t0ken") as base_url:
        url = f"{base_url}/tabs/t1/action"
        assert post(url, "Bearer t0ken", kind="click")[0] == 200
        for authorization in ("", "Bearer other", "Bearer", "t0ken", "Basic t0ken"):
            status, answer = post(url, authorization, kind="click")
            assert (status, answer["code"], answer["retryable"]) == (401, "unauthorized", False)


def test_the_kind_wait_takes_its_time(url):
    begin = time.monotonic()
    status, _ = post(f"{url}/tabs/t1/action", kind="wait", ms=200)
    assert status == 200
    assert time.monotonic() - begin >= 0.2


@every_case("path", ["/", "/tabs", "/tabs/t1", "/tabs/a/b/action", "/tabs//action", "/tabs/t1/action/x"])
def test_other_routes_are_404(url, path):
    assert post(url + path, kind="click") == (404, {"error": "no such route"})
