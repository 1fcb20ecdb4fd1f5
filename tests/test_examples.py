"""`examples/tab_executor.py` does what its docstring says."""

import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

import pytest

from tests.ports import free_port

EXAMPLE = Path(__file__).parents[1] / "examples" / "tab_executor.py"


@pytest.fixture(scope="module")
def url():
    """The base URL of the example, which is started as its docstring says and is ready when it prints so."""
    port = free_port()
    command = [sys.executable, str(EXAMPLE), str(port)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout.readline() == f"tab actions are run at http://127.0.0.1:{port}\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait(timeout=10)
        server.stdout.close()


def post(url, **action):
    """POST an action, and return the status and the JSON of the answer."""
    request = Request(url, json.dumps(action).encode(), {"content-type": "application/json"})
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)


@pytest.mark.parametrize("kind", ["click", "type", "waiting", "anything"])
def test_an_action_succeeds_and_is_answered_with_its_request(url, kind):
    assert post(f"{url}/tabs/t1/action", kind=kind, ref="e14", x=1) == (
        200,
        {"success": True, "tab": "t1", "action": {"kind": kind, "ref": "e14", "x": 1}},
    )


@pytest.mark.parametrize("tab", ["..", "a/b", "工 🙂", "%2F"])
def test_the_answer_holds_the_tab_unquoted(url, tab):
    _, answer = post(f"{url}/tabs/{quote(tab, safe='')}/action", kind="click")
    assert answer["tab"] == tab


def test_an_action_fail_is_answered_with_422(url):
    assert post(f"{url}/tabs/t1/action", kind="fail") == (422, {"error": "told to fail"})
    assert post(f"{url}/tabs/t1/action", kind="fail", error="element not found") == (
        422,
        {"error": "element not found"},
    )


def test_an_action_wait_takes_the_given_time(url):
    begin = time.monotonic()
    status, _ = post(f"{url}/tabs/t1/action", kind="wait", ms=200)
    assert status == 200
    assert time.monotonic() - begin >= 0.2


@pytest.mark.parametrize("path", ["/", "/tabs", "/tabs/t1", "/tabs/a/b/action", "/tabs//action", "/tabs/t1/action/x"])
def test_other_routes_are_404(url, path):
    assert post(url + path, kind="click") == (404, {"error": "no such route"})
