"""A control plane for the run, a Chromium for each file, and a namespace and a page for each test.

A test fails where its page says an error, breaks its policy, or calls anybody but its own origin.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.console.browsing import Console, browser, chromium
from tests.console.yards import Plane, Yard, plane

NewPage = Callable[..., Console]

_numbers = count(1)


@pytest.fixture(scope="session")
def open_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Where everybody may do everything."""
    with plane(tmp_path_factory.mktemp("open")) as served:
        yield served


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    """No longer than its module: Playwright's loop would be in the way of tests with a loop of their own."""
    if chromium() is None:
        pytest.skip("needs Chromium: tools/debian_tools.sh chromium")
    with browser() as started:
        yield started


@pytest.fixture
def yard(open_plane: Plane) -> Iterator[Yard]:
    """A namespace that nobody has used."""
    name = f"yard-{next(_numbers)}"
    with open_plane.http(name) as client:
        yield Yard(open_plane, name, client)


@pytest.fixture
def new_page(chrome: Browser) -> Iterator[NewPage]:
    """Makes pages; options are those of a browser context."""
    made: list[Console] = []
    with ExitStack() as opened:

        def new(url: str, namespace: str, width: int = 1_280, height: int = 800, **options: Any) -> Console:
            given = {"locale": "en-GB", "timezone_id": "UTC", "reduced_motion": "reduce", **options}
            context = chrome.new_context(viewport={"width": width, "height": height}, **given)
            opened.callback(context.close)
            console = Console(context.new_page(), url, namespace)
            console.watch()
            made.append(console)
            return console

        yield new
    problems = [problem for console in made for problem in console.problems]
    assert not problems, "\n".join(problems)


@pytest.fixture
def console(new_page: NewPage, yard: Yard) -> Console:
    """A page in the namespace of the test."""
    return new_page(yard.plane.url, yard.namespace)
