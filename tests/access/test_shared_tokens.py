"""Tokens where several servers share a store: what one changes the others learn, and none undoes it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.access.grants import Grant, Role
from taskyard_server.access.token_directory import RANDOM_BITS, SHOWN_SECS, TokenDirectory
from taskyard_server.access.tokens import Token, encode_token
from taskyard_server.core.errors import Unauthenticated
from taskyard_server.store.port import Committed, Group, Table
from tests.access.issuers import Clock
from tests.engines import running_engine, settled
from tests.store.dict_store import DictStore

ADMIN = (Grant(role=Role.ADMIN),)


class OneOfTwo(DictStore):
    """A store whose rows another one has too. Whose number a group bears does not matter for tokens."""

    def __init__(self, shared: DictStore) -> None:
        super().__init__()
        self.tables, self.written = shared.tables, 0

    async def commit(self, group: Group) -> Committed:
        self.written += 1
        return await super().commit(group)


class Servers:
    """Two servers on one store."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.rows = DictStore()
        self.stores: list[OneOfTwo] = []
        self.engines = []
        self.stack = AsyncExitStack()

    async def server(self) -> TokenDirectory:
        self.stores.append(OneOfTwo(self.rows))
        engine = await self.stack.enter_async_context(running_engine(clock=self.clock, store=self.stores[-1]))
        self.engines.append(engine)
        directory = TokenDirectory(engine.now)
        assert engine.persistence is not None
        await directory.open(engine.persistence)
        return directory

    async def settled(self) -> None:
        for engine in self.engines:
            await settled(engine)


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    servers = Servers()
    async with servers.stack:
        yield servers


async def made(directory: TokenDirectory, ttl_secs: float | None = None) -> tuple[Token, str]:
    return await directory.create("ann", ADMIN, ttl_secs, "local")


def is_let_in(directory: TokenDirectory, secret: str) -> bool:
    try:
        return directory.find(secret) is not None
    except Unauthenticated:
        return False


async def test_a_token_of_another_server_is_known_once_the_store_was_read(servers: Servers) -> None:
    one, other = await servers.server(), await servers.server()
    token, secret = await made(one)
    assert not is_let_in(other, secret)
    await other.refresh()
    assert is_let_in(other, secret)
    assert other.get(token.id).created_by == "local"


async def test_one_that_another_server_has_revoked_is_let_in_no_longer_and_its_calls_end(servers: Servers) -> None:
    one, other = await servers.server(), await servers.server()
    token, secret = await made(one)
    await other.refresh()
    ended = []
    other.on_ended = lambda: ended.append(is_let_in(other, secret))
    await other.refresh()
    assert ended == []
    one.revoke(token.id)
    await one.settled()
    await other.refresh()
    assert ended == [False]
    await other.refresh()
    assert ended == [False]


async def test_who_notes_a_use_undoes_no_revocation(servers: Servers) -> None:
    one, other = await servers.server(), await servers.server()
    token, secret = await made(one)
    await other.refresh()
    one.revoke(token.id)
    await one.settled()
    assert is_let_in(other, secret)
    other.write_used()
    await servers.settled()
    assert not is_let_in(await servers.server(), secret)
    await one.refresh()
    assert not is_let_in(one, secret)
    assert one.get(token.id).last_used_at == servers.clock.now


async def test_the_last_use_at_any_server_counts(servers: Servers) -> None:
    one, other = await servers.server(), await servers.server()
    token, secret = await made(one)
    await other.refresh()
    one.find(secret)
    servers.clock.now += 5
    other.find(secret)
    other.write_used()
    await servers.settled()
    await one.refresh()
    assert one.get(token.id).last_used_at == servers.clock.now


async def test_only_when_it_was_used_is_written_of_a_use(servers: Servers) -> None:
    one = await servers.server()
    token, secret = await made(one)
    before = dict(servers.rows.tables[Table.TOKENS])
    one.find(secret)
    one.write_used()
    await servers.settled()
    assert servers.rows.tables[Table.TOKENS] == before
    assert list(servers.rows.tables[Table.TOKEN_USES]) == [token.number]


async def test_what_another_server_has_forgotten_is_forgotten(servers: Servers) -> None:
    one, other = await servers.server(), await servers.server()
    token, secret = await made(one, ttl_secs=1)
    await other.refresh()
    one.find(secret)
    one.write_used()
    servers.clock.now += SHOWN_SECS + 2
    one.forget(servers.clock.now)
    one.write_used()
    await servers.settled()
    assert not servers.rows.tables[Table.TOKENS]
    assert not servers.rows.tables[Table.TOKEN_USES]
    assert [each.id for each in other.after(0, ended=True)] == [token.id]
    await other.refresh()
    assert list(other.after(0, ended=True)) == []


async def test_numbers_grow_with_time_and_those_of_other_servers_differ(servers: Servers) -> None:
    one, other = await servers.server(), await servers.server()
    numbers = [(await made(directory))[0].number for directory in (one, other) * 2]
    assert len(set(numbers)) == len(numbers)
    assert {number >> RANDOM_BITS for number in numbers[:1]} == {int(servers.clock.now * 1000)}
    servers.clock.now += 1
    later, _ = await made(other)
    assert later.number > max(numbers)
    await one.refresh()
    found = [token.number for token in one.after(0, ended=True)]
    assert found == sorted([*numbers, later.number])


async def test_a_small_number_of_an_earlier_release_is_as_good(servers: Servers) -> None:
    token, secret = await made(await servers.server())
    token.last_used_at = servers.clock.now - 9
    servers.rows.tables[Table.TOKENS] = {1: encode_token(token)}
    after = await servers.server()
    assert after.get(token.id).last_used_at == servers.clock.now - 9
    assert is_let_in(after, secret)
    newer, _ = await made(after)
    assert [each.number for each in after.after(0, ended=True)] == [1, newer.number]
