"""Tokens of replicas: what one of them does holds at the others (docs/operate/security.md, Gateways and replicas)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import pytest

from taskyard_server.access.grants import Grant, Role
from taskyard_server.access.token_directory import SHOWN_SECS, TokenDirectory
from taskyard_server.access.token_news import TokenNews
from taskyard_server.access.tokens import Token, new_secret
from taskyard_server.core.errors import Unauthenticated
from taskyard_server.engine.engine import Engine
from taskyard_server.store.port import FORMAT_LEVEL, Table
from taskyard_server.store.shared_port import Replica
from tests.access.issuers import Clock
from tests.engines import running_engine, settled
from tests.replicas.shared_dict_store import CUT_OFF, PROMPT, SharedDictStore
from tests.replicas.shared_rows import SharedRows
from tests.waiting import until

ADMIN = (Grant(role=Role.ADMIN),)


@dataclass(eq=False)
class Member:
    """The tokens of one replica. `ends` counts how often calls had to end."""

    store: SharedDictStore
    engine: Engine
    tokens: TokenDirectory
    news: TokenNews
    ends: int = 0

    async def made(self, ttl_secs: float | None = None) -> tuple[Token, str]:
        return await self.tokens.create("ann", ADMIN, ttl_secs, "local")

    def lets_in(self, secret: str) -> bool:
        try:
            return self.tokens.find(secret) is not None
        except Unauthenticated:
            return False

    async def uses_written(self) -> None:
        self.tokens.write_used()
        await settled(self.engine)

    def ids(self, ended: bool = True) -> list[str]:
        return [token.id for token in self.tokens.after(0, ended=ended)]

    def note_end(self) -> None:
        self.ends += 1


class Yard:
    """Replicas on one store."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.clock = Clock()
        self.rows = SharedRows(lambda: self.clock.now)
        self._stack = stack

    async def member(self, name: str) -> Member:
        store = SharedDictStore(self.rows)
        engine = await self._stack.enter_async_context(running_engine(clock=self.clock, store=store))
        await store.join(Replica(name, name, None, FORMAT_LEVEL, "1"))
        assert engine.persistence is not None
        tokens = TokenDirectory(engine.now)
        await tokens.open(engine.persistence)
        news = TokenNews(tokens, store)
        member = Member(store, engine, tokens, news)
        tokens.on_ended = member.note_end
        return member


@pytest.fixture
async def yard() -> AsyncIterator[Yard]:
    async with AsyncExitStack() as stack:
        yield Yard(stack)


@pytest.fixture
async def one(yard: Yard) -> Member:
    return await yard.member("one")


@pytest.fixture
async def other(yard: Yard) -> Member:
    return await yard.member("other")


async def test_a_token_lets_its_bearer_in_at_every_replica(one: Member, other: Member) -> None:
    token, secret = await one.made()
    await other.news.refresh()
    assert other.lets_in(secret)
    assert other.tokens.get(token.id).created_by == "local"
    assert other.ends == 0


async def test_a_token_that_was_just_made_elsewhere_is_looked_for(one: Member, other: Member) -> None:
    _, secret = await one.made()
    assert not other.lets_in(secret)
    assert await other.news.look_for(secret)
    assert other.lets_in(secret)


async def test_what_nobody_made_is_looked_for_in_vain(other: Member) -> None:
    assert not await other.news.look_for(new_secret())


async def test_wrong_tokens_share_few_looks(one: Member, other: Member) -> None:
    looks = []

    def count(name: str) -> object:
        looks.append(name)
        return PROMPT

    other.store.fates = count  # type: ignore[assignment]
    _, secret = await one.made()
    found = await asyncio.gather(*(other.news.look_for(each) for each in [new_secret() for _ in range(500)] + [secret]))
    assert found == [False] * 500 + [True]
    assert looks == ["rows"]


async def test_what_cannot_be_a_token_is_not_looked_for(other: Member) -> None:
    other.store.fates = lambda _: CUT_OFF
    for wrong in ("tyd_", "x", new_secret()[:-1], new_secret() + "0", "tyd_" + "0" * 38):
        assert not await other.news.look_for(wrong)


async def test_while_the_store_does_not_answer_unknown_tokens_are_refused(one: Member, other: Member) -> None:
    _, secret = await one.made()
    other.store.fates = lambda _: CUT_OFF
    assert not await other.news.look_for(secret)


async def test_a_token_that_was_revoked_elsewhere_lets_nobody_in_and_ends_calls(one: Member, other: Member) -> None:
    token, secret = await one.made()
    await other.news.refresh()
    one.tokens.revoke(token.id)
    await one.tokens.settled()
    await other.news.refresh()
    assert not other.lets_in(secret)
    assert other.tokens.get(token.id).revoked_at == token.revoked_at
    assert other.ends == 1


async def test_news_come_by_themselves(one: Member, other: Member) -> None:
    running = asyncio.create_task(other.news.run())
    await asyncio.sleep(0)
    token, secret = await one.made()
    await until(lambda: other.lets_in(secret))
    one.tokens.revoke(token.id)
    await one.tokens.settled()
    await until(lambda: not other.lets_in(secret))
    assert other.ends == 1
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_the_note_of_a_use_undoes_no_revocation(yard: Yard, one: Member, other: Member) -> None:
    """The other replica has not heard of it when it writes."""
    token, secret = await one.made()
    await other.news.refresh()
    assert other.lets_in(secret)
    one.tokens.revoke(token.id)
    await one.tokens.settled()
    await other.uses_written()
    third = await yard.member("third")
    assert not third.lets_in(secret)
    assert third.tokens.get(token.id).last_used_at == yard.clock.now


async def test_the_last_use_at_any_replica_counts(yard: Yard, one: Member, other: Member) -> None:
    token, secret = await one.made()
    await other.news.refresh()
    one.lets_in(secret)
    yard.clock.now += 10
    assert other.lets_in(secret)
    await other.uses_written()
    await one.news.refresh()
    assert one.tokens.get(token.id).last_used_at == yard.clock.now
    await one.uses_written()
    third = await yard.member("third")
    assert third.tokens.get(token.id).last_used_at == yard.clock.now


async def test_a_token_that_is_revoked_here_stays_so_before_it_is_written(one: Member, other: Member) -> None:
    token, secret = await one.made()
    await other.news.refresh()
    other.tokens.revoke(token.id)
    await other.news.refresh()
    assert not other.lets_in(secret)


async def test_a_look_for_new_tokens_undoes_no_revocation_of_ones_own(one: Member) -> None:
    token, secret = await one.made()
    one.tokens.revoke(token.id)
    assert not await one.news.look_for(secret)
    assert not one.lets_in(secret)
    await one.tokens.settled()


async def test_numbers_of_replicas_differ_and_grow_with_time(yard: Yard, one: Member, other: Member) -> None:
    made = []
    for _ in range(20):
        for member in (one, other):
            made.append((await member.made())[0])
        yard.clock.now += 0.01
    assert len({token.number for token in made}) == 40
    await one.news.refresh()
    await other.news.refresh()
    assert one.ids() == other.ids()
    at = {token.id: token.created_at for token in made}
    assert [at[each] for each in one.ids()] == sorted(at.values())


async def test_one_that_ended_long_ago_is_forgotten_by_all_and_leaves_no_row(
    yard: Yard, one: Member, other: Member
) -> None:
    token, secret = await one.made(ttl_secs=60)
    assert one.lets_in(secret)
    await one.uses_written()
    await other.news.refresh()
    yard.clock.now += 61 + SHOWN_SECS
    one.tokens.forget(yard.clock.now)
    await one.uses_written()
    tables = yard.rows.kept.tables
    assert (tables[Table.TOKENS], tables[Table.TOKEN_USES]) == ({}, {})
    await other.news.refresh()
    assert other.ids() == []
    assert token.id not in other.ids()
