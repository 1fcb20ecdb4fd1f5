"""The tokens of the store in memory, by the digests of their secrets.

Looking one up waits for nothing. What changes is written by the commits of the engine: nobody can use a token before
its row is committed, and one that is revoked is gone at once. The row of a token is written when it is made and when it
is revoked; when it was used stands apart, so that where replicas share the store none undoes what another one did.
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
from taskyard_server.engine.memory.keeper import Keeper
from taskyard_server.store.committer import Committer
from taskyard_server.store.port import Group, Row, Table
from taskyard_server.store.token_records import decode_token, decode_token_use

from .authentication import UNKNOWN
from .grants import Grant, Principal
from .tokens import PREFIX, SECRET_CHARS, Token, digest_of, encode_token, encode_use, new_id, new_secret, token_of

log = structlog.get_logger(__name__)

WRITE_SECS: Final = 60.0
"""How often it is written when tokens were last used."""
WRITTEN_AT_ONCE: Final = 200
WRITE_PAUSE_SECS: Final = 0.05
"""Many are written in slices, with a pause after each, so that nobody waits for long."""
SHOWN_SECS: Final = 30 * 86_400.0
"""For how long a token is shown after it was revoked or has expired."""
MAX_TOKENS: Final = 100_000
RANDOM_BITS: Final = 20
"""Of the number of a token where replicas share the store; before them stands when it was made, in milliseconds."""


class TokenDirectory:
    """Knows the principals of tokens: a `BearerSource`, and a `Source` of the committer.

    `clock` is that of the engine, in seconds. `most` tokens are kept, those included that have ended a while ago.
    """

    def __init__(self, clock: Callable[[], float], most: int = MAX_TOKENS) -> None:
        self._clock = clock
        self._most = most
        self._committer: Committer | None = None
        self._by_digest: dict[bytes, Token] = {}
        """Those that were not revoked."""
        self._by_id: dict[str, Token] = {}
        """All that are committed, in the order of their numbers."""
        self._by_number: dict[int, Token] = {}
        self._last_number = 0
        self._is_shared = False
        self._making = 0
        self._used: dict[Token, None] = {}
        self._changed: dict[Token, None] = {}
        self._use_changed: dict[Token, None] = {}
        self._unreadable: set[int] = set()
        self._forgotten: list[int] = []

    async def open(self, keeper: Keeper) -> None:
        """Load what the store of an open engine holds. Raises `StoreError`."""
        self._committer = keeper.committer
        self._is_shared = keeper.is_shared
        shift = keeper.shift
        async for rows in keeper.store.rows(Table.TOKENS):
            self.learn(rows, shift)
            self._last_number = rows[-1][0]
        async for rows in keeper.store.rows(Table.TOKEN_USES):
            self.learn_uses(rows, shift)
        if shift:
            self._changed = dict.fromkeys(self._by_id.values())
            self._use_changed = {token: None for token in self._changed if token.last_used_at is not None}
        if self._changed:
            await self._keep()

    # What the store holds

    def numbers(self) -> set[int]:
        """The numbers of all tokens that are known."""
        return set(self._by_number)

    def learn(self, rows: Iterable[Row], shift: float = 0.0) -> bool:
        """Take over what rows say of tokens, in order of their numbers. Whether any was revoked by that.

        What was revoked here stays so, although that may not be written yet.
        """
        has_revoked = False
        for number, record in rows:
            token = self._by_number.get(number)
            try:
                if token is None:
                    self._add(token_of(number, record, shift))
                elif token.revoked_at is None and (revoked_at := decode_token(record).revoked_at) is not None:
                    self._end(token, revoked_at)
                    has_revoked = True
            except (MsgspecError, ValueError) as fault:
                # Nobody is let in by it, and the others are.
                if number not in self._unreadable:
                    self._unreadable.add(number)
                    log.error("token_unreadable", number=number, fault=str(fault))
        return has_revoked

    def learn_uses(self, rows: Iterable[Row], shift: float = 0.0) -> None:
        """Take over when tokens were last used, where that is later than what is known."""
        for number, record in rows:
            token = self._by_number.get(number)
            if token is None:
                continue
            try:
                at = decode_token_use(record).at + shift
            except MsgspecError as fault:
                log.error("token_use_unreadable", number=number, fault=str(fault))
            else:
                token.last_used_at = max(at, token.last_used_at or at)

    def drop(self, numbers: set[int]) -> None:
        """Forget tokens that the store has no longer."""
        for number in numbers & self._by_number.keys():
            self._drop(self._by_number[number])

    # What every call asks

    def knows(self, token: str) -> bool:
        """Whether this is the secret of a token that was not revoked."""
        return digest_of(token) in self._by_digest

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
            self._end(token, self._clock())
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
                self._use_changed[token] = None
        committer = self._committer
        if committer is not None and (self._changed or self._use_changed or self._forgotten) and not committer.is_stuck:
            committer.keep(self)
        return bool(self._used)

    def forget(self, now: float) -> None:
        """Forget the tokens that ended `SHOWN_SECS` before `now` or earlier."""
        for token in list(self._by_id.values()):
            ended_at = token.ended_at()
            if ended_at is not None and ended_at <= now - SHOWN_SECS:
                self._drop(token)
                self._forgotten.append(token.number)

    # What the committer asks

    def add_rows(self, group: Group) -> None:
        """See `Source`."""
        changed, self._changed = self._changed, {}
        used, self._use_changed = self._use_changed, {}
        forgotten, self._forgotten = self._forgotten, []
        for token in changed:
            group.put(Table.TOKENS, token.number, encode_token(token))
        for token in used:
            if token.last_used_at is not None:
                group.put(Table.TOKEN_USES, token.number, encode_use(token.last_used_at))
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

    def _made(self, token: Token, _secs: float) -> None:
        self._making -= 1
        if token.number not in self._by_number:  # as where it was read meanwhile
            self._add(token)

    def _next_number(self, now: float) -> int:
        """One that is above all that are known, and where replicas share the store is drawn by no other one."""
        number = self._last_number + 1
        if self._is_shared:
            number = max(number, (int(now * 1000) << RANDOM_BITS) + secrets.randbits(RANDOM_BITS))
        self._last_number = number
        return number

    def _add(self, token: Token) -> None:
        is_last = all(other.number < token.number for other in islice(reversed(self._by_id.values()), 1))
        self._by_id[token.id] = self._by_number[token.number] = token
        if not is_last:
            # Another replica has made a later one, which was committed sooner.
            self._by_id = dict(sorted(self._by_id.items(), key=lambda item: item[1].number))
        if token.revoked_at is None:
            self._by_digest[token.digest] = token

    def _end(self, token: Token, at: float) -> None:
        token.revoked_at = at
        self._by_digest.pop(token.digest, None)

    def _drop(self, token: Token) -> None:
        del self._by_id[token.id], self._by_number[token.number]
        self._by_digest.pop(token.digest, None)
        self._changed.pop(token, None)
        self._use_changed.pop(token, None)
