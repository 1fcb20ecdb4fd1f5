"""Page tokens: opaque, and valid for one listing of one namespace under the same filters only.

Where they must tell nothing they are sealed, for callers of the same scope alone.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, Protocol
from zlib import crc32

from taskyard_server.core.errors import BadRequest

MAX_PAGE_ITEMS: Final = 1_000
SEALED_MARK: Final = "s."
"""How sealed cursors and page tokens begin; no others do."""
BAD_PAGE_TOKEN: Final = "pageToken: is not a token of this listing"


class Seal(Protocol):
    """Makes texts that nobody else can read or make."""

    def seal(self, text: str, bound_to: bytes) -> str:
        """The text, sealed for what it is bound to."""

    def open(self, sealed: str, bound_to: bytes) -> str | None:
        """The text that was sealed for this; None if none was."""


class Listing:
    """The listing that a page is a part of: a kind of thing, the caller's namespace, and the filters of the request.

    With a `seal` its tokens hold for callers of this `scope` alone, and nobody can read them.
    """

    def __init__(
        self, kind: str, namespace: str, *filters: object, seal: Seal | None = None, scope: object = None
    ) -> None:
        if seal is None:
            self._check = crc32(repr((kind, namespace, filters)).encode())
        else:
            self._bound_to = repr((kind, namespace, filters, scope)).encode()
        self._seal = seal

    def token(self, after: int | str) -> str:
        """The token for the page after an item, given by number or name."""
        if self._seal is not None:
            # The dot keeps spaces at the end of a name.
            return self._seal.seal(f"{after}.", self._bound_to)
        return urlsafe_b64encode(f"{after}:{self._check}".encode()).decode().rstrip("=")

    def start(self, token: str) -> int:
        """The number of the item that a page starts after; 0 without a token. Raises `BadRequest`."""
        after = self.start_name(token)
        if not after:
            return 0
        try:
            return int(after)
        except ValueError:
            raise BadRequest(BAD_PAGE_TOKEN) from None

    def start_name(self, token: str) -> str:
        """The name of the item that a page starts after; empty without a token. Raises `BadRequest`."""
        if not token:
            return ""
        if self._seal is not None:
            opened = self._seal.open(token, self._bound_to)
            if opened is None:
                raise BadRequest(BAD_PAGE_TOKEN)
            return opened.removesuffix(".")
        try:
            after, _, check = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode().rpartition(":")
            if int(check) == self._check:
                return after
        except (binascii.Error, ValueError):
            pass
        raise BadRequest(BAD_PAGE_TOKEN)


def page_size(requested: int) -> int:
    """The number of items per page: the requested one, at most `MAX_PAGE_ITEMS`, which is also the default."""
    return min(requested, MAX_PAGE_ITEMS) or MAX_PAGE_ITEMS
