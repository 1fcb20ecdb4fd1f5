"""Where the instance lives that owns a tab (scheduler-architecture, ManagerResolver)."""

from collections.abc import Mapping
from typing import Protocol


class TabNotFound(Exception):
    """No instance is known for the tab."""


class TabResolver(Protocol):
    """Maps a tab to the base URL of the instance that owns it."""

    async def resolve(self, tab_id: str) -> str:
        """The base URL, or `TabNotFound`."""


class TabMap:
    """A fixed map of tabs to instances; all other tabs live at `otherwise`, if it is given."""

    def __init__(self, base_urls: Mapping[str, str], otherwise: str | None = None) -> None:
        self._base_urls = {tab_id: base_url.rstrip("/") for tab_id, base_url in base_urls.items()}
        self._otherwise = otherwise.rstrip("/") if otherwise else None

    async def resolve(self, tab_id: str) -> str:
        """The tab's base URL, or `TabNotFound`."""
        base_url = self._base_urls.get(tab_id, self._otherwise)
        if base_url is None:
            raise TabNotFound(tab_id)
        return base_url
