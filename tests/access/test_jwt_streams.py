"""Calls under way by a JWT end with it, with its key and with its grants (docs/operate/security.md, Streams)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from taskyard_server.access.authentication import Authentication, Credentials
from taskyard_server.access.jwt import Jwts
from taskyard_server.interceptors.open_calls import END_AFTER_SECS, PORTION, OpenCalls
from taskyard_server.settings.security import ClaimRule, GrantSettings
from tests.access.issuers import NOW, Issuer, key_set


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def jwts(issuer: Issuer, tmp_path: Path) -> Jwts:
    return await issuer.jwts(tmp_path)


@pytest.fixture
async def calls(jwts: Jwts) -> OpenCalls:
    return OpenCalls(Authentication([jwts]))


class Call:
    """A call that goes on until it is ended."""

    def __init__(self, calls: OpenCalls, jwts: Jwts, token: str) -> None:
        self._calls = calls
        self._jwts = jwts
        self._token = token
        self.task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        principal = self._jwts.find(self._token)
        assert principal is not None
        task = self._calls.enter(Credentials(f"Bearer {self._token}"), principal)
        try:
            await asyncio.Event().wait()
        finally:
            self._calls.leave(task)

    async def is_ended(self) -> bool:
        await asyncio.wait([self.task], timeout=2 * END_AFTER_SECS)
        return self.task.done()


async def begun(calls: OpenCalls, jwts: Jwts, *tokens: str) -> list[Call]:
    made = [Call(calls, jwts, token) for token in tokens]
    await asyncio.sleep(0)
    return made


async def test_a_call_ends_once_its_token_has_expired(issuer: Issuer, jwts: Jwts, calls: OpenCalls) -> None:
    soon, late = await begun(calls, jwts, issuer.token(exp=NOW + 10), issuer.token(exp=NOW + 10_000))
    assert await calls.check() == 0
    issuer.clock.now += 10
    assert await calls.check() == 1
    assert await soon.is_ended()
    issuer.clock.now += 1_000
    assert await calls.check() == 0
    assert not await late.is_ended()
    issuer.clock.now += 10_000
    assert calls.end_stale() == 1
    assert await late.is_ended()


async def test_a_call_ends_once_its_key_is_gone(issuer: Issuer, jwts: Jwts, calls: OpenCalls, tmp_path: Path) -> None:
    (call,) = await begun(calls, jwts, issuer.token())
    (tmp_path / "jwks.json").write_bytes(key_set(issuer.jwk(), Issuer(number=1).jwk(kid="k2")))
    for source in jwts._sources.values():
        await source.refresh(0)
    assert await calls.check() == 0
    (tmp_path / "jwks.json").write_bytes(key_set(Issuer(number=1).jwk(kid="k2")))
    for source in jwts._sources.values():
        await source.refresh(0)
    assert await calls.check() == 1
    assert await call.is_ended()


async def test_a_call_ends_once_its_token_has_other_grants(
    issuer: Issuer, jwts: Jwts, calls: OpenCalls, tmp_path: Path
) -> None:
    ann, bob = await begun(calls, jwts, issuer.token(sub="ann"), issuer.token(sub="bob"))
    viewer = GrantSettings(role="viewer")
    rules = [ClaimRule(claims={"sub": "ann"}, grants=[viewer]), ClaimRule(claims={"sub": "b*"}, grants=[viewer] * 2)]
    jwts.reconfigure([issuer.settings(tmp_path, rules)])
    assert calls.end_stale() == 0
    jwts.reconfigure([issuer.settings(tmp_path, rules[1:])])
    assert calls.end_stale() == 1
    assert await ann.is_ended()
    assert not await bob.is_ended()
    jwts.reconfigure([])
    assert calls.end_stale() == 1
    assert await bob.is_ended()


async def test_many_calls_are_looked_at_in_portions_between_which_others_run(
    issuer: Issuer, jwts: Jwts, calls: OpenCalls
) -> None:
    await begun(calls, jwts, *(issuer.token(sub=str(number)) for number in range(PORTION * 3)))
    issuer.clock.now += 1_000
    check = asyncio.create_task(calls.check())
    turns = 0
    while not check.done():
        turns += 1
        await asyncio.sleep(0)
    assert check.result() == PORTION * 3
    assert turns >= 3


async def test_a_call_that_ends_by_itself_meanwhile_leaves_nothing_behind(
    issuer: Issuer, jwts: Jwts, calls: OpenCalls
) -> None:
    made = await begun(calls, jwts, *(issuer.token(sub=str(number)) for number in range(PORTION * 2)))
    issuer.clock.now += 1_000
    check = asyncio.create_task(calls.check())
    made[-1].task.cancel()
    assert await check == PORTION * 2 - 1
    await asyncio.gather(*(call.task for call in made), return_exceptions=True)
    assert not calls._open
    assert not calls._ending
    assert not calls._ended
