"""What the tests of the live configuration share: a file to write to, and a look at what was applied and logged."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import LogCapture

from taskyard_server import live_config
from taskyard_server.config import Settings
from taskyard_server.live_config import LiveConfig
from tests.environment import settings_in


class Bench:
    """A live configuration of a JSON file, and the settings that it applied."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.applied: list[Settings] = []
        self.live: LiveConfig

    def start(self, content: Any = None, **flags: Any) -> LiveConfig:
        """Load the file, with this content, as the server does at its start."""
        self.write({} if content is None else content)
        self.live = LiveConfig(self.file, flags)
        self.live.apply = self.applied.append
        return self.live

    def write(self, content: Any) -> None:
        """Replace the file, with JSON unless it is text or bytes."""
        data = content if isinstance(content, (bytes, str)) else json.dumps(content)
        self.file.write_bytes(data if isinstance(data, bytes) else data.encode())

    def write_scheduler(self, **keys: Any) -> None:
        """Replace the file by these keys of the scheduler, spelled as in the file."""
        self.write({"scheduler": keys})


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings_in(os.environ):
        monkeypatch.delenv(name)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A `Bench` that has not started yet."""
    return Bench(tmp_path / "taskyard.json")


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the live configuration logs, whatever other tests do to the configuration of logs."""
    capture = LogCapture()
    log = structlog.wrap_logger(None, processors=[capture], wrapper_class=structlog.make_filtering_bound_logger(0))
    monkeypatch.setattr(live_config, "log", log)
    return capture.entries


@pytest.fixture
def events(logged: list[Any]) -> Callable[[], list[str]]:
    """The names of the lines that were logged."""
    return lambda: [line["event"] for line in logged]
