"""The tokens of the store in memory, by the digests of their secrets.

Looking one up waits for nothing. What changes is written by the commits of the engine: nobody can use a token before
its row is committed, and one that is revoked is gone at once. When tokens were used stands in rows of their own: where
replicas share the store, none that notes a use must undo what another one has changed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final

import structlog
from msgspec import MsgspecError

from taskyard_server.core.errors import Conflict, NotFound, Unauthenticated
from taskyard_server.engine.persistence import Persistence
from taskyard_server.store.committer import Committer
from taskyard_server.store.port import Group, Store, Table
from taskyard_server.store.records.tasks import encode
from taskyard_server.store.records.tokens import TokenUseRecord, decode_token_use

from .authentication import UNKNOWN
from .grants import Grant, Principal
from .token_text import PREFIX, SECRET_CHARS
from .tokens import Token, digest_of, encode_token, new_id, new_secret, token_of

log = structlog.get_logger(__name__)

WRITE_SECS: Final = 60.0
"""How often it is written when tokens were last used."""
WRITTEN_AT_ONCE: Final = 200
WRITE_PAUSE_SECS: Final = 0.05
"""Many are written in slices, with a pause after each, so that nobody waits for long."""
SHOWN_SECS: Final = 30 * 86_400.0
"""How long a token is shown after it was revoked or has expired."""
MAX_TOKENS: Final = 100_000
RANDOM_BITS: Final = 20
"""Beside the milliseconds in the number of a token, which is the key of its row."""


class TokenDirectory:
    """Knows the principals of tokens: a `BearerSource`, and a `Source` of the committer.

    `clock` is that of the engine, in seconds. `most` tokens are kept, those included that have ended a while ago.
    `on_ended` is called when tokens were revoked by another server that shares the store.
    """

    def __init__(self, clock: Callable[[], float], most: int = MAX_TOKENS) -> None:
        self._clock = clock
        self._most = most
        self.on_ended: Callable[[], object] = lambda: None
        self._committer: Committer | None = None
        self._store: Store | None = None
        self._refreshing = asyncio.Lock()
        self._read: dict[int, int] = {}
        """The hash of each record that was read, by the number of its token."""
        self._by_digest: dict[bytes, Token] = {}
        """Those that were not revoked."""
        self._by_id: dict[str, Token] = {}
        """All that are committed, in the order of their numbers."""
        self._last_number = 0
        self._making = 0
        self._used: dict[Token, None] = {}
        self._changed: dict[Token, None] = {}
        self._uses: dict[Token, None] = {}
        """Tokens whose last use the next commit writes."""
        self._forgotten: list[int] = []

    async def open(self, persistence: Persistence) -> None:
        """Load what the store of an open engine holds. Raises `StoreError`."""
        self._committer, self._store = persistence.committer, persistence.store
        await self._load(persistence.store, persistence.shift)
        if persistence.shift:
            self._changed = dict.fromkeys(self._by_id.values())
            self._uses = {token: None for token in self._changed if token.last_used_at is not None}
        if self._changed:
            await self._keep()

    async def refresh(self) -> None:
        """Read what other servers that share the store have changed. Raises `StoreError` or `CommitDelayed`."""
        if self._store is not None:
            async with self._refreshing:
                has_ended = await self._load(self._store)
            if has_ended:
                self.on_ended()

    async def look(self, secs: float) -> None:
        """Read the tokens that other servers have made in the last this many seconds; raises what `refresh` does."""
        if self._store is None:
            return
        since = int((self._clock() - secs) * 1000) << RANDOM_BITS
        async for rows in self._store.rows(Table.TOKENS, after_key=since):
            known = self._read.keys()
            for number, record in [row for row in rows if row[0] not in known]:
                self._read[number] = hash(record)
                self._take(number, record, 0.0, None)

    async def _load(self, store: Store, shift: float = 0.0) -> bool:
        """Take over all rows, with their times moved by `shift`. Whether a token ended by that which was there."""
        known = {token.number: token for token in self._by_id.values()}
        gone = dict(known)
        has_ended = False
        async for rows in store.rows(Table.TOKENS):
            for number, record in rows:
                token = gone.pop(number, None)
                if self._read.get(number) != hash(record):
                    self._read[number] = hash(record)
                    has_ended |= self._take(number, record, shift, token)
        for token in gone.values():
            # It ended long ago, and another server has removed it.
            self._drop(token)
        numbers = [token.number for token in self._by_id.values()]
        if numbers != sorted(numbers):
            self._by_id = {token.id: token for token in sorted(self._by_id.values(), key=_number)}
        known = {token.number: token for token in self._by_id.values()}
        async for rows in store.rows(Table.TOKEN_USES):
            for number, record in rows:
                if (token := known.get(number)) is not None:
                    self._take_use(token, record, shift)
        return has_ended or bool(gone)

    def _take(self, number: int, record: bytes, shift: float, known: Token | None) -> bool:
        """Take over a row that changed. Whether a token ended by that which was `known`."""
        try:
            token = token_of(number, record, shift)
        except (MsgspecError, ValueError) as fault:
            # Nobody is let in by it, and the others are.
            log.error("token_unreadable", number=number, fault=str(fault))
            if known is not None:
                self._drop(known)
            return known is not None
        known = known or self._by_id.get(token.id)
        if known is None:
            ended_at = token.ended_at()
            if ended_at is None or ended_at > self._clock() - SHOWN_SECS:
                self._add(token)
            return False
        if token.revoked_at is None or known.revoked_at is not None:
            return False
        known.revoked_at = token.revoked_at
        self._by_digest.pop(known.digest, None)
        return True

    def _take_use(self, token: Token, record: bytes, shift: float) -> None:
        try:
            at = decode_token_use(record).at + shift
        except MsgspecError as fault:
            log.error("token_use_unreadable", number=token.number, fault=str(fault))
            return
        if token.last_used_at is None or token.last_used_at < at:
            token.last_used_at = at

    def _drop(self, token: Token) -> None:
        self._by_id.pop(token.id, None)
        self._by_digest.pop(token.digest, None)
        self._read.pop(token.number, None)

    # What every call asks

    def knows(self, secret: str) -> bool:
        """True if this is the secret of a token that was not revoked, as far as is known here."""
        return digest_of(secret) in self._by_digest

    def find(self, token: str) -> Principal | None:
        """See `BearerSource`. Raises `Unauthenticated` for what looks like a token and is none that holds."""
        if not token.startswith(PREFIX):
            return None
        found = self._by_digest.get(digest_of(token)) if len(token) == SECRET_CHARS and token.isascii() else None
        if found is None:
            raise Unauthenticated(UNKNOWN)
        now = self._clock()
        if not found.holds(now):
            raise Unauthenticated(UNKNOWN)
        found.last_used_at = now
        self._used[found] = None
        return found.principal

    # Commands

    async def create(
        self, name: str, grants: tuple[Grant, ...], ttl_secs: float | None, created_by: str
    ) -> tuple[Token, str]:
        """Make a token that ends after `ttl_secs`, if that is given. Returns it with its secret, once it is committed.

        Raises `Conflict` if there are too many, and `Unavailable` if the store does not answer: it may be there then,
        and nobody knows its secret.
        """
        committer = self._opened()
        committer.require_answers()
        if len(self._by_id) + self._making >= self._most:
            self.forget(self._clock())
        if len(self._by_id) + self._making >= self._most:
            raise Conflict(f"there are {self._most} tokens: revoke some; those that have ended go after 30 days")
        secret, now = new_secret(), self._clock()
        token = Token(
            number=self._next_number(now),
            id=new_id(),
            digest=digest_of(secret),
            name=name,
            grants=grants,
            created_at=now,
            created_by=created_by,
            expires_at=None if ttl_secs is None else now + ttl_secs,
        )
        self._changed[token] = None
        self._making += 1
        await committer.keep(self, partial(self._made, token))
        return token, secret

    def revoke(self, token_id: str) -> Token:
        """End a token, at once; `settled` waits until that is committed. A second time changes nothing.

        Raises `NotFound`.
        """
        token = self.get(token_id)
        if token.revoked_at is None:
            token.revoked_at = self._clock()
            self._by_digest.pop(token.digest, None)
            self._changed[token] = None
        return token

    async def settled(self) -> None:
        """Wait until what changed so far is committed. Raises `Unavailable` if the store does not answer."""
        if self._changed:
            await self._keep()
        elif (kept := self._opened().wait_for_past(self)) is not None:
            await kept

    def get(self, token_id: str) -> Token:
        """A token by its id. Raises `NotFound`."""
        token = self._by_id.get(token_id)
        if token is None:
            raise NotFound("token not found")
        return token

    def after(self, number: int, *, ended: bool) -> Iterable[Token]:
        """The tokens with higher numbers, in their order; those that have ended only if `ended`."""
        now = self._clock()
        return (token for token in self._by_id.values() if token.number > number and (ended or token.holds(now)))

    # What time brings

    async def run(self) -> None:
        """Write down when tokens were used, and forget those that ended long ago, until cancelled."""
        while True:
            await asyncio.sleep(WRITE_SECS)
            self.forget(self._clock())
            while self.write_used(WRITTEN_AT_ONCE):  # noqa: ASYNC110 - the sleep is a pause
                await asyncio.sleep(WRITE_PAUSE_SECS)

    def write_used(self, most: int = MAX_TOKENS) -> bool:
        """Let the end of this turn commit when up to `most` tokens were last used. Whether there are more."""
        for token in list(islice(self._used, most)):
            del self._used[token]
            if token.id in self._by_id:
                self._uses[token] = None
        committer = self._committer
        if committer is not None and (self._changed or self._uses or self._forgotten) and not committer.is_stuck:
            committer.keep(self)
        return bool(self._used)

    def forget(self, now: float) -> None:
        """Forget the tokens that ended `SHOWN_SECS` before `now` or earlier."""
        for token in list(self._by_id.values()):
            ended_at = token.ended_at()
            if ended_at is not None and ended_at <= now - SHOWN_SECS:
                self._drop(token)
                self._changed.pop(token, None)
                self._uses.pop(token, None)
                self._forgotten.append(token.number)

    # What the committer asks

    def add_rows(self, group: Group) -> None:
        """See `Source`."""
        changed, self._changed = self._changed, {}
        uses, self._uses = self._uses, {}
        forgotten, self._forgotten = self._forgotten, []
        for token in changed:
            group.put(Table.TOKENS, token.number, encode_token(token))
        for token in uses:
            assert token.last_used_at is not None
            group.put(Table.TOKEN_USES, token.number, encode(TokenUseRecord(token.last_used_at)))
        for number in forgotten:
            group.remove(Table.TOKENS, number)
            group.remove(Table.TOKEN_USES, number)

    def is_among(self, namespaces: frozenset[int]) -> bool:
        """See `Source`. They belong to no namespace."""
        del namespaces
        return False

    def committed(self, at: float) -> None:
        """See `Source`."""

    def close_for(self, error: Exception) -> None:
        """See `Source`. The call that waits is told; the other tokens go on."""
        log.error("tokens_not_kept", fault=str(error))

    async def _keep(self) -> None:
        await self._opened().keep(self)

    def _opened(self) -> Committer:
        assert self._committer is not None, "open it first"
        return self._committer

    def _next_number(self, now: float) -> int:
        """A number above those given before that no other server gives: milliseconds and random bits."""
        number = int(now * 1000) << RANDOM_BITS | secrets.randbits(RANDOM_BITS)
        self._last_number = max(number, self._last_number + 1)
        return self._last_number

    def _made(self, token: Token, _secs: float) -> None:
        self._making -= 1
        self._add(token)

    def _add(self, token: Token) -> None:
        self._by_id[token.id] = token
        if token.revoked_at is None:
            self._by_digest[token.digest] = token


def _number(token: Token) -> int:
    return token.number
