"""The settings in force while the server runs: re-read from their file on SIGHUP, on call, and every so often.

A broken file is logged and changes nothing (scheduler-reference, ConfigWatcher).
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog

from .config import ConfigError, Loaded, Settings, by_key, load

log = structlog.get_logger(__name__)

RELOADABLE: Final = frozenset(
    f"scheduler.{key}"
    for key in (
        "maxQueueSize",
        "maxPerAgent",
        "maxInflight",
        "maxPerAgentInflight",
        "resultTTLSec",
        "maxRetainedTasks",
        "defaultDeadlineSec",
        "leaseSecs",
        "maxDeliveries",
        "heartbeatTimeoutSecs",
        "watcherIntervalSec",
    )
)


@dataclass(frozen=True, slots=True)
class Reload:
    """What a reload did: dotted keys that changed, and those that hold only after a restart."""

    changed: list[str]
    needs_restart: list[str]


class LiveConfig:
    """Holds the settings; `apply` puts new ones in force."""

    def __init__(self, file: Path | None, flags: dict[str, Any]) -> None:
        self.file = file
        self._flags = flags
        self._loaded: Loaded = load(file, flags)
        self._at_start = self._loaded.settings
        self._last_content = self._content()
        self.apply: Callable[[Settings], None] = lambda _: None
        self.loaded_at = time.time() if file else None
        self.error: str | None = None

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._loaded.settings

    @property
    def sources(self) -> dict[str, str]:
        """What set each dotted key that is not at its default."""
        return self._loaded.sources

    def reload(self) -> Reload:
        """Read the file again; raises `ConfigError` and changes nothing if it is wrong."""
        self._last_content = self._content()
        before = by_key(self.settings)
        try:
            loaded = load(self.file, self._flags, self.settings)
        except ConfigError as error:
            self.error = str(error)
            log.error("config_reload_failed", error=str(error))
            raise
        self.error = None
        self.loaded_at = time.time()
        self._loaded = loaded
        after, at_start = by_key(loaded.settings), by_key(self._at_start)
        changed = {
            key: (before[key], value) for key, value in after.items() if key in RELOADABLE and before[key] != value
        }
        needs_restart = sorted(key for key, value in after.items() if key not in RELOADABLE and at_start[key] != value)
        self.apply(loaded.settings)
        if changed or needs_restart:
            log.info(
                "config_reloaded",
                changed={key: {"old": old, "new": new} for key, (old, new) in changed.items()},
                needs_restart=needs_restart,
            )
        return Reload(sorted(changed), needs_restart)

    async def watch(self) -> None:
        """Reload whenever the file has changed, looking every `watcherIntervalSec`."""
        while True:
            await asyncio.sleep(self.settings.scheduler.watcher_interval_sec)
            self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Reload unless the file is as it was; a broken one is logged once."""
        if self._content() != self._last_content:
            self.try_reload()

    def try_reload(self) -> None:
        """Reload; a broken file is logged, and that is all."""
        with contextlib.suppress(ConfigError):
            self.reload()

    def _content(self) -> bytes | None:
        try:
            return self.file.read_bytes() if self.file else None
        except OSError:
            return None
