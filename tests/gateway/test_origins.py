"""Which browser pages may call: what CORS lets them read, and which of their requests are refused."""

import json
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from taskyard_server.settings.config import ConfigError
from taskyard_server.settings.config_sources import load
from tests.gateway.control_plane import control_plane
from tests.gateway.gateways import open_to
from tests.services.host_streams import ServerUnderTest, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGE = "https://app.example"
FOREIGN = "https://evil.example"
ALLOWED = (PAGE, "https://*.wild.example", "http://localhost:*")
LOOK_ALIKES = (
    *(FOREIGN, "null", "http://app.example", "https://app.example:8443", "https://app.example:443"),
    *("https://app.example.evil.example", "https://evil-app.example", "https://appxexample", "https://APP.example"),
    *("https://app.example/", "https://app.example evil", "https://app.example, https://evil.example", "*"),
)
SECS = 10.0
OLD_CURSOR = "NTYzMjM3ZGFiYWE5Yzg1ZC4wLmRlZmF1bHQ"
"""A cursor of another incarnation of the log."""
CALLED = ("access-control-request-method", "POST"), ("access-control-request-headers", "content-type,x-grpc-web")
TASK = '{"agentId": "ann", "action": "click"}'
REFUSAL = {"code": "permission_denied", "error": "pages of this origin may not call, see cors.origins"}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def server() -> AsyncIterator[ServerUnderTest]:
    async with serving() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def http(server: ServerUnderTest) -> AsyncIterator[httpx.AsyncClient]:
    async with open_to(server.address, *ALLOWED) as http:
        yield http


# CORS


async def preflight(http: httpx.AsyncClient, origin: str, path: str = "/tasks") -> httpx.Response:
    return await http.options(path, headers=[("origin", origin), *CALLED])


def cors_headers(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("access-control-")}


@pytest.mark.parametrize(
    "path", ["/tasks", "/tasks/tsk_1", "/api/runtime-hosts", "/taskyard.v1.TaskService/SubmitTask", "/openapi.json"]
)
async def test_a_preflight_from_an_allowed_page_is_granted(http: httpx.AsyncClient, path: str) -> None:
    answer = await preflight(http, PAGE, path)
    assert answer.status_code == 200
    granted = {
        name: {word.strip().lower() for word in value.split(",")} for name, value in cors_headers(answer).items()
    }
    assert granted["access-control-allow-origin"] == {PAGE}
    assert granted["access-control-allow-methods"] == {"get", "post", "put", "patch", "delete"}
    assert granted["access-control-allow-headers"] >= {
        *("authorization", "content-type", "taskyard-namespace", "traceparent"),
        *("grpc-timeout", "x-grpc-web", "x-user-agent"),
        *("range", "if-range"),
    }
    assert granted["access-control-max-age"] == {"7200"}


@pytest.mark.parametrize("origin", LOOK_ALIKES)
async def test_a_preflight_from_a_foreign_page_is_granted_nothing(http: httpx.AsyncClient, origin: str) -> None:
    answer = await preflight(http, origin)
    assert answer.status_code == 404
    assert cors_headers(answer) == {}


@pytest.mark.parametrize(
    ("origin", "granted"),
    [
        ("https://a.wild.example", True),
        ("https://a.b.wild.example", True),
        ("https://wild.example", False),
        ("https://awild.example", False),
        ("https://evil.example/.wild.example", False),
        ("http://a.wild.example", False),
        ("https://a.wild.example:8443", False),
        ("https://A.wild.example", False),
        ("https://.wild.example", False),
        ("https://a..wild.example", False),
        ("http://localhost", True),
        ("http://localhost:5173", True),
        ("http://localhost:5173.evil.example", False),
        ("http://localhost:", False),
        ("http://localhost.evil.example:80", False),
    ],
)
async def test_a_star_matches_names_below_a_domain_or_any_port(
    http: httpx.AsyncClient, origin: str, granted: bool
) -> None:
    answer = await preflight(http, origin)
    assert cors_headers(answer).get("access-control-allow-origin") == (origin if granted else None)


async def test_a_lone_star_allows_every_page(server: ServerUnderTest) -> None:
    async with open_to(server.address, "*") as http:
        for origin in (PAGE, FOREIGN, "null"):
            assert cors_headers(await preflight(http, origin))["access-control-allow-origin"] == origin


async def test_without_origins_no_page_is_allowed(server: ServerUnderTest) -> None:
    async with open_to(server.address) as http:
        assert cors_headers(await preflight(http, PAGE)) == {}
        answer = await http.get("/tasks", headers={"origin": PAGE})
        assert (answer.status_code, cors_headers(answer)) == (200, {})


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/tasks", None, 200),
        ("POST", "/tasks", '{"agentId": "ann", "action": "click"}', 202),
        ("POST", "/tasks", "{", 400),
        ("POST", "/tasks", "x" * 1_048_577, 413),
        ("GET", "/tasks?wrong=1", None, 400),
        ("GET", "/tasks/tsk_none", None, 404),
        ("GET", "/nowhere", None, 404),
        ("PUT", "/tasks", "{}", 404),
        ("GET", f"/tasks:watch?cursor={OLD_CURSOR}", None, 410),
        ("GET", "/openapi.json", None, 200),
    ],
)
async def test_allowed_pages_may_read_rest_answers_errors_included(
    http: httpx.AsyncClient, method: str, path: str, body: str | None, status: int
) -> None:
    for origin, seen in ((PAGE, PAGE), (FOREIGN, None)):
        headers = {"origin": origin, "content-type": "application/json"}
        answer = await http.request(method, path, content=body, headers=headers)
        done = status if seen or method == "GET" else 403
        assert (answer.status_code, answer.headers["content-type"]) == (done, "application/json")
        assert cors_headers(answer).get("access-control-allow-origin") == seen
        assert bool(cors_headers(answer)) == (seen is not None)
        if done >= 400:
            assert json.loads(answer.content)["code"]


async def test_allowed_pages_may_read_the_headers_of_artifacts(http: httpx.AsyncClient) -> None:
    answer = await http.get("/tasks", headers={"origin": PAGE})
    exposed = {name.strip() for name in cors_headers(answer)["access-control-expose-headers"].split(",")}
    assert exposed >= {"accept-ranges", "content-disposition", "content-range", "etag", "taskyard-ignored-fields"}


# What a page sends without a preflight


async def tasks_of(http: httpx.AsyncClient) -> int:
    return int((await http.get("/tasks")).json()["count"])


@pytest.mark.parametrize("origin", LOOK_ALIKES)
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_foreign_page_cannot_submit(http: httpx.AsyncClient, origin: str, content_type: str) -> None:
    before = await tasks_of(http)
    headers = {"origin": origin, **({"content-type": content_type} if content_type else {})}
    answer = await http.post("/tasks", content=TASK, headers=headers)
    assert (answer.status_code, answer.json(), cors_headers(answer)) == (403, REFUSAL, {})
    assert await tasks_of(http) == before


@pytest.mark.parametrize("origin", [FOREIGN, "null"])
async def test_a_foreign_page_cannot_cancel_drain_or_delete(http: httpx.AsyncClient, origin: str) -> None:
    task = (await http.post("/tasks", content=TASK)).json()["taskId"]
    for method, path in (("POST", f"/tasks/{task}/cancel"), ("POST", "/admin/drain"), ("DELETE", "/schedules/daily")):
        answer = await http.request(method, path, headers={"origin": origin})
        assert (answer.status_code, answer.json()) == (403, REFUSAL)
    assert (await http.get(f"/tasks/{task}")).json()["state"] == "queued"


async def test_a_foreign_page_is_refused_before_its_request_is_read(http: httpx.AsyncClient) -> None:
    for path, body in (("/nowhere", ""), ("/tasks", "{"), ("/tasks", "x" * 1_048_577)):
        answer = await http.post(path, content=body, headers={"origin": FOREIGN})
        assert (answer.status_code, answer.json()) == (403, REFUSAL)


async def test_a_page_under_the_address_of_the_gateway_is_foreign_too(http: httpx.AsyncClient) -> None:
    answer = await http.post("/tasks", content=TASK, headers={"origin": str(http.base_url).rstrip("/")})
    assert (answer.status_code, answer.json()) == (403, REFUSAL)


@pytest.mark.parametrize("kind", ["application/grpc-web+proto", "application/grpc-web-text", "application/grpc"])
async def test_a_grpc_call_of_a_foreign_page_is_refused_in_grpc(http: httpx.AsyncClient, kind: str) -> None:
    path = "/taskyard.v1.TaskService/SubmitTask"
    answer = await http.post(path, content=bytes(5), headers={"origin": FOREIGN, "content-type": kind})
    assert answer.headers["content-type"].startswith("application/grpc")
    assert (answer.headers["grpc-status"], answer.headers["grpc-message"]) == ("7", REFUSAL["error"])


async def test_an_allowed_page_may_send_without_a_preflight(http: httpx.AsyncClient) -> None:
    for origin in (PAGE, "https://a.wild.example", "http://localhost:5173"):
        answer = await http.post("/tasks", content=TASK, headers={"origin": origin, "content-type": "text/plain"})
        assert answer.status_code == 202


async def test_a_program_that_sends_no_origin_may_call(server: ServerUnderTest) -> None:
    async with open_to(server.address) as http:
        assert (await http.post("/tasks", content=TASK)).status_code == 202
        assert (await http.post("/tasks", content=TASK, headers={"origin": PAGE})).status_code == 403


async def test_with_a_lone_star_every_page_may_send(server: ServerUnderTest) -> None:
    async with open_to(server.address, "*") as http:
        for origin in (PAGE, FOREIGN, "null"):
            assert (await http.post("/tasks", content=TASK, headers={"origin": origin})).status_code == 202


async def test_there_may_be_many_origins(server: ServerUnderTest) -> None:
    many = [f"https://*.n{number}.some-long-name.example:*" for number in range(500)]
    async with open_to(server.address, *many) as http:
        for name, status in (("n499", 202), ("n500", 403)):
            headers = {"origin": f"https://a.{name}.some-long-name.example:8443"}
            assert (await http.post("/tasks", content=TASK, headers=headers)).status_code == status


# The setting


@pytest.mark.parametrize(
    "origin",
    ["*", PAGE, "http://localhost:*", "https://*.a-b.example:8443", "http://[::1]:3000", "moz-extension://1a-2b"],
)
async def test_an_origin_is_accepted(origin: str) -> None:
    assert load(None, {"cors": {"origins": [origin]}}).settings.cors.origins == [origin]


@pytest.mark.parametrize(
    "origin",
    [
        *("", "null", "app.example", "https://app.example/", "https://APP.example", "https://app.example:443"),
        *(
            "http://app.example:80",
            "https://app.*.example",
            "https://*",
            "https://app.example:80*",
            "https://a.example\n",
        ),
    ],
)
async def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(ConfigError, match=r"cors\.origins\.0: .*must be an origin as browsers send it"):
        load(None, {"cors": {"origins": [origin]}})


async def test_the_control_plane_passes_its_origins_to_the_gateway() -> None:
    with control_plane(environment={"TASKYARD_CORS__ORIGINS": json.dumps([PAGE])}) as plane:
        async with plane.async_client() as http:
            for origin, status in ((PAGE, 200), (FOREIGN, 404)):
                assert (await preflight(http, origin)).status_code == status
