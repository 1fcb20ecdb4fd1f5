"""For all tests: the form of the core that they import, the store of their servers, and how a run in CI differs."""

import gc
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from tests import environment, tiers, warm_starts
from tools import compile_server

pytest_plugins = ["tests.postgres", "tests.versions"]

for name in ("COLUMNS", "LINES"):
    # What a command prints is not to depend on the terminal of this run. Workers inherit both from readline.
    os.environ.pop(name, None)
for name in ("ADDRESS", "NAMESPACE", "TOKEN", "TOKEN_FILE", "CA", "CERT", "KEY", "PROFILE"):
    # Nor is any client to have the credentials of the person who runs it.
    os.environ.pop(f"TASKYARD_{name}", None)
os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / "no-configuration-of-a-user")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """`--core` is the form that is imported here; a server that a test starts takes the compiled one if it is there.

    `--store` is what engines and servers keep their tasks in, but for those of tests about a store.
    """
    words = "the tests of this tier alone; all without it (docs/develop/testing.md, Tiers)"
    parser.addoption("--tier", choices=tiers.TIERS, action="append", help=words)
    words = "nothing that survives, a dict for each engine, or a file of SQLite for each"
    parser.addoption("--store", choices=environment.STORES, default=environment.STORES[0], help=words)
    words = "the core as it is written, or compiled (`make compile`)"
    parser.addoption("--core", choices=["python", "compiled"], default="python", help=words)
    if compile_server.compiled() and not compile_server.is_fresh():
        raise pytest.UsageError("what is compiled is not what its source says: type `make compile`")
    # The option is read ahead of its time: the next conftest may import the core.
    given = pluginmanager.getplugin("pytestconfig").invocation_params.args
    form = parser.parse_known_args([*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *given]).core
    if form == "python":
        for folder in map(str, compile_server.folders()):
            sys.path_importer_cache[folder] = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
    elif not compile_server.is_fresh():
        raise pytest.UsageError("nothing is compiled: type `make compile`")


def pytest_configure(config: pytest.Config) -> None:
    subprocess.Popen = warm_starts.WarmPopen  # type: ignore[misc]
    environment.keep_in(config.option.store)
    # Whoever runs the tests in the background lets them ignore Ctrl-C, and all that they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Whoever works on a file of this run was to end with its test."""
    if left := environment.remove_stores():
        raise RuntimeError(f"the tests have left behind: {left}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Any:
    """What is collected stays until the run ends: no collection of garbage is to look at it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What is of another tier as a whole is not imported."""
    wanted = config.option.tier
    return True if wanted and collection_path.is_file() and tiers.is_elsewhere(collection_path, wanted) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that are about the source of the core have nothing to say of the compiled form, and so on."""
    if config.option.core == "compiled":
        _deselect(config, items, "python_core")
    if environment.is_kept():
        _deselect(config, items, "memory_store")
    if config.option.tier:
        tiers.keep(config, items, config.option.tier)
    if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        long = [item for item in items if item.get_closest_marker("long")]
        rest = [item for item in items if not item.get_closest_marker("long")]
        items[:] = tiers.in_shares(long, rest, workers)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Who runs the first tier alone is told what it leaves out."""
    if config.option.tier == ["test"]:
        terminalreporter.write_line(tiers.LEFT_OUT)


def _deselect(config: pytest.Config, items: list[pytest.Item], marker: str) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(marker)])
    items[:] = [item for item in items if not item.get_closest_marker(marker)]


@pytest.fixture(autouse=True, scope="session")
def _never_busy() -> None:
    """How a test ends is not to depend on how busy its process is."""
    from taskyard_server.engine import pace

    pace.BUSY_SHARE = pace.HALF_SHARE = float("inf")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Any:
    """A skipped test fails in CI, which has everything that tests need."""
    return _failed_in_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Any:
    """So does a file that is skipped as a whole."""
    return _failed_in_ci((yield))


def _failed_in_ci(report: Any) -> Any:
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.nodeid}: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Any:
    """Tests log text that is not UTF-8, which a worker of a parallel run could not send with its report."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_encodable, value))
    return value
