"""The wheels of an upgrade: that of a release, as tools/releases.py brings it, and that of this tree."""

import sys
import sysconfig
from pathlib import Path

import pytest

from tools import compile_server
from tools.releases import NO_COMPILER, ROOT, Installed, MissingRelease, bring, build, install, last_release


@pytest.fixture
def release() -> Installed:
    """The last release."""
    return released()


def released(version: str | None = None) -> Installed:
    """A release, by default the last one. Skips the test where the history does not have it."""
    try:
        return bring(version or last_release())
    except MissingRelease as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def present(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this tree, compiled if the tree is. What it needs it has from the environment of the tests."""
    folder = tmp_path_factory.mktemp("present")
    installed = Installed(ROOT, folder / "environment")
    install(installed, "--no-deps", build(ROOT, folder, {} if compile_server.is_fresh() else NO_COMPILER))
    needed, own = (Path(path) / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
                   for path in (sys.prefix, installed.environment))  # fmt: skip
    (own / "needed.pth").write_text(str(needed))
    return installed
