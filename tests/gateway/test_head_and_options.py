"""HEAD is answered as GET without the body (RFC 9110, 9.3.2), and OPTIONS tells which verbs a path understands."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator

import httpx
import pytest

from tests.gateway.control_plane import ControlPlane, roomy_control_plane
from tests.gateway.http2 import Http2
from tests.gateway.routes import ROUTES, Route
from tests.gateway.valid_requests import ValidRequests
from tests.waiting import LIMIT_SECS

SECS = 10.0
OLD_CURSOR = "NTYzMjM3ZGFiYWE5Yzg1ZC4wLmRlZmF1bHQ"
"""Of another incarnation of the log."""
WATCH = "/tasks:watch"
OUTPUT = "/tasks/{task_id}/output/{format}"
ARTIFACTS = tuple(route.template for route in ROUTES if route.name in ("ReadArtifact", "FetchArtifact"))
STREAMS = (WATCH, OUTPUT, *ARTIFACTS)
REFUSED = [
    ("/nowhere", 404),
    ("/tasks/x/cancel", 404),
    ("/tasks/tsk_none", 404),
    ("/tasks?colour=red", 400),
    ("/tasks?pageSize=many", 400),
    ("/tasks?pageToken=none", 400),
    ("/tasks?agentId=a&agentId=b", 400),
    (f"{WATCH}?cursor={OLD_CURSOR}", 410),
    (f"{WATCH}?untilEnded=true", 400),
]
HEAD_BYTES = 2_000
"""What the longest head of a response stays below."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with roomy_control_plane(tmp_path_factory.mktemp("head")) as plane:
        yield plane


@pytest.fixture
def http(plane: ControlPlane) -> Iterator[httpx.Client]:
    """A client that has one connection, so that an answer that is too long meets the next one."""
    # No TLS here, so nothing to verify: to load the authorities takes longer than most calls.
    one = httpx.Limits(max_connections=1)
    with httpx.Client(base_url=plane.url, timeout=SECS, trust_env=False, verify=False, limits=one) as http:
        yield http


def url_of(route: Route, http: httpx.Client) -> str:
    request = ValidRequests(http).request_for(route.name)
    return str(httpx.URL(route.path(**request.path), params=request.query))


@pytest.mark.parametrize(
    "route",
    [route for route in ROUTES if route.verb == "GET" and route.template not in STREAMS],
    ids=lambda route: route.template,
)
def test_head_of_every_path_is_its_get_without_the_body(http: httpx.Client, route: Route) -> None:
    url = url_of(route, http)
    head, get = http.head(url), http.get(url)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert head.headers["content-length"] != "0"
    assert get.json() is not None


def test_head_has_the_length_of_the_body_that_get_has(http: httpx.Client) -> None:
    for path in ("/openapi.json", "/tasks?agentId=none", "/tasks/tsk_none", "/api/leases"):
        head, get = http.head(path), http.get(path)
        assert (head.status_code, head.content) == (get.status_code, b"")
        assert head.headers["content-length"] == str(len(get.content))


@pytest.mark.parametrize(("path", "status"), REFUSED)
def test_head_is_refused_as_get_is(http: httpx.Client, path: str, status: int) -> None:
    head = http.head(path)
    assert (head.status_code, head.headers["content-type"], head.content) == (status, "application/json", b"")
    get = http.get(path)
    assert get.status_code == status
    # Of its own refusals Envoy tells HEAD no length.
    assert head.headers.get("content-length") in (None, str(len(get.content)))
    assert http.get("/tasks").status_code == 200


async def test_nothing_but_heads_comes_back_on_the_connection(plane: ControlPlane) -> None:
    paths = ["/tasks", WATCH, "/openapi.json", *(path for path, _ in REFUSED if "?" not in path)]
    url = httpx.URL(plane.url)
    async with asyncio.timeout(LIMIT_SECS):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        for path in paths:
            writer.write(f"HEAD {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 ")
            assert len(head) < HEAD_BYTES
        writer.write(b"GET /tasks HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()


async def test_head_has_no_body_over_http2_either(plane: ControlPlane) -> None:
    url = httpx.URL(plane.url)
    async with asyncio.timeout(LIMIT_SECS):
        reader, writer = await asyncio.open_connection(url.host, url.port)
        http2 = Http2(reader, writer)
        for path in ("/tasks", WATCH, "/openapi.json", *(path for path, _ in REFUSED)):
            headers, body = await http2.request("HEAD", path)
            assert headers
            assert body == b""
        _, body = await http2.request("GET", "/tasks")
        assert body.startswith(b"{")
        writer.close()


def test_head_of_a_stream_ends_with_its_headers(http: httpx.Client) -> None:
    http.post("/tasks", json={"agentId": "ann", "action": "click"})
    for query in ("", "?includeCurrent=true"):
        answer = http.head(f"{WATCH}{query}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
        assert http.get("/tasks").status_code == 200


@pytest.mark.parametrize(
    ("form", "media_type"), [("events", "text/event-stream"), ("text", "text/plain; charset=utf-8")]
)
def test_head_of_output_has_the_type_that_get_has(http: httpx.Client, form: str, media_type: str) -> None:
    path = url_of(next(route for route in ROUTES if route.template == OUTPUT), http).replace("/text", f"/{form}")
    head = http.head(path)
    assert (head.status_code, head.headers["content-type"], head.content) == (200, media_type, b"")
    with http.stream("GET", path) as get:
        assert get.headers["content-type"] == media_type


def test_a_caller_cannot_cut_short_a_get_by_the_mark_of_head(http: httpx.Client) -> None:
    with http.stream("GET", WATCH, headers={"x-taskyard-head": "1"}) as answer:
        assert "bookmark" in next(answer.iter_lines())


def verbs_of_paths() -> dict[str, set[str]]:
    verbs: dict[str, set[str]] = defaultdict(lambda: {"OPTIONS"})
    for route in ROUTES:
        verbs[route.path()] |= {route.verb, "HEAD"} if route.verb == "GET" else {route.verb}
    return {**verbs, "/openapi.json": {"GET", "HEAD", "OPTIONS"}}


@pytest.mark.parametrize(("path", "verbs"), verbs_of_paths().items())
def test_options_names_the_verbs_of_every_path(http: httpx.Client, path: str, verbs: set[str]) -> None:
    for spelling in (path, f"{path}?x=y", f"{path}/"):
        answer = http.options(spelling)
        assert (answer.status_code, answer.content) == (204, b"")
        assert set(answer.headers["allow"].split(", ")) == verbs


@pytest.mark.parametrize("path", ["/nowhere", "/", "/tasks/x/nothing", "/openapixjson", "/tasks/x/y:wait"])
def test_options_of_an_unknown_path_is_404(http: httpx.Client, path: str) -> None:
    answer = http.options(path)
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
