"""The open calls of hosts that claim: what each is answered, and which of them claim under the same id.

A host that repeats a claim may still have the first call open, or its connection may be about to be found broken. The
end of that call must not take from the host what the repeat has answered (docs/rules.md, Claim ids).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from taskyard_server.core.errors import Refusal
from taskyard_server.core.leases import Lease

ClaimName = tuple[str, str]
"""A host, and the id of its claim."""


@dataclass(slots=True, eq=False)
class WaitingClaim:
    """A call that waits for tasks. `leases` are those granted to it, `answer` is what `show` made of them."""

    show: Callable[[list[Lease]], Any]
    answer: asyncio.Future[Any]
    leases: list[Lease] = field(default_factory=list)

    def grant(self, leases: list[Lease]) -> None:
        """Answer the call, with no leases if it waited in vain."""
        self.leases = leases
        try:
            self.answer.set_result(self.show(leases))
        except Exception as error:
            # A fault in one answer must not affect the others that are given in this turn.
            self.answer.set_exception(error)

    def refuse(self, refusal: Refusal) -> None:
        """Raise a refusal in the call."""
        self.answer.set_exception(refusal)


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
        """True if another open call answers the leases of this one."""
        return any(other is not call and other.leases for other in self._calls[name])
