"""The settings in force while the server runs, reloaded on SIGHUP, by call, and when the file has changed.

A broken file is logged and changes nothing (docs/rules.md, Reload).
"""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import structlog
from pydantic import SecretStr
from pydantic.alias_generators import to_camel

from .config import ConfigError, DaemonSettings, SchedulerSettings, Settings, by_key
from .config_sources import Loaded, load
from .setting_types import Section

log = structlog.get_logger(__name__)

AUTH: Final = frozenset(f"auth.{key}" for key in ("adminToken", "jwt", "certificates", "limits"))
"""They reload where authentication is on; it is switched on by a restart alone."""
SECRETS: Final = frozenset({"webhooks.secret", "executorToken", "metricsToken"})
"""One that is set reloads to another one; to set the first one, or none, takes a restart."""
RELOADABLE: Final = (
    frozenset(f"daemon.{to_camel(key)}" for key in DaemonSettings.model_fields)
    | frozenset(
        f"scheduler.{key}"
        for key in (
            "maxQueueSize",
            "maxPerAgent",
            "maxInflight",
            "maxPerAgentInflight",
            "resultTTLSec",
            "maxRetainedTasks",
            "maxOutputBytes",
            "maxNamespaceOutputBytes",
            "maxArtifactBytes",
            "maxNamespaceArtifactBytes",
            "defaultDeadlineSec",
            "leaseSecs",
            "maxDeliveries",
            "heartbeatTimeoutSecs",
            "reconnectGraceSecs",
            "startTimeoutSecs",
            "forgetHostsSecs",
            "maxAgentFigures",
            "maxBlockedTargets",
            "targets",
            "idempotencySecs",
            "retryPolicies",
            "limits",
            "agents",
            "pools",
            "noHostNoticeSecs",
            "watcherIntervalSec",
        )
    )
    | AUTH
    | SECRETS
)


@dataclass(frozen=True, slots=True)
class Reload:
    """The dotted keys that a reload changed, and those that differ in the file but need a restart."""

    changed: list[str]
    needs_restart: list[str]


class LiveConfig:
    """Holds the settings. `apply` is called with new ones, `reloaded` with what a reload did, None if it failed.

    They are those of the file, the environment and the flags, or those that are given as `loaded` already.
    """

    def __init__(self, file: Path | None, flags: dict[str, Any], loaded: Loaded | None = None) -> None:
        self.file = file
        self._flags = flags
        self._loaded = load(file, flags) if loaded is None else loaded
        # By a restart alone it changes: also where a reload takes the last thing away that switched it on.
        self._has_authentication = self.settings.auth.is_on(self.settings.tls)
        self._last_content = self._content()
        self.apply: Callable[[Settings], None] = lambda _: None
        self.reloaded: Callable[[Reload | None], None] = lambda _: None
        self.loaded_at = time.time() if file else None
        self.error: str | None = None

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._loaded.settings

    @property
    def sources(self) -> dict[str, str]:
        """The source of each dotted key that is set: `file`, `environment` or `flag`."""
        return self._loaded.sources

    def reload(self) -> Reload:
        """Read the file again. Raises `ConfigError` for a broken file, and changes nothing."""
        self._last_content = self._content()
        try:
            loaded = load(self.file, self._flags, self.settings)
        except ConfigError as error:
            self.error = str(error)
            log.error("config_reload_failed", error=str(error))
            self.reloaded(None)
            raise
        self.error = None
        self.loaded_at = time.time() if self.file else None
        before, wanted = by_key(self.settings, mode="python"), by_key(loaded.settings, mode="python")
        # Without secrets, for the log.
        old, new = by_key(self.settings), by_key(loaded.settings)
        reloadable = self._reloadable(before, wanted)
        changed = sorted(key for key in reloadable if before[key] != wanted[key])
        needs_restart = sorted(key for key in wanted if key not in reloadable and before[key] != wanted[key])
        self._put_in_force(loaded, reloadable)
        if changed or needs_restart:
            values = {key: {"old": old[key], "new": new[key]} for key in changed}
            log.info("config_reloaded", changed=values, needs_restart=needs_restart)
        reload = Reload(changed, needs_restart)
        self.reloaded(reload)
        return reload

    def _reloadable(self, before: dict[str, Any], wanted: dict[str, Any]) -> frozenset[str]:
        """The keys that this reload may change."""
        fixed = {key for key in SECRETS if before[key] is None or wanted[key] is None}
        return RELOADABLE - fixed - (frozenset() if self._has_authentication else AUTH)

    def _put_in_force(self, loaded: Loaded, reloadable: frozenset[str]) -> None:
        """Apply the keys that can change while the server runs. All others keep their value of the start."""
        current, wanted = self.settings.scheduler, loaded.settings.scheduler
        fixed = {
            name: getattr(current, name)
            for name, info in SchedulerSettings.model_fields.items()
            if f"scheduler.{info.serialization_alias or to_camel(name)}" not in RELOADABLE
        }
        found = loaded.settings
        sections: dict[str, Section | SecretStr | None] = {
            "scheduler": wanted.model_copy(update=fixed),
            "daemon": found.daemon,
        }
        if self._has_authentication:
            sections["auth"] = found.auth.model_copy(update={"required": self.settings.auth.required})
        if "webhooks.secret" in reloadable:
            sections["webhooks"] = self.settings.webhooks.model_copy(update={"secret": found.webhooks.secret})
        if "executorToken" in reloadable:
            sections["executor_token"] = found.executor_token
        if "metricsToken" in reloadable:
            sections["metrics_token"] = found.metrics_token
        settings = self.settings.model_copy(update=sections)
        taken = {key: source for key, source in loaded.sources.items() if key in reloadable}
        self._loaded = Loaded(settings, {**self.sources, **taken})
        self.apply(settings)

    async def watch(self) -> None:
        """Check every `watcherIntervalSec` whether the file has changed, and reload it then."""
        while True:
            await asyncio.sleep(self.settings.scheduler.watcher_interval_sec)
            self.reload_if_changed()

    def reload_if_changed(self) -> None:
        """Reload if the file has changed since it was last read. A broken file is logged once."""
        if self._content() != self._last_content:
            self.try_reload()

    def try_reload(self) -> None:
        """Reload. A broken file is only logged."""
        with contextlib.suppress(ConfigError):
            self.reload()

    def _content(self) -> bytes | None:
        try:
            return self.file.read_bytes() if self.file else None
        except OSError:
            return None
