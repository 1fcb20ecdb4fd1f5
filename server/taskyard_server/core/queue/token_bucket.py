"""How many tasks may begin a second, by exact arithmetic: a bucket of tokens that fills at a rate.

Times are counted in units so fine that every time of this century is a whole number of them, and tokens in the parts of
a token that come in one unit. So nothing is ever rounded: in no window of T seconds are more than
`burst + per_second * T` tokens taken, and a token is there at the very unit at which it is due.
"""

from __future__ import annotations

from typing import Final

UNITS_PER_SECOND: Final = 1 << 22
FAR: Final = 1 << 80
"""More units than anybody will wait."""


class TokenBucket:
    """Up to `burst` tokens, of which `per_second` come a second. It begins full."""

    __slots__ = ("_at", "_credit", "_full", "_per_unit", "_token")

    def __init__(self, now: float, per_second: float, burst: int | None) -> None:
        self._per_unit, parts = per_second.as_integer_ratio()
        self._token = parts * UNITS_PER_SECOND
        self._full = self._token * (default_burst(per_second) if burst is None else burst)
        self._credit = self._full
        self._at = int(now * UNITS_PER_SECOND)

    def empty(self, now: float) -> None:
        """Take all that is in it."""
        self._credit = 0
        self._at = int(now * UNITS_PER_SECOND)

    def copy(self) -> TokenBucket:
        """Another one that holds as much."""
        other = TokenBucket(0.0, 1.0, 1)
        other._per_unit, other._token, other._full = self._per_unit, self._token, self._full
        other._credit, other._at = self._credit, self._at
        return other

    def fill_from(self, now: float, other: TokenBucket) -> None:
        """Hold what another one holds now, as far as there is room for it."""
        self._fill(now)
        other._fill(now)
        # Both are powers of two, as the denominators of all floating-point numbers are: so nothing is rounded.
        finer = max(1, other._token // self._token)
        self._token *= finer
        self._full *= finer
        self._per_unit *= finer
        self._credit = min(self._full, other._credit * (self._token // other._token))

    def is_level_with(self, now: float, other: TokenBucket) -> bool:
        """True if another one holds as much."""
        self._fill(now)
        other._fill(now)
        return self._credit * other._token == other._credit * self._token

    def take(self, now: float) -> None:
        """Take a token, which must be there."""
        self._fill(now)
        self._credit -= self._token

    def due(self, now: float) -> float:
        """When there is a token: 0 if there is one now."""
        self._fill(now)
        lacking = self._token - self._credit
        if lacking <= 0:
            return 0.0
        return min(self._at - -lacking // self._per_unit, FAR) / UNITS_PER_SECOND

    def whole(self, now: float) -> int:
        """How many tokens can be taken."""
        self._fill(now)
        return self._credit // self._token

    def tokens(self, now: float) -> float:
        """How many tokens there are, and the part of the next one that has come."""
        self._fill(now)
        return self._credit / self._token

    def _fill(self, now: float) -> None:
        at = int(now * UNITS_PER_SECOND)
        if at > self._at:
            if self._credit < self._full:
                self._credit = min(self._full, self._credit + self._per_unit * (at - self._at))
            self._at = at


def default_burst(per_second: float) -> int:
    """How many may come at once where nobody says."""
    return max(1, int(per_second))
