"""A control plane and a Chromium for each worker, and a namespace and a page for each test.

A test fails where its page says an error, breaks its policy, or calls anybody but its own origin.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from tests.console.browsing import Console, chromium
from tests.console.tabs import Tabs, tabs
from tests.console.yards import Plane, Yard, plane

NewPage = Callable[..., Console]

_numbers = count(1)


@pytest.fixture(scope="session")
def open_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    """Where everybody may do everything."""
    with plane(tmp_path_factory.mktemp("open")) as served:
        yield served


@pytest.fixture(scope="session")
def worker_tabs() -> Iterator[Tabs]:
    """The Chromium of this worker, for as long as it lives."""
    if chromium() is None:
        pytest.skip("needs Chromium: tools/debian_tools.sh chromium")
    with tabs() as opened:
        yield opened


@pytest.fixture
def chrome(worker_tabs: Tabs) -> Iterator[Tabs]:
    """No longer than its test: Playwright's loop would be in the way of tests with a loop of their own."""
    with worker_tabs.in_use():
        yield worker_tabs


@pytest.fixture
def yard(open_plane: Plane) -> Iterator[Yard]:
    """A namespace that nobody has used."""
    name = f"yard-{next(_numbers)}"
    with open_plane.http(name) as client:
        yield Yard(open_plane, name, client)


@pytest.fixture
def new_page(chrome: Tabs) -> Iterator[NewPage]:
    """Makes pages; one with options of a browser context, be they none, has a context of its own."""
    made: list[Console] = []
    with ExitStack() as opened:

        def new(url: str, namespace: str, apart: dict[str, Any] | None = None) -> Console:
            if apart is None:
                page = chrome.open()
                opened.callback(chrome.tidy, url)
            else:
                page = chrome.open_apart(**apart)
                opened.callback(page.context.close)
            console = Console(page, url, namespace)
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
