"""The open calls that claim under an id: a lease that several of them answer is given back only if all were cancelled.

A host that repeats a claim may still have the first call open, or its connection may be about to be found broken. The
end of that call must not take from the host what the repeat has answered (docs/rules.md, Claim ids).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .namespace import WaitingClaim

ClaimName = tuple[str, str]
"""A host, and the id of its claim."""


class NamedClaims:
    """The open calls of one namespace that have a claim id."""

    def __init__(self) -> None:
        self._calls: dict[ClaimName, dict[WaitingClaim, None]] = {}

    def enter(self, name: ClaimName, call: WaitingClaim) -> None:
        """A call was made."""
        self._calls.setdefault(name, {})[call] = None

    def leave(self, name: ClaimName, call: WaitingClaim) -> None:
        """A call is over."""
        calls = self._calls[name]
        del calls[call]
        if not calls:
            del self._calls[name]

    def answered(self, name: ClaimName, call: WaitingClaim) -> None:
        """A call was answered: if it has leases they are its host's now, and no other call gives them back."""
        if call.leases:
            for other in self._calls[name]:
                other.leases = []

    def is_shared(self, name: ClaimName, call: WaitingClaim) -> bool:
        """Whether another open call answers the leases of this one."""
        return any(other is not call and other.leases for other in self._calls[name])
