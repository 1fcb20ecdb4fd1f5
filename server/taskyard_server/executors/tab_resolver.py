"""Maps a tab to the endpoint of the instance that owns it (docs/rules.md, Tab executor)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class TabNotFound(Exception):
    """No instance is known for the tab."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The base URL of an instance, the bearer token that it requires, if any, and whether it is `executor`."""

    base_url: str
    token: str | None = field(default=None, repr=False)
    is_executor: bool = False


class TabResolver(Protocol):
    """Finds the instance of a tab."""

    async def resolve(self, tab_id: str) -> Endpoint:
        """The endpoint of the tab's instance; raises `TabNotFound`."""


class TabMap:
    """A map of tabs to endpoints. All other tabs are at `default`, if that is given; it may be replaced."""

    def __init__(self, endpoints: Mapping[str, Endpoint], default: Endpoint | None = None) -> None:
        self._endpoints = dict(endpoints)
        self.default = default

    async def resolve(self, tab_id: str) -> Endpoint:
        """The tab's endpoint; raises `TabNotFound`."""
        endpoint = self._endpoints.get(tab_id, self.default)
        if endpoint is None:
            raise TabNotFound(tab_id)
        return endpoint
