"""Lets a call in: who it is, whether that one may call this method, and until when (docs/security.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from taskyard_server.access.authentication import AdminToken, Authentication, BearerSource
from taskyard_server.access.failures import Failures
from taskyard_server.access.grants import EVERYTHING, Access, Requirement
from taskyard_server.access.judging import check_names, judge
from taskyard_server.access.requirements import requirement_of
from taskyard_server.core.errors import Refusal, Unauthenticated
from taskyard_server.security_settings import AuthSettings

from .callers import Context, Headers, address_of, credentials_of
from .open_calls import ENDED, OpenCalls

if TYPE_CHECKING:
    from taskyard_server.access.sealing import Sealing

CHECK_SECS: Final = 20.0
"""How often the credentials of open calls are looked at again."""


class Entry(NamedTuple):
    """A call that was let in."""

    access: Access
    task: asyncio.Task[object] | None = None


class Admission:
    """Admits calls where authentication is on. One for all interceptors of a server.

    `tokens` knows those that are kept in the store. `sealing` seals what must tell callers nothing; what another one
    sealed is not taken.
    """

    def __init__(
        self,
        settings: AuthSettings,
        tokens: BearerSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        sealing: Sealing | None = None,
    ) -> None:
        # What makes ciphers takes a while to import, and is not needed where authentication is off.
        from taskyard_server.access.sealing import Sealing

        self.failures = Failures(clock)
        self.sealing = sealing or Sealing()
        self._tokens = tokens
        self._authentication = Authentication()
        self.open_calls = OpenCalls(self._authentication)
        self.reconfigure(settings)

    def reconfigure(self, settings: AuthSettings) -> None:
        """Take other settings. Calls whose credential no longer holds by them are ended."""
        bearers: list[BearerSource] = []
        if settings.admin_token is not None:
            bearers.append(AdminToken(settings.admin_token.get_secret_value()))
        if self._tokens is not None:
            bearers.append(self._tokens)
        self._authentication.replace(bearers)
        self.open_calls.end_stale()

    def gate(self, method: str) -> Gate:
        """The gate of a method. Raises `NoRequirement`."""
        return Gate(self, requirement_of(method))

    async def run(self) -> None:
        """End the calls whose credential no longer holds, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECS)
            self.open_calls.end_stale()

    def enter(self, requirement: Requirement, headers: Headers, context: Context) -> Entry:
        """Let a call in. Raises `Unauthenticated` or `PermissionDenied`."""
        if requirement.anyone:
            return Entry(EVERYTHING)
        credentials = credentials_of(headers, context)
        principal = self._authentication.principal(credentials)
        access = judge(principal, requirement, headers.namespace)
        return Entry(access, self.open_calls.enter(credentials, principal))


class Gate:
    """What stands before one method."""

    def __init__(self, admission: Admission, requirement: Requirement) -> None:
        self._admission = admission
        self.requirement = requirement

    @property
    def seal(self) -> Sealing:
        """Seals what must tell callers nothing."""
        return self._admission.sealing

    def enter(self, headers: Headers, context: Context) -> Entry:
        """Let a call in. Raises `Unauthenticated` or `PermissionDenied`."""
        return self._admission.enter(self.requirement, headers, context)

    def check(self, access: Access, request: Any) -> None:
        """Refuse a request in another name than the caller's: `PermissionDenied`."""
        check_names(access, self.requirement, request)

    def leave(self, entry: Entry) -> None:
        """Note that a call is over."""
        if entry.task is not None:
            self._admission.open_calls.leave(entry.task)

    def end_of(self, entry: Entry | None) -> Refusal | None:
        """Why the call was cancelled by the server, if it was."""
        if entry is None or entry.task is None or not self._admission.open_calls.was_ended(entry.task):
            return None
        entry.task.uncancel()
        return Unauthenticated(ENDED)

    async def delay(self, headers: Headers, context: Context) -> None:
        """Count a wrong credential, and delay its answer."""
        await self._admission.failures.delay(address_of(headers, context))
