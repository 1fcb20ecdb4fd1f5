"""The calls under way, by the credential that let them in. Those whose credential no longer holds are ended.

Streams and long waits could otherwise outlive a token for ever (docs/operate/security.md, Streams).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from taskyard_server.access.authentication import Authentication, Credentials
from taskyard_server.access.grants import Principal
from taskyard_server.core.errors import Unauthenticated

PORTION: Final = 50
END_AFTER_SECS: Final = 0.2
"""grpc cannot end a call whose task is cancelled while its first metadata are sent: its client would wait for ever."""
ENDED = "the credential of this call was revoked, has expired, or has other grants now"


class _OpenCall(NamedTuple):
    credentials: Credentials
    principal: Principal


class OpenCalls:
    """The calls under way, each by the task that serves it."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication
        self._open: dict[asyncio.Task[object], _OpenCall] = {}
        self._ending: dict[asyncio.Task[object], asyncio.TimerHandle] = {}
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
        if (ending := self._ending.pop(task, None)) is not None:
            ending.cancel()

    def was_ended(self, task: asyncio.Task[object]) -> bool:
        """True if the cancellation of this task means that its credential no longer holds."""
        return task in self._ended

    def end_stale(self, spared: asyncio.Task[Any] | None = None) -> int:
        """End the calls whose credential no longer lets them in as it did, but the `spared` one. Returns how many."""
        return self._end_stale_of([item for item in self._open.items() if item[0] is not spared], {})

    async def check(self) -> int:
        """The same in portions, between which others run: to verify a JWT anew takes some 0.2 ms."""
        known: dict[Credentials, Principal | None] = {}
        calls = list(self._open.items())
        ended = 0
        for begin in range(0, len(calls), PORTION):
            ended += self._end_stale_of(calls[begin : begin + PORTION], known)
            await asyncio.sleep(0)
        return ended

    def _end_stale_of(
        self, calls: list[tuple[asyncio.Task[object], _OpenCall]], known: dict[Credentials, Principal | None]
    ) -> int:
        """End those of `calls` that are stale. `known` are the principals that were found by now."""
        ended = 0
        for task, call in calls:
            if task not in self._open or task in self._ending or task in self._ended:
                continue
            if call.credentials not in known:
                known[call.credentials] = self._find(call.credentials)
            if known[call.credentials] != call.principal:
                self._ending[task] = asyncio.get_running_loop().call_later(END_AFTER_SECS, self._end, task)
                ended += 1
        return ended

    def _end(self, task: asyncio.Task[object]) -> None:
        del self._ending[task]
        self._ended.add(task)
        task.cancel()

    def _find(self, credentials: Credentials) -> Principal | None:
        try:
            return self._authentication.principal(credentials)
        except Unauthenticated:
            return None
