"""Knows principals by JWTs of the issuers that the configuration names (docs/operate/security.md, JWTs).

A token is taken up when it looks like a JWT and names one of the issuers; then it holds or is refused, and is never
passed on. Only signatures by a key of the issuer's set count, each key with its one algorithm. One that held is
remembered for a while, as long as the keys and the rules are the same.
"""

from __future__ import annotations

import asyncio
import re
import time
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeGuard

from taskyard_server.core.errors import Unauthenticated
from taskyard_server.json_text import read_json
from taskyard_server.settings.security import IssuerSettings

from .claim_rules import ClaimRules
from .grants import Principal
from .key_sets import MAX_KID_CHARS, KeySet, KeySetError
from .key_sources import KeyFile, KeySource, key_source

MAX_TOKEN_CHARS: Final = 8_192
LEEWAY_SECS: Final = 30.0
"""How far the clock of an issuer may be ahead of ours: for `nbf` and `iat`. At `exp` a token ends by our clock."""
MOST_REMEMBERED_SECS: Final = 300.0
MAX_REMEMBERED: Final = 10_000
LATEST_SECS: Final = 1e11
"""The latest time that a claim may name, in the year 5138."""
MAX_NAME_CHARS: Final = 128
MAX_CREDENTIAL_CHARS: Final = 256

THREE_PARTS: Final = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]*)")

WRONG_HEADER: Final = "authorization: the header of the JWT is not one that can be relied on"
WRONG_ISSUER: Final = "authorization: the JWT is not of this issuer"
UNKNOWN_KEY: Final = (
    "authorization: the JWT names no key of its issuer that is known, or another algorithm than the key's"
)
WRONG_SIGNATURE: Final = "authorization: the signature of the JWT does not hold"
WRONG_AUDIENCE: Final = "authorization: the JWT is for another audience"
WRONG_CLAIMS: Final = "authorization: the JWT needs `sub` and `exp`, and its times must be numbers"
EXPIRED: Final = "authorization: the JWT has expired"
TOO_EARLY: Final = "authorization: the JWT is not valid yet"


class _Issuer:
    """An issuer with an audience, its keys and its rules."""

    def __init__(self, settings: IssuerSettings, keys: KeySource, is_beginning: bool) -> None:
        self.settings = settings
        self.keys = keys
        self._rules = ClaimRules(settings.rules)
        self._is_beginning = is_beginning

    def principal(self, claims: dict[str, Any], subject: str, expires_at: float) -> Principal:
        """Who this is. Two subjects never have the same credential."""
        issuer = self.settings.issuer
        credential = _readable(f"jwt:{issuer}:{subject}", MAX_CREDENTIAL_CHARS)
        if self._is_beginning:
            credential += _mark(f"{len(issuer)} {issuer} {subject}")
        return Principal(_readable(subject, MAX_NAME_CHARS), credential, self._rules.grants(claims), expires_at)


class _Remembered(NamedTuple):
    until: float
    principal: Principal
    source: KeySource
    keys: KeySet


class _Parts(NamedTuple):
    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes


class Jwts:
    """The issuers of the configuration. `clock` is the wall clock, in seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._settings: Sequence[IssuerSettings] = ()
        self._sources: dict[str, KeySource] = {}
        self._issuers: dict[str, list[_Issuer]] = {}
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    def reconfigure(self, settings: Sequence[IssuerSettings]) -> None:
        """Take other issuers and rules. Keys that were read from a location that is still named stay in force."""
        if list(settings) == list(self._settings):
            return
        self._settings = settings
        self._sources = {each.jwks: self._sources.get(each.jwks) or key_source(each.jwks) for each in settings}
        self._issuers = {}
        names = {each.issuer for each in settings}
        for each in settings:
            is_beginning = any(name.startswith(f"{each.issuer}:") for name in names)
            issuer = _Issuer(each, self._sources[each.jwks], is_beginning)
            self._issuers.setdefault(each.issuer, []).append(issuer)
        self._remembered.clear()

    async def open(self) -> None:
        """Read all keys for the first time, within seconds. Raises `KeySetError`, one line, for a file that cannot be.

        A URL that cannot be reached is logged, and asked again.
        """
        now = time.monotonic()
        for source in self._sources.values():
            if isinstance(source, KeyFile):
                try:
                    await source.load(now)
                except KeySetError as problem:
                    raise KeySetError(f"auth.jwt.jwks: {source.location}: {problem}") from None
        await self.refresh()

    async def refresh(self) -> None:
        """Look at all locations that are due. To be called every second or so."""
        now = time.monotonic()
        await asyncio.gather(*(source.refresh(now) for source in self._sources.values() if source.is_due(now)))

    def claims(self, token: str, settings: IssuerSettings, audience: str) -> Mapping[str, Any]:
        """The claims of an issuer for this audience, which need not be one whose tokens are credentials.

        Raises `Unauthenticated`.
        """
        parts = _parts_of(token) if len(token) <= MAX_TOKEN_CHARS and token.isascii() else None
        issuers = [each for each in self._issuers.get(settings.issuer, ()) if each.settings == settings]
        if parts is None or not issuers or parts.claims.get("iss") != settings.issuer:
            raise Unauthenticated(WRONG_ISSUER)
        _check_signature(parts, issuers[0])
        if audience not in _audiences(parts.claims):
            raise Unauthenticated(WRONG_AUDIENCE)
        _check_claims(parts.claims, self._clock())
        return parts.claims

    def find(self, token: str) -> Principal | None:
        """The principal of a JWT; None if it is not one of these issuers. Raises `Unauthenticated`."""
        if "." not in token or len(token) > MAX_TOKEN_CHARS or not token.isascii():
            return None
        digest = sha256(token.encode()).digest()
        remembered = self._remembered.get(digest)
        now = self._clock()
        if remembered is not None:
            if now < remembered.until and remembered.keys is remembered.source.keys:
                self._remembered.move_to_end(digest)
                return remembered.principal
            del self._remembered[digest]
        parts = _parts_of(token)
        if parts is None or not isinstance(name := parts.claims.get("iss"), str):
            return None
        issuers = self._issuers.get(name)
        if issuers is None:
            return None
        issuer, principal = _verify(parts, issuers, now)
        if principal.expires_at is not None:
            until = min(principal.expires_at, now + MOST_REMEMBERED_SECS)
            self._remembered[digest] = _Remembered(until, principal, issuer.keys, issuer.keys.keys)
            if len(self._remembered) > MAX_REMEMBERED:
                self._remembered.popitem(last=False)
        return principal


def _verify(parts: _Parts, issuers: Sequence[_Issuer], now: float) -> tuple[_Issuer, Principal]:
    """Who a JWT is, by the first of its issuer's entries with its audience. Raises `Unauthenticated`."""
    claims = parts.claims
    audiences = _audiences(claims)
    fitting = [issuer for issuer in issuers if issuer.settings.audience in audiences]
    issuer = fitting[0] if fitting else issuers[0]
    _check_signature(parts, issuer)
    # From here on it is the issuer who speaks.
    if not fitting:
        raise Unauthenticated(WRONG_AUDIENCE)
    return issuer, issuer.principal(claims, *_check_claims(claims, now))


def _audiences(claims: dict[str, Any]) -> list[Any]:
    audiences = claims.get("aud")
    return audiences if isinstance(audiences, list) else [audiences]


def _check_signature(parts: _Parts, issuer: _Issuer) -> None:
    """Raises `Unauthenticated` unless it is by a key of this issuer."""
    header = parts.header
    kid, algorithm = header.get("kid"), header.get("alg")
    is_named = kid is None or (isinstance(kid, str) and len(kid) <= MAX_KID_CHARS)
    # `crit` and `b64` would change what is signed.
    if not is_named or not isinstance(algorithm, str) or "crit" in header or "b64" in header:
        raise Unauthenticated(WRONG_HEADER)
    keys = issuer.keys.keys
    key = keys.find(kid, algorithm)
    if key is None:
        if kid is None or not keys.has(kid):
            issuer.keys.want()
        raise Unauthenticated(UNKNOWN_KEY)
    if not key.verifies(parts.signed, parts.signature):
        raise Unauthenticated(WRONG_SIGNATURE)


def _check_claims(claims: dict[str, Any], now: float) -> tuple[str, float]:
    """Who it is about, and until when it holds. Raises `Unauthenticated`."""
    subject, expires_at = claims.get("sub"), claims.get("exp")
    not_before, issued_at = claims.get("nbf", 0), claims.get("iat", 0)
    if not isinstance(subject, str) or not subject.strip() or not _is_time(expires_at):
        raise Unauthenticated(WRONG_CLAIMS)
    if not _is_time(not_before) or not _is_time(issued_at):
        raise Unauthenticated(WRONG_CLAIMS)
    if now >= expires_at:
        raise Unauthenticated(EXPIRED)
    if now + LEEWAY_SECS < max(not_before, issued_at):
        raise Unauthenticated(TOO_EARLY)
    return subject, float(expires_at)


def _parts_of(token: str) -> _Parts | None:
    """The claims of a token, unverified; None if it is no JWT. No name may stand twice: it would have two meanings."""
    found = THREE_PARTS.fullmatch(token)
    if found is None:
        return None
    try:
        header, claims = _read_object(found[1]), _read_object(found[2])
        signature = _decode(found[3])
    except (ValueError, RecursionError):
        return None
    return _Parts(header, claims, token[: found.end(2)].encode(), signature)


def _read_object(part: str) -> dict[str, Any]:
    found = read_json(_decode(part), parse_constant=_no_number)
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found


def _decode(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _is_time(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LATEST_SECS


def _readable(text: str, most: int) -> str:
    """The text as it may stand in a log, with a mark of what it was if it had to be changed."""
    cleaned = "".join(char if char.isprintable() and not char.isspace() else "?" for char in text[:most])
    return text if cleaned == text else cleaned + _mark(text)


def _mark(text: str) -> str:
    return "#" + sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]
