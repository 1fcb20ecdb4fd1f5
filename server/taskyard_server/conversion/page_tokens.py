"""Page tokens: opaque, and valid for one listing of one namespace under the same filters only."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from zlib import crc32

from taskyard_server.core.errors import BadRequest

MAX_PAGE_ITEMS: Final = 1_000
BAD_PAGE_TOKEN: Final = "pageToken: is not a token of this listing"


class Listing:
    """What a page is a part of: a kind of thing, the caller's namespace, and the filters of the request."""

    def __init__(self, kind: str, namespace: str, *filters: object) -> None:
        self._check = crc32(repr((kind, namespace, filters)).encode())

    def token(self, after: int | str) -> str:
        """The token for the page after an item, given by number or name."""
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
