"""Fixtures of the tests of the configuration: an environment without settings, and a file to load."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from taskyard_server.settings.config import Settings
from taskyard_server.settings.config_sources import load
from tests.environment import settings_in


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings_in(os.environ):
        monkeypatch.delenv(name)


@pytest.fixture
def settings(tmp_path: Path) -> Callable[..., Settings]:
    """Loads a file with this content and name, and flags. Returns the settings in force."""

    def load_file(content: str | bytes, name: str = "taskyard.json", **flags: Any) -> Settings:
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load(file, flags).settings

    return load_file
