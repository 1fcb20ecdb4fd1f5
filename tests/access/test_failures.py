"""Wrong credentials are counted by address and their answers wait; right ones never do.

See docs/operate/security.md, Limits.
"""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import structlog

from taskyard_server.access import failures
from taskyard_server.access.failures import LONGEST_DELAY_SECS, MEMORY_SECS, Failures
from tests.access.issuers import Clock
from tests.access.yards import Yard, yard


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counted(clock: Clock) -> Failures:
    return Failures(clock)


def test_each_wrong_credential_of_an_address_waits_longer_up_to_a_limit(counted):
    delays = [counted.note("a") for _ in range(30)]
    assert delays == sorted(delays)
    assert 0 < delays[0] < delays[1] < delays[-1] == LONGEST_DELAY_SECS


def test_addresses_are_counted_apart(counted):
    for _ in range(10):
        counted.note("a")
    assert counted.note("b") < counted.note("a")


def test_an_address_is_forgotten_after_a_quiet_minute(counted, clock):
    first = counted.note("a")
    for _ in range(9):
        counted.note("a")
    clock.now += MEMORY_SECS + 1
    assert counted.note("a") == first


def test_an_address_that_goes_on_is_not_forgotten(counted, clock):
    for _ in range(10):
        clock.now += MEMORY_SECS / 2
        latest = counted.note("a")
    assert latest == LONGEST_DELAY_SECS


def test_all_are_counted(counted):
    for address in "aab":
        counted.note(address)
    assert counted.total == 3


def test_an_address_has_one_line_a_minute_with_the_count(counted, clock):
    with structlog.testing.capture_logs() as logged:
        for _ in range(50):
            counted.note("a")
        clock.now += MEMORY_SECS
        counted.note("a")
    assert [(line["address"], line["count"]) for line in logged] == [("a", 1), ("a", 50)]


def test_no_more_addresses_are_known_than_fit(counted, monkeypatch):
    monkeypatch.setattr(failures, "MAX_ADDRESSES", 3)
    for address in "abcd":
        counted.note(address)
    # The oldest one was forgotten, and begins anew.
    assert counted.note("a") < counted.note("d")


async def test_answers_beyond_those_that_may_wait_leave_at_once(counted, monkeypatch):
    monkeypatch.setattr(failures, "MAX_WAITING", 0)
    for _ in range(20):
        await asyncio.wait_for(counted.delay("a"), LONGEST_DELAY_SECS / 2)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("yard")) as made:
        yield made


def test_a_right_token_of_the_same_address_does_not_wait(running):
    with running.rest("viewer") as http:
        guess = {"authorization": "Bearer tyd_" + "0" * 38}
        for _ in range(5):
            assert http.get("/tasks", headers=guess).status_code == 401
        with ThreadPoolExecutor(1) as beside:
            # It waits for 1.6 s.
            guessing = beside.submit(http.get, "/tasks", headers=guess)
            assert http.get("/tasks").status_code == 200
            assert not guessing.done()
            assert guessing.result().status_code == 401


def test_a_call_without_a_credential_is_no_guess(running):
    with running.rest("nobody") as http, httpx.Client(trust_env=False) as scraper:
        metrics = f"http://127.0.0.1:{running.plane.ports['metrics']}/metrics"
        before = refused_credentials(scraper.get(metrics).text)
        assert http.get("/tasks").status_code == 401
        assert refused_credentials(scraper.get(metrics).text) == before


def refused_credentials(metrics: str) -> float:
    """The count in the metrics."""
    return float(re.findall(r"(?m)^taskyard_credentials_refused_total (\S+)$", metrics)[0])
