"""How much one principal may ask for: calls a second, and open streams (docs/operate/security.md, Limits).

Time is passed in, in seconds on any clock that does not go back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from taskyard_server.core.errors import RETRY_AFTER_MS, TooManyRequests
from taskyard_server.settings.security import LimitSettings, RoleWord

from .grants import Principal, Role

MAX_PRINCIPALS: Final = 10_000
"""Above this many, those that have used nothing of late are forgotten, which changes nothing for them."""


class Rate(NamedTuple):
    """This many a second, and `burst` at once after a rest."""

    per_sec: float
    burst: float

    @classmethod
    def of(cls, settings: LimitSettings) -> Rate | None:
        """The rate of calls that settings set; None for no limit."""
        per_sec = settings.requests_per_sec
        if per_sec is None:
            return None
        return cls(per_sec, max(1.0, settings.burst if settings.burst is not None else 2 * per_sec))


class CallBucket:
    """One bucket of tokens, full at first, as the time at which it will be full again."""

    __slots__ = ("_full_at", "rate")

    def __init__(self, rate: Rate) -> None:
        self.rate = rate
        self._full_at = float("-inf")

    def take(self, now: float, count: int = 1) -> float:
        """Take tokens. Returns 0, or for how many seconds there are not this many, and takes none then."""
        per_sec, burst = self.rate
        full_at = max(self._full_at, now) + count / per_sec
        missing = full_at - now - burst / per_sec
        # Sums of times are not exact.
        if missing > 1e-9:
            return missing
        self._full_at = full_at
        return 0.0

    def is_full(self, now: float) -> bool:
        """True if as many tokens are in it as it holds."""
        return self._full_at <= now


class RequestLimits:
    """Counts the calls and the streams of each principal, by its credential."""

    def __init__(self, settings: Mapping[RoleWord, LimitSettings]) -> None:
        self._rates: dict[Role, Rate | None] = {}
        self._streams: dict[Role, int | None] = {}
        self._buckets: dict[str, CallBucket] = {}
        self._open: dict[str, int] = {}
        self.refused = 0
        """Calls and streams that were too many."""
        self.reconfigure(settings)

    @property
    def open_streams(self) -> int:
        """The streams of all principals that are open."""
        return sum(self._open.values())

    def reconfigure(self, settings: Mapping[RoleWord, LimitSettings]) -> None:
        """Take other limits. Streams that are open stay open."""
        self._rates = {Role[role.upper()]: Rate.of(limit) for role, limit in settings.items()}
        self._streams = {Role[role.upper()]: limit.streams for role, limit in settings.items()}
        self._buckets.clear()

    def admit(self, principal: Principal, now: float) -> None:
        """Count a call. Raises `TooManyRequests`, which says when the next one may come."""
        bucket = self.bucket_of(principal, now) if self._rates else None
        if bucket is not None and (missing := bucket.take(now)):
            self.refused += 1
            rate = bucket.rate
            raise TooManyRequests(
                f"at most {rate.per_sec:g} calls a second, {rate.burst:g} at once, are allowed",
                math.ceil(missing * 1_000),
            )

    def bucket_of(self, principal: Principal, now: float) -> CallBucket | None:
        """The bucket from which the calls of a principal are taken; None if they are not limited."""
        rate = self._rates.get(principal.strongest_role)
        if rate is None:
            return None
        bucket = self._buckets.get(principal.credential)
        if bucket is None:
            if len(self._buckets) >= MAX_PRINCIPALS:
                self._buckets = {key: each for key, each in self._buckets.items() if not each.is_full(now)}
            bucket = self._buckets[principal.credential] = CallBucket(rate)
        return bucket

    def open_stream(self, principal: Principal) -> None:
        """Count a stream that begins. Raises `TooManyRequests`."""
        credential = principal.credential
        count = self._open.get(credential, 0)
        most = self._streams.get(principal.strongest_role)
        if most is not None and count >= most:
            self.refused += 1
            raise TooManyRequests(f"at most {most} streams may be open at once", RETRY_AFTER_MS)
        self._open[credential] = count + 1

    def close_stream(self, principal: Principal) -> None:
        """Count a stream that has ended."""
        left = self._open[principal.credential] - 1
        if left:
            self._open[principal.credential] = left
        else:
            del self._open[principal.credential]
