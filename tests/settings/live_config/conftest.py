"""Fixtures of the tests of the live configuration: a file to write, and what was applied and logged."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from taskyard_server.settings import live_config
from taskyard_server.settings.config import Settings
from taskyard_server.settings.live_config import LiveConfig
from tests.environment import settings_in


class ConfigFile:
    """A JSON file, its live configuration, and the settings that this applied."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.applied: list[Settings] = []
        self.live: LiveConfig

    def start(self, content: Any = None, **flags: Any) -> LiveConfig:
        """Write this content and load it, as the server does at its start."""
        self.write({} if content is None else content)
        self.applied.clear()
        self.live = LiveConfig(self.file, flags)
        self.live.apply = self.applied.append
        return self.live

    def write(self, content: Any) -> None:
        """Replace the content of the file: text and bytes as they are, anything else as JSON."""
        data = content if isinstance(content, (bytes, str)) else json.dumps(content)
        self.file.write_bytes(data if isinstance(data, bytes) else data.encode())

    def write_scheduler(self, **keys: Any) -> None:
        """Replace the content of the file by these keys of the scheduler."""
        self.write({"scheduler": keys})


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings_in(os.environ):
        monkeypatch.delenv(name)


@pytest.fixture
def config_file(tmp_path: Path) -> ConfigFile:
    """A `ConfigFile` that has not started yet."""
    return ConfigFile(tmp_path / "taskyard.json")


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The lines that the live configuration logs, independent of the logging that other tests configure."""
    capture = LogCapture()
    log = structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0))
    monkeypatch.setattr(live_config, "log", log)
    return capture.entries


@pytest.fixture
def events(logged: list[Any]) -> Callable[[], list[str]]:
    """The event names of the logged lines."""
    return lambda: [line["event"] for line in logged]
