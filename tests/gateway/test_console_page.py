"""The console is one file, which the gateway serves at /ui/ with a policy that nothing else runs under."""

import gzip
import re
import shutil
from base64 import b64encode
from collections.abc import AsyncIterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

import taskyard_server.gateway.gateway as gateway_module
from taskyard_server.app.listening import gateway_of
from taskyard_server.gateway.console_page import ConsolePage
from taskyard_server.gateway.envoy_config import GatewayError
from taskyard_server.gateway.gateway import Gateway
from taskyard_server.net.certificates import CertificateFiles
from taskyard_server.net.exposure import authentication_is_on
from taskyard_server.settings.config_sources import load
from tests.certificates import Authority
from tests.gateway.gateways import SECS, client_of, gateway_to
from tests.gateway.scripted_server import Tasks
from tests.gateway.yards import Replica, pair, trusting

pytestmark = pytest.mark.asyncio(loop_scope="module")

FILES = Path(__file__).parents[2] / "gateway"
PAGE = (FILES / "console.html").read_bytes()
IDENTITY = {"accept-encoding": "identity"}
OWN = {"sec-fetch-site": "same-origin"}
TASK = '{"agentId": "ann", "action": "click"}'


class Parts(HTMLParser):
    """The scripts and styles of a page, and what it would load."""

    def __init__(self, page: bytes) -> None:
        super().__init__(convert_charrefs=False)
        self.inline: dict[str, list[str]] = {"script": [], "style": []}
        self.loaded: list[str] = []
        self.handlers: list[str] = []
        self._tag = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._tag = tag if tag in self.inline else ""
        if self._tag:
            self.inline[tag].append("")
        self.loaded += [value or "" for name, value in attrs if name in ("src", "href") and value != "data:,"]
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._tag = ""

    def handle_data(self, data: str) -> None:
        if self._tag:
            self.inline[self._tag][-1] += data


def policy_of(answer: httpx.Response) -> dict[str, list[str]]:
    parts = (part.split() for part in answer.headers["content-security-policy"].split(";"))
    return {name: values for name, *values in parts}


def hash_of(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


# What is served


async def test_it_is_the_committed_file(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/ui/", headers=IDENTITY)
    assert (answer.status_code, answer.content) == (200, PAGE)
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-length"] == str(len(PAGE))
    assert "content-encoding" not in answer.headers


@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("deflate,gzip ; q=0.001", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000, identity", False),
        ("br", False),
        ("gzipped", False),
        ("x-gzip2", False),
        ("", False),
    ],
)
async def test_it_comes_compressed_to_who_takes_that(rest: httpx.AsyncClient, accepted: str, is_packed: bool) -> None:
    answer = await rest.get("/ui/", headers={"accept-encoding": accepted})
    assert answer.content == PAGE
    assert (answer.headers.get("content-encoding") == "gzip") == is_packed
    assert answer.headers["vary"] == "accept-encoding"
    length = int(answer.headers["content-length"])
    assert length == (len(gzip.compress(PAGE, mtime=0)) if is_packed else len(PAGE))


async def test_it_is_not_sent_again_to_who_has_it(rest: httpx.AsyncClient) -> None:
    marks = []
    for encoding in ("identity", "gzip"):
        first = await rest.get("/ui/", headers={"accept-encoding": encoding})
        mark = first.headers["etag"]
        assert first.headers["cache-control"] == "no-cache"
        for known in (mark, f"W/{mark}", f'"other", {mark}', f'{mark} , "other"', "*"):
            again = await rest.get("/ui/", headers={"accept-encoding": encoding, "if-none-match": known})
            assert (again.status_code, again.content) == (304, b"")
            assert "location" not in again.headers
            assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
        for other in ('"other"', mark[:-2] + '"', mark.strip('"')):
            assert (await rest.get("/ui/", headers={"if-none-match": other})).status_code == 200
        marks.append(mark)
    assert marks[0] != marks[1]


async def test_head_is_get_without_the_body(rest: httpx.AsyncClient) -> None:
    head, get = await rest.head("/ui/"), await rest.get("/ui/")
    assert (head.status_code, head.content) == (200, b"")
    assert {**head.headers, "date": ""} == {**get.headers, "date": ""}


async def test_other_paths_lead_to_it(rest: httpx.AsyncClient) -> None:
    bare = await rest.get("/ui", headers={"host": "localhost"})
    assert (bare.status_code, bare.headers["location"]) == (308, "/ui/")
    typed = await rest.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (typed.status_code, typed.headers["location"]) == (307, "/ui/")
    assert (await rest.get("/")).json()["console"] == "/ui/"


async def test_it_is_there_whatever_follows_the_question_mark(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/ui/?code=c&state=s&next=//evil.example", headers=IDENTITY)
    assert (answer.status_code, answer.content) == (200, PAGE)


@pytest.mark.parametrize(
    "path", ["/ui/console.html", "/ui//", "/ui/../console.html", "/uix", "//ui/", "/ui//evil.example", "/UI/"]
)
async def test_there_is_nothing_beside_it(rest: httpx.AsyncClient, path: str) -> None:
    answer = await rest.get(httpx.URL(str(rest.base_url)).copy_with(raw_path=path.encode()))
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("verb", ["POST", "PUT", "DELETE", "PATCH"])
async def test_it_is_only_read(rest: httpx.AsyncClient, verb: str) -> None:
    assert (await rest.request(verb, "/ui/")).status_code == 404
    options = await rest.options("/ui/")
    assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS")


# The policy


async def test_nothing_runs_but_what_is_in_the_file(rest: httpx.AsyncClient) -> None:
    answer = await rest.get("/ui/")
    parts, policy = Parts(PAGE), policy_of(answer)
    assert policy == {
        "default-src": ["'none'"],
        "script-src": [hash_of(text) for text in parts.inline["script"]] or ["'none'"],
        "style-src": [hash_of(text) for text in parts.inline["style"]] or ["'none'"],
        "img-src": ["data:", "blob:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
        "require-trusted-types-for": ["'script'"],
    }
    assert {name: answer.headers[name] for name in ("x-content-type-options", "referrer-policy")} == {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }


async def test_the_file_needs_nothing_else() -> None:
    parts = Parts(PAGE)
    assert parts.inline["script"]
    assert [each for each in parts.loaded if not each.startswith("data:")] == []
    assert parts.handlers == []
    # These would end a script elsewhere than the hash does.
    assert not re.search(rb"\r|\0|<!--", PAGE)


async def test_each_script_and_style_has_its_hash(tmp_path: Path) -> None:
    file = tmp_path / "console.html"
    file.write_text("<SCRIPT type=module>a < b;\n</SCRIPT ><style>b{}</style><script>c</script><scripted>d</scripted>")
    policy = ConsolePage(file).policy
    assert f"script-src {hash_of('a < b;' + chr(10))} {hash_of('c')}; style-src {hash_of('b{}')};" in policy
    file.write_text("<p>nothing</p>")
    assert "script-src 'none'; style-src 'none';" in ConsolePage(file).policy


# Its calls


@pytest.mark.parametrize("kind", ["application/json", "application/grpc-web+proto", "application/grpc-web-text"])
async def test_its_own_calls_are_let_through(rest: httpx.AsyncClient, kind: str) -> None:
    origin = str(rest.base_url).rstrip("/")
    path, body = (
        ("/tasks", TASK.encode())
        if kind.endswith("json")
        else ("/taskyard.v1.TaskService/SubmitTask", b"AAAAAAA=" if kind.endswith("text") else bytes(5))
    )
    answer = await rest.post(path, content=body, headers={"origin": origin, "content-type": kind, **OWN})
    assert answer.status_code in (200, 202)
    assert answer.headers.get("grpc-status", "0") == "0"


@pytest.mark.parametrize("site", ["same-site", "cross-site", "none", "", "same-origin, cross-site", "Same-Origin"])
async def test_the_calls_of_other_pages_are_not(rest: httpx.AsyncClient, site: str) -> None:
    headers = {"origin": "http://localhost:3000", "sec-fetch-site": site}
    answer = await rest.post("/tasks", content=TASK, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


async def test_a_name_that_was_bound_to_this_machine_is_refused_all_the_same(rest: httpx.AsyncClient) -> None:
    rebound = {"host": "evil.example", "origin": "http://evil.example", **OWN}
    assert (await rest.get("/ui/", headers=rebound)).status_code == 403
    assert (await rest.post("/tasks", content=TASK, headers=rebound)).status_code == 403


# Where it is served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replicas(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Replica, Replica]]:
    async with pair(tmp_path_factory.mktemp("yard")) as made:
        yield made


async def test_each_replica_serves_it(replicas: tuple[Replica, Replica]) -> None:
    for replica in replicas:
        async with client_of(replica.gateway) as http:
            # Of a namespace that another one owns, too: the page is about none.
            for headers in ({}, {"taskyard-namespace": "theirs"}):
                assert (await http.get("/ui/", headers=headers)).content == PAGE


async def test_it_comes_by_tls(tmp_path: Path) -> None:
    authority = Authority()
    cert, key = authority.leaf().write(tmp_path, "server")
    gateway = Gateway("127.0.0.1:0", certificates=CertificateFiles("gatewayTls", cert, key, None))
    gateway.make_server_socket()
    await gateway.start()
    try:
        async with httpx.AsyncClient(verify=trusting(authority, tmp_path), timeout=SECS, trust_env=False) as http:
            assert (await http.get(f"https://{gateway.address}/ui/")).content == PAGE
    finally:
        await gateway.stop()


async def test_the_settings_switch_it_off(server: tuple[Tasks, str]) -> None:
    gateway = Gateway("127.0.0.1:0", server[1], has_console=False)
    await gateway.start()
    try:
        async with client_of(gateway) as http:
            for path in ("/ui/", "/ui"):
                assert (await http.get(path)).status_code == 404
            assert "console" not in (await http.get("/", headers={"accept": "text/html"})).json()
    finally:
        await gateway.stop()
    for enabled in (True, False):
        settings = load(None, {"console": {"enabled": enabled}}).settings
        assert not authentication_is_on(settings)
        assert gateway_of(settings, None, None).has_console == enabled


async def test_a_page_that_changes_is_served_after_a_restart_of_envoy(
    server: tuple[Tasks, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = shutil.copytree(FILES, tmp_path / "gateway")
    monkeypatch.setattr(gateway_module, "gateway_files", lambda: files)
    # Envoy takes `%` for the beginning of a variable in headers, and no page has more than it allows.
    (files / "console.html").write_text("<script>100 %START_TIME%</script>" + "é" * 2_000_000)
    async with gateway_to(server[1]) as gateway, client_of(gateway) as http:
        answer = await http.get("/ui/", headers=IDENTITY)
        assert answer.text.startswith("<script>100 %START_TIME%</script>")
        assert policy_of(answer)["script-src"] == [hash_of("100 %START_TIME%")]
    (files / "console.html").unlink()
    with pytest.raises(GatewayError, match="no such file"):
        await Gateway("127.0.0.1:0", server[1]).start()
