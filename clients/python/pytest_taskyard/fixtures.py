"""The fixtures. `yard` is set up by the plugin that runs the async test, in the event loop of that test."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from taskyard.testing import SyncYard, Yard

MARKER = (
    "yard(start=None, store=False, settings=None): how the yard of this test is made: the time at which it begins, "
    "whether it keeps its tasks over `restart`, and settings of its server"
)
OPTIONS = frozenset({"start", "store", "settings"})


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and the yard to the plugin that runs async tests."""
    config.addinivalue_line("markers", MARKER)
    if _has_asyncio(config):
        from . import by_asyncio

        config.pluginmanager.register(by_asyncio, "taskyard-by-asyncio")


@pytest.fixture
def yard_options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of the yard: those of the marker `yard`. Override it for a module or a whole project."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("yard"))):
        if marker.args or not OPTIONS.issuperset(marker.kwargs):
            raise pytest.UsageError(f"pytest.mark.yard takes {', '.join(sorted(OPTIONS))} as keywords")
        options.update(marker.kwargs)
    return options


@pytest.fixture
def yard(request: pytest.FixtureRequest) -> Any:
    """A `taskyard.testing.Yard` for an async test, run by pytest-asyncio or anyio."""
    if not inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        raise pytest.UsageError("yard: is for async tests; a plain function takes sync_yard")
    if "anyio_backend" in request.fixturenames:
        backend = request.getfixturevalue("anyio_backend")
        if (backend if isinstance(backend, str) else backend[0]) != "asyncio":
            raise pytest.UsageError("yard: gRPC needs asyncio: let the fixture anyio_backend return 'asyncio'")
        return request.getfixturevalue("taskyard_by_anyio")
    if not _has_asyncio(request.config):
        raise pytest.UsageError("yard: needs pytest-asyncio, or anyio and its marker, to run the test")
    return request.getfixturevalue(f"taskyard_in_{_loop_scope(request)}_loop")


@pytest.fixture
async def taskyard_by_anyio(taskyard_environment: Mapping[str, Any]) -> AsyncIterator[Yard]:
    """The yard of a test that anyio runs."""
    async for made in opened(taskyard_environment):
        yield made


@pytest.fixture
def sync_yard(request: pytest.FixtureRequest, taskyard_environment: Mapping[str, Any]) -> Iterator[SyncYard]:
    """A `taskyard.testing.SyncYard` for a plain function."""
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        raise pytest.UsageError("sync_yard: is for plain functions; an async test takes yard")
    from taskyard.testing import SyncYard

    with SyncYard(**taskyard_environment["options"]) as made:
        taskyard_environment["lead_to"](made.address)
        yield made


@pytest.fixture
def taskyard_environment(yard_options: Mapping[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The options of a yard, and what leads the clients and hosts of the program to it: `Client()` finds it."""
    with pytest.MonkeyPatch.context() as patch:

        def lead_to(address: str) -> None:
            for name in ("TOKEN", "TOKEN_FILE", "CA", "CERT", "KEY", "PROFILE"):
                patch.delenv(f"TASKYARD_{name}", raising=False)
            patch.setenv("TASKYARD_ADDRESS", address)
            patch.setenv("TASKYARD_NAMESPACE", "default")

        options = dict(yard_options)
        store: bool | str | Path = options.pop("store", False)
        if store is True:
            store = tmp_path_factory.mktemp("yard") / "yard.db"
        if options.get("start", True) is None:
            del options["start"]
        yield {"options": {**options, "store": store or None}, "lead_to": lead_to}


async def opened(environment: Mapping[str, Any]) -> AsyncIterator[Yard]:
    """A yard in the event loop that runs here, until the test is over."""
    from taskyard.testing import Yard

    async with Yard(**environment["options"]) as made:
        environment["lead_to"](made.address)
        yield made


def _has_asyncio(config: pytest.Config) -> bool:
    """True if pytest-asyncio is there, by its entry point or by `-p`."""
    names = ("asyncio", "pytest_asyncio", "pytest_asyncio.plugin")
    return any(config.pluginmanager.hasplugin(name) for name in names)


def _loop_scope(request: pytest.FixtureRequest) -> str:
    """Whose event loop pytest-asyncio runs the test in."""
    marker = request.node.get_closest_marker("asyncio")
    given = {} if marker is None else marker.kwargs
    default = request.config.getini("asyncio_default_test_loop_scope")
    return str(given.get("loop_scope") or given.get("scope") or default or "function")
