"""What strangers may cause by signing in is bounded, by address and over all (docs/operate/security.md, Signing in)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from taskyard.v1 import sign_in_pb2 as pb
from taskyard_server.core.errors import TooManyRequests, Unauthenticated, Unavailable
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.services import sign_in
from taskyard_server.services.sign_in import RATE, SignInService
from taskyard_server.settings.config import Settings
from taskyard_server.settings.config_sources import Loaded
from taskyard_server.settings.live_config import LiveConfig
from tests.access.token_endpoints import CLIENT, Answer, TokenEndpoint


class Context:
    """A call from an address."""

    def __init__(self, address: str = "192.0.2.1") -> None:
        self._address = address

    def peer(self) -> str:
        return f"ipv4:{self._address}:50000"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()


class Clock:
    """Seconds that pass when a test says so."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def admission(endpoint: TokenEndpoint) -> CallAdmission:
    return CallAdmission(settings_of(endpoint).auth)


@pytest.fixture
async def service(endpoint: TokenEndpoint, admission: CallAdmission, clock: Clock) -> SignInService:
    await admission.open()
    return SignInService(LiveConfig(None, {}, Loaded(settings_of(endpoint), {})), admission, clock)


def settings_of(endpoint: TokenEndpoint) -> Settings:
    issuer = {"issuer": endpoint.issuer.name, "audience": CLIENT, "jwks": f"{endpoint.url}/keys"}
    return Settings.model_validate({"auth": {"jwt": [{**issuer, "signIn": endpoint.settings()}]}})


def exchange(service: SignInService, endpoint: TokenEndpoint, address: str = "192.0.2.1", token: str = "guess") -> Any:
    request = pb.ExchangeCodeRequest(issuer=endpoint.issuer.name, refresh_token=token)
    context: Any = Context(address)
    return service.ExchangeCode(request, context)


async def test_an_address_exchanges_so_many_at_once_and_a_second(
    service: SignInService, endpoint: TokenEndpoint, clock: Clock
) -> None:
    endpoint.answer = lambda: (500, b"")
    for _ in range(int(RATE.burst)):
        with pytest.raises(Unavailable):
            await exchange(service, endpoint)
    with pytest.raises(TooManyRequests) as refused:
        await exchange(service, endpoint)
    assert refused.value.retry_after_ms == 1_000 / RATE.per_sec
    # Others are not held up by that.
    with pytest.raises(Unavailable):
        await exchange(service, endpoint, "192.0.2.2")
    clock.now += 1 / RATE.per_sec
    with pytest.raises(Unavailable):
        await exchange(service, endpoint)
    with pytest.raises(TooManyRequests):
        await exchange(service, endpoint)
    assert len(endpoint.asked) == RATE.burst + 2


@pytest.mark.parametrize(("bound", "addresses"), [("MAX_UNDER_WAY", range(3)), ("MAX_OF_ADDRESS", [9, 9, 9])])
async def test_a_slow_issuer_holds_so_many_exchanges_and_no_more(
    service: SignInService, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch, bound: str, addresses: list[int]
) -> None:
    monkeypatch.setattr(sign_in, bound, 3)
    enough, asked = threading.Event(), threading.Semaphore(0)

    def slow() -> Answer:
        asked.release()
        enough.wait(30)
        return 500, b""

    endpoint.answer = slow
    waiting = [asyncio.create_task(exchange(service, endpoint, f"192.0.2.{n}")) for n in addresses]
    for _ in waiting:
        await asyncio.to_thread(asked.acquire, timeout=30)
    with pytest.raises(TooManyRequests):
        await exchange(service, endpoint, "192.0.2.9")
    enough.set()
    assert {type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)} == {Unavailable}
    with pytest.raises(Unavailable):
        await exchange(service, endpoint, "192.0.2.9")


async def test_a_wrong_code_counts_as_a_wrong_credential(
    service: SignInService, endpoint: TokenEndpoint, admission: CallAdmission
) -> None:
    with pytest.raises(Unauthenticated):
        await exchange(service, endpoint)
    assert admission.failures.total == 1


async def test_addresses_that_came_long_ago_are_forgotten(
    service: SignInService, endpoint: TokenEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in, "MAX_ADDRESSES", 2)
    endpoint.answer = lambda: (500, b"")
    for number in range(5):
        with pytest.raises(Unavailable):
            await exchange(service, endpoint, f"192.0.2.{number}")
    assert len(service._buckets) == 2
