"""The calls under way, by the credential that let them in. Those whose credential no longer holds are ended.

Streams and long waits could otherwise outlive a token for ever (docs/security.md, Streams).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from taskyard_server.access.authentication import Authentication, Credentials
from taskyard_server.access.grants import Principal
from taskyard_server.core.errors import Unauthenticated

ENDED = "the credential of this call was revoked, has expired, or has other grants now"


class _OpenCall(NamedTuple):
    credentials: Credentials
    principal: Principal


class OpenCalls:
    """The calls under way, each by the task that serves it."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._open: dict[asyncio.Task[object], _OpenCall] = {}
        self._ended: set[asyncio.Task[object]] = set()

    def enter(self, credentials: Credentials, principal: Principal) -> asyncio.Task[object]:
        """Note that the current task serves a call. Returns the task, for `leave`."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = _OpenCall(credentials, principal)
        return task

    def leave(self, task: asyncio.Task[object]) -> None:
        """Note that a call is over."""
        self._open.pop(task, None)
        self._ended.discard(task)

    def was_ended(self, task: asyncio.Task[object]) -> bool:
        """Whether the cancellation of this task means that its credential no longer holds."""
        return task in self._ended

    def end_stale(self) -> int:
        """End the calls whose credential no longer lets them in as it did. Returns how many."""
        known: dict[Credentials, Principal | None] = {}
        stale = []
        for task, call in self._open.items():
            if call.credentials not in known:
                known[call.credentials] = self._find(call.credentials)
            if known[call.credentials] != call.principal and task not in self._ended:
                stale.append(task)
        for task in stale:
            self._ended.add(task)
            task.cancel()
        return len(stale)

    def _find(self, credentials: Credentials) -> Principal | None:
        try:
            return self._authentication.principal(credentials)
        except Unauthenticated:
            return None
