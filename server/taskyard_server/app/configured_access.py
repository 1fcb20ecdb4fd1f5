"""Who may call, by the settings: credentials, the tokens of the store, and the audit log that tells who did what."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from taskyard_server.access.token_directory import TokenDirectory
from taskyard_server.access.token_news import TokenNews
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.admission import CallAdmission
from taskyard_server.logs.audit import configured_audit_log
from taskyard_server.net.exposure import authentication_is_on
from taskyard_server.services.tokens import TokenService
from taskyard_server.settings.config import Settings
from taskyard_server.store.shared_port import is_shared


class ServerAccess:
    """The parts of a server that know callers; each is None where the settings ask for none.

    `tokens` are those of the store, `admission` lets calls in. Raises `AuditLogError`.
    """

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._persistence = persistence = engine.persistence
        self.audit = configured_audit_log(settings.audit)
        self.tokens = None if persistence is None else TokenDirectory(engine.now)
        auth = settings.auth if authentication_is_on(settings) else None
        self.admission = (
            None if auth is None and self.audit is None else CallAdmission(auth, self.tokens, audit=self.audit)
        )
        end_stale = None if auth is None or self.admission is None else self.admission.open_calls.end_stale
        if self.tokens is not None and end_stale is not None:
            self.tokens.on_ended = end_stale
        self._news = None
        if persistence is not None and self.tokens is not None and is_shared(persistence.store):
            self._news = TokenNews(self.tokens, persistence.store)
            if self.admission is not None:
                self.admission.look_for = self._news.look_for
        self.token_service = TokenService(self.tokens, end_stale, None if self._news is None else self._news.refresh)

    async def load(self) -> None:
        """Read the tokens of the store. Raises `StoreError`."""
        if self.tokens is not None and self._persistence is not None:
            await self.tokens.open(self._persistence)

    async def open(self) -> None:
        """Be ready to let calls in. Raises `AdmissionError`."""
        if self.admission is not None:
            await self.admission.open(self._persistence)

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """The work that goes on as long as the server serves."""
        return [part.run() for part in (self.admission, self.tokens, self._news) if part is not None]

    def reconfigure(self, settings: Settings) -> None:
        """Put new settings in force."""
        if self.admission is not None:
            self.admission.reconfigure(settings.auth)

    def note(self, event: str, **fields: Any) -> None:
        """Write what the owner of the process did to the audit log."""
        if self.audit is not None:
            self.audit.write({"event": event, "principal": "local", **fields})

    def let_go(self) -> None:
        """Hand the store what is not yet written, before it closes."""
        if self.tokens is not None:
            self.tokens.write_used()

    def close(self) -> None:
        """End the audit log."""
        if self.audit is not None:
            self.audit.close()
