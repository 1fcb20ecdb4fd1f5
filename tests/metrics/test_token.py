"""Who may scrape: with a token set, nobody learns anything without it; and TLS where the server has it."""

import asyncio
import http.client
import socket
import ssl

import pytest

from taskyard_server.metrics import server as metrics_server
from taskyard_server.net.certificates import CertificateFiles
from tests.cases import every_case
from tests.certificates import Authority
from tests.waiting import LIMIT_SECS, until

TOKEN = "scraping-token-0123456789"
OTHER = "scraping-token-9876543210"


class Scraper:
    """Asks the metrics address, with a header `authorization` or without one."""

    def __init__(self, port, context=None):
        self.port = port
        self.context = context

    def ask(self, authorization=None, method="GET", path="/metrics"):
        if self.context is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=10, context=self.context)
        headers = {} if authorization is None else {"authorization": authorization}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()
        return found

    async def __call__(self, *args, **fields):
        return await asyncio.to_thread(self.ask, *args, **fields)


@pytest.fixture
async def guarded(make_harness):
    return await make_harness(serving={"token": TOKEN})


@pytest.fixture
def scrape(guarded):
    return Scraper(guarded.port)


async def test_a_scrape_with_the_token_is_answered(scrape):
    status, _, body = await scrape(f"Bearer {TOKEN}")
    assert status == 200
    assert b"taskyard_namespaces" in body


@every_case("method", ["GET", "HEAD", "POST", "OPTIONS", "TRACE", "DELETE"])
@every_case("path", ["/metrics", "/", "/favicon.ico", "/metrics/../metrics", "//", "/metrics?name[]=x"])
async def test_without_the_token_no_method_and_no_path_says_anything(scrape, method, path):
    status, headers, body = await scrape(method=method, path=path)
    assert (status, body) == (401, b"")
    assert headers["WWW-Authenticate"] == "Bearer"
    assert "taskyard" not in str(headers)


@every_case(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}, Bearer {TOKEN}",
        f"Bearer {OTHER}",
        "Bearer \xff\xfe",
        "Bearer " + "x" * 10_000,
    ],
)
async def test_anything_but_the_token_is_refused(scrape, authorization):
    assert (await scrape(authorization))[0] == 401


@pytest.mark.parametrize("word", ["bearer", "BEARER", "Bearer"])
async def test_the_word_before_the_token_has_any_case(scrape, word):
    assert (await scrape(f"{word} {TOKEN}"))[0] == 200


async def test_head_with_the_token_has_no_body(scrape):
    status, _, body = await scrape(f"Bearer {TOKEN}", method="HEAD")
    assert (status, body) == (405, b"")


async def test_another_token_holds_from_the_next_scrape_on(guarded, scrape):
    guarded.metrics.take_token(OTHER)
    assert (await scrape(f"Bearer {TOKEN}"))[0] == 401
    assert (await scrape(f"Bearer {OTHER}"))[0] == 200


async def test_without_a_token_set_everybody_may_scrape(make_harness):
    harness = await make_harness()
    assert (await Scraper(harness.port)())[0] == 200
    assert (await Scraper(harness.port)("Bearer whatever"))[0] == 200


async def test_nothing_is_printed_of_bad_callers(guarded, scrape, capfd):
    for rubbish in (b"\x16\x03\x01 rubbish\r\n\r\n", b"GET /secret-of-the-caller HTTP/1.1", b""):
        with socket.create_connection(("127.0.0.1", guarded.port)) as connection:
            connection.sendall(rubbish)
    assert (await scrape(f"Bearer {TOKEN}"))[0] == 200
    printed = capfd.readouterr()
    assert "secret-of-the-caller" not in printed.out + printed.err
    assert "Traceback" not in printed.err


async def test_callers_that_say_nothing_do_not_keep_others_out_for_ever(make_harness, monkeypatch):
    monkeypatch.setattr(metrics_server, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.2)
    harness = await make_harness()
    silent = [socket.create_connection(("127.0.0.1", harness.port)) for _ in range(2)]
    scrape = Scraper(harness.port)
    assert (await until(scrape, despite=(ConnectionError, http.client.HTTPException)))[0] == 200
    for connection in silent:
        connection.close()


async def test_callers_that_say_a_little_every_so_often_do_not_keep_others_out_for_ever(make_harness, monkeypatch):
    monkeypatch.setattr(metrics_server, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(metrics_server, "LONGEST_SECS", 0.5)
    harness = await make_harness()
    slow = [socket.create_connection(("127.0.0.1", harness.port)) for _ in range(2)]

    def are_cut_off() -> bool:
        cut_off = 0
        for connection in slow:
            try:
                connection.sendall(b"x")
            except ConnectionError:
                cut_off += 1
        return cut_off == len(slow)

    await until(are_cut_off)
    # A scrape on a slow machine is not what is cut off here.
    monkeypatch.setattr(metrics_server, "LONGEST_SECS", LIMIT_SECS)
    assert (await Scraper(harness.port)())[0] == 200
    for connection in slow:
        connection.close()


# TLS


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def files(authority, tmp_path):
    cert, key = authority.leaf().write(tmp_path, "server")
    files = CertificateFiles("tls", cert, key, None)
    files.load()
    return files


@pytest.fixture
async def encrypted(make_harness, files, authority):
    harness = await make_harness(serving={"token": TOKEN, "certificates": files})
    return Scraper(harness.port, ssl.create_default_context(cadata=authority.cert.decode()))


async def test_with_a_certificate_scrapes_are_encrypted(encrypted):
    assert (await encrypted(f"Bearer {TOKEN}"))[0] == 200
    assert (await encrypted())[0] == 401


async def test_with_a_certificate_nothing_is_answered_in_the_clear(encrypted):
    plain = Scraper(encrypted.port)
    with pytest.raises((ConnectionError, http.client.HTTPException)):
        await plain(f"Bearer {TOKEN}")


async def test_a_caller_that_does_not_shake_hands_keeps_nobody_waiting(encrypted):
    with socket.create_connection(("127.0.0.1", encrypted.port)):
        assert (await encrypted(f"Bearer {TOKEN}"))[0] == 200


async def test_another_certificate_holds_for_new_connections(encrypted, files, tmp_path):
    other = Authority("other")
    other.leaf().write(tmp_path, "server")
    assert files.look(0.0)
    with pytest.raises(ssl.SSLCertVerificationError):
        await encrypted(f"Bearer {TOKEN}")
    encrypted.context = ssl.create_default_context(cadata=other.cert.decode())
    assert (await encrypted(f"Bearer {TOKEN}"))[0] == 200
