"""The tab executor that settings describe."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import HttpUrl, SecretStr

from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from taskyard_server.settings.config import Settings
from taskyard_server.settings.setting_types import secret

from .tab_resolver import Endpoint, TabMap
from .tls_files import TlsFiles


class ConfiguredExecutor:
    """A tab executor that takes another `executorToken` while it runs."""

    def __init__(self, engine: Engine, settings: Settings, handed: Callable[[Task], Task] | None = None) -> None:
        """Raises `TlsFilesError`."""
        # Here, so that a server without it starts without an HTTP client.
        from .connections import Connections
        from .tab_executor import TabExecutor

        tabs = {tab_id: _endpoint(tab.url, tab.token) for tab_id, tab in settings.tabs.items()}
        self._resolver = TabMap(tabs)
        self.take(settings)
        workers = settings.scheduler.worker_count
        files = TlsFiles(settings.executor_ca, settings.executor_cert, settings.executor_key)
        self._executor = TabExecutor(
            engine,
            self._resolver,
            workers=workers,
            max_answer_bytes=settings.scheduler.max_payload_bytes,
            connections=Connections(workers, None if files == TlsFiles() else files),
            handed=handed,
            plain_actions=settings.executor_tab_actions,
            handoff_retry_secs=settings.executor_handoff_retry_secs,
            handoff_max_retry_secs=settings.executor_handoff_max_retry_secs,
        )

    def take(self, settings: Settings) -> None:
        """Send the token of these settings with later requests."""
        if settings.executor is not None:
            self._resolver.default = _endpoint(settings.executor, settings.executor_token, is_executor=True)

    async def run(self) -> None:
        """Execute tasks until cancelled."""
        await self._executor.run()


def configured_executor(
    engine: Engine, settings: Settings, handed: Callable[[Task], Task] | None = None
) -> ConfiguredExecutor | None:
    """The executor, if the settings name any instance; it forwards what `handed` makes of a task.

    Raises `TlsFilesError`.
    """
    if settings.executor is None and not settings.tabs:
        return None
    return ConfiguredExecutor(engine, settings, handed)


def _endpoint(url: HttpUrl, token: SecretStr | None, *, is_executor: bool = False) -> Endpoint:
    return Endpoint(str(url), secret(token), is_executor)
