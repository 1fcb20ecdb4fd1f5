"""The tokens of a store in memory: who is let in, from when on, and until when.

See docs/operate/security.md, What is kept.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from taskyard_server.access.authentication import UNKNOWN
from taskyard_server.access.grants import Grant, Role
from taskyard_server.access.token_directory import SHOWN_SECS, TokenDirectory
from taskyard_server.access.tokens import Token, digest_of, new_secret
from taskyard_server.core.errors import Conflict, NotFound, Unauthenticated, Unavailable
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.persistence import StoreOptions
from taskyard_server.store.port import CommitDelayed, Group, Table
from tests.access.issuers import Clock
from tests.engines import running_engine, settled
from tests.live import live
from tests.store.dict_store import DictStore
from tests.store.gated_store import GatedStore
from tests.waiting import until

ADMIN = (Grant(role=Role.ADMIN),)


class Yards:
    """Engines on a store that waits where a test wants it, and their directories."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.clock = Clock()
        self.store = GatedStore()
        self._stack = stack
        self.engine: Engine

    async def directory(
        self, store: DictStore | None = None, most: int = 100_000, store_options: StoreOptions | None = None
    ) -> TokenDirectory:
        running = running_engine(clock=self.clock, store=store or self.store, store_options=store_options)
        self.engine = await self._stack.enter_async_context(running)
        directory = TokenDirectory(self.engine.now, most)
        assert self.engine.persistence is not None
        await directory.open(self.engine.persistence)
        return directory

    async def restarted(self) -> TokenDirectory:
        """That of another server, after this one was killed."""
        return await self.directory(self.store.copy())


@pytest.fixture
async def yards() -> AsyncIterator[Yards]:
    async with AsyncExitStack() as stack:
        yield Yards(stack)


async def made(directory: TokenDirectory, ttl_secs: float | None = None) -> tuple[Token, str]:
    return await directory.create("ann", ADMIN, ttl_secs, "local")


def is_let_in(directory: TokenDirectory, secret: str) -> bool:
    try:
        return directory.find(secret) is not None
    except Unauthenticated as refusal:
        return refusal.message != UNKNOWN


async def test_the_bearer_is_known_by_the_name_the_id_and_the_grants_of_the_token(yards: Yards) -> None:
    directory = await yards.directory()
    token, secret = await made(directory, ttl_secs=60)
    found = directory.find(secret)
    assert found is not None
    assert (found.name, found.credential, found.grants) == ("ann", token.id, ADMIN)
    assert found.expires_at == yards.clock.now + 60


async def turns() -> None:
    """Let the event loop do all that waits for nothing."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_nobody_is_let_in_by_a_token_before_its_commit(yards: Yards) -> None:
    directory = await yards.directory()
    yards.store.gate.clear()
    making = asyncio.create_task(made(directory))
    await until(lambda: yards.store.tried)
    assert not making.done()
    assert list(directory.after(0, ended=True)) == []
    yards.store.gate.set()
    _, secret = await making
    assert is_let_in(directory, secret)


async def test_a_token_that_was_answered_is_there_after_a_kill(yards: Yards) -> None:
    token, secret = await made(await yards.directory())
    after = await yards.restarted()
    assert is_let_in(after, secret)
    assert after.get(token.id).created_by == "local"


async def test_a_commit_that_is_delayed_is_repeated_with_its_token(yards: Yards) -> None:
    directory = await yards.directory()
    yards.store.faults = [CommitDelayed("full")]
    _, secret = await made(directory)
    assert is_let_in(directory, secret)
    assert is_let_in(await yards.restarted(), secret)


async def test_a_revoked_token_is_gone_before_its_commit_and_stays_revoked(yards: Yards) -> None:
    directory = await yards.directory()
    token, secret = await made(directory)
    yards.store.gate.clear()
    directory.revoke(token.id)
    waiting = asyncio.create_task(directory.settled())
    assert not is_let_in(directory, secret)
    await turns()
    assert not waiting.done()
    yards.store.gate.set()
    await waiting
    assert not is_let_in(await yards.restarted(), secret)


async def test_a_second_revocation_changes_nothing_and_waits_for_the_first(yards: Yards) -> None:
    directory = await yards.directory()
    token, _ = await made(directory)
    yards.store.gate.clear()
    directory.revoke(token.id)
    first = asyncio.create_task(directory.settled())
    await turns()
    at, yards.clock.now = yards.clock.now, yards.clock.now + 5
    assert directory.revoke(token.id).revoked_at == at
    second = asyncio.create_task(directory.settled())
    await turns()
    assert not second.done()
    yards.store.gate.set()
    await asyncio.gather(first, second)


async def test_a_revocation_that_a_stuck_store_did_not_answer_is_kept_once_it_answers(yards: Yards) -> None:
    directory = await yards.directory(store_options=StoreOptions(patience_secs=0.02))
    first, first_secret = await made(directory)
    second, second_secret = await made(directory)
    yards.store.gate.clear()
    for token in (first, second):
        directory.revoke(token.id)
        with pytest.raises(Unavailable):
            await directory.settled()
    with pytest.raises(Unavailable):
        await made(directory)
    yards.store.gate.set()
    await settled(yards.engine)
    directory.revoke(second.id)
    await directory.settled()
    after = await yards.restarted()
    assert not is_let_in(after, first_secret)
    assert not is_let_in(after, second_secret)


async def test_a_token_expires_at_its_time_and_not_before(yards: Yards) -> None:
    directory = await yards.directory()
    _, secret = await made(directory, ttl_secs=60)
    yards.clock.now += 59.9
    assert is_let_in(directory, secret)
    yards.clock.now += 0.1
    assert not is_let_in(directory, secret)


async def test_an_expired_token_stays_expired_after_a_restart(yards: Yards) -> None:
    _, secret = await made(await yards.directory(), ttl_secs=60)
    yards.clock.now += 60
    assert not is_let_in(await yards.restarted(), secret)


async def test_what_looks_like_a_token_is_never_passed_on_and_other_credentials_are(yards: Yards) -> None:
    directory = await yards.directory()
    token, secret = await made(directory)
    for wrong in (
        *("tyd_", new_secret(), secret[:-1], secret + "0", secret + "\0", secret + " ", "tyd_" + "ä" * 38),
        *("tyd_" + "0" * 100_000, "tyd_" + token.id, "tyd_" + digest_of(secret).hex()),
        "tyd_" + secret[4:].swapcase(),
    ):
        with pytest.raises(Unauthenticated):
            directory.find(wrong)
    for other in ("", "tyd", secret.swapcase(), token.id, "eyJhbGciOi.x.y", digest_of(secret).hex(), secret[1:]):
        assert directory.find(other) is None


async def test_each_of_two_tokens_is_let_in_as_itself_and_only_one_is_revoked(yards: Yards) -> None:
    directory = await yards.directory()
    (one, one_secret), (other, other_secret) = await asyncio.gather(made(directory), made(directory))
    directory.revoke(one.id)
    assert not is_let_in(directory, one_secret)
    found = directory.find(other_secret)
    assert found is not None
    assert found.credential == other.id
    swapped = one_secret[:36] + other_secret[36:]
    assert not is_let_in(directory, swapped)


async def test_use_is_noted_at_once_and_written_together(yards: Yards) -> None:
    directory = await yards.directory()
    tokens = [await made(directory) for _ in range(3)]
    before = len(yards.store.tried)
    yards.clock.now += 7
    for _ in range(5):
        for _, secret in tokens[:2]:
            directory.find(secret)
    assert tokens[0][0].last_used_at == yards.clock.now
    await settled(yards.engine)
    assert len(yards.store.tried) == before
    directory.write_used()
    await settled(yards.engine)
    assert len(yards.store.tried) == before + 1
    after = await yards.restarted()
    assert [token.last_used_at for token in after.after(0, ended=False)] == [yards.clock.now, yards.clock.now, None]


async def test_the_use_of_many_is_written_in_slices(yards: Yards) -> None:
    directory = await yards.directory()
    for _, secret in [await made(directory) for _ in range(5)]:
        directory.find(secret)
    written = []
    while directory.write_used(2):
        await settled(yards.engine)
        written.append(sum(token.last_used_at is not None for token in (await yards.restarted()).after(0, ended=True)))
    assert written == [2, 4]


async def test_without_use_nothing_is_written(yards: Yards) -> None:
    directory = await yards.directory()
    await made(directory)
    before = len(yards.store.tried)
    directory.write_used()
    await settled(yards.engine)
    assert len(yards.store.tried) == before


async def test_ended_tokens_are_shown_for_thirty_days_and_then_forgotten_in_the_store_too(yards: Yards) -> None:
    directory = await yards.directory()
    revoked, _ = await made(directory)
    expired, _ = await made(directory, ttl_secs=60)
    kept, _ = await made(directory)
    directory.revoke(revoked.id)
    await directory.settled()
    yards.clock.now += 61
    assert [token.id for token in directory.after(0, ended=False)] == [kept.id]
    assert [token.id for token in directory.after(0, ended=True)] == [revoked.id, expired.id, kept.id]
    yards.clock.now += SHOWN_SECS
    directory.forget(yards.clock.now)
    directory.write_used()
    await settled(yards.engine)
    assert [token.id for token in directory.after(0, ended=True)] == [kept.id]
    with pytest.raises(NotFound):
        directory.get(revoked.id)
    assert list(yards.store.tables[Table.TOKENS]) == [kept.number]


async def test_there_are_so_many_tokens_and_ended_ones_make_room_after_their_time(yards: Yards) -> None:
    directory = await yards.directory(most=2)
    token, _ = await made(directory)
    await made(directory)
    directory.revoke(token.id)
    await directory.settled()
    with pytest.raises(Conflict, match="there are 2 tokens"):
        await made(directory)
    yards.clock.now += SHOWN_SECS
    await made(directory)


async def test_tokens_that_are_made_at_once_count_before_they_are_committed(yards: Yards) -> None:
    directory = await yards.directory(most=2)
    outcomes = await asyncio.gather(*(made(directory) for _ in range(4)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [tuple, tuple, Conflict, Conflict]


async def test_a_row_that_cannot_be_read_lets_nobody_in_and_the_others_go_on(yards: Yards) -> None:
    _, secret = await made(await yards.directory())
    store = yards.store.copy()
    group = Group(store.meta.number + 1, store.meta.at)
    group.put(Table.TOKENS, 9, b"nonsense")
    store.write(group)
    after = await yards.directory(store)
    assert is_let_in(after, secret)
    token, _ = await made(after)
    assert token.number > 9


async def test_a_token_lives_as_long_as_it_was_given_where_the_clock_was_wrong(yards: Yards) -> None:
    """The clock was a day ahead, and the start with --accept-clock moves what was stored."""
    _, secret = await made(await yards.directory(), ttl_secs=60)
    store = yards.store.copy()
    yards.clock.now -= 86_400
    after = await yards.directory(store, store_options=StoreOptions(accept_clock=True))
    assert is_let_in(after, secret)
    yards.clock.now += 61
    assert not is_let_in(after, secret)
    assert not is_let_in(await yards.directory(store.copy()), secret)


async def test_a_turn_of_tasks_is_not_split_by_a_token(yards: Yards) -> None:
    """What is commanded in the same turn of the loop is in the same commit."""
    directory = await yards.directory()
    before = yards.store.meta.number
    submits = [yards.engine.tasks.submit("default", Submission("ann", "click"), show=live) for _ in range(2)]
    await asyncio.gather(submits[0], made(directory), submits[1])
    assert yards.store.meta.number == before + 1
