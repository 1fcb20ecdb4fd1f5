"""The actions of the tests of typed calls, as a module that agents and hosts share."""

from dataclasses import dataclass
from datetime import timedelta

from taskyard import Action, RetryPolicy


@dataclass
class Page:
    """An input."""

    url: str
    size: int = 0


@dataclass
class Links:
    """An output."""

    found: list[str]
    total: int = 0


crawl = Action[Page, Links](
    "crawl",
    retry=RetryPolicy(max_attempts=1, first_delay=timedelta(milliseconds=5)),
    deadline=timedelta(minutes=5),
    target=lambda page: page.url.partition("/")[0] if "/" in page.url else None,
    labels={"kind": "crawl"},
)

count = Action[list[int], int]("count")
ping = Action[None, str]("ping")
