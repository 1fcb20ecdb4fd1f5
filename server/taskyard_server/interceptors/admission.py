"""Lets a call in: who it is, whether that one may call this method, and until when (docs/operate/security.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from taskyard_server.access.authentication import AdminToken, Authentication, BearerSource, Credentials, bearer_in
from taskyard_server.access.authorization import check_names, judge, named_namespace, unjudged
from taskyard_server.access.certificates import ClientCertificates
from taskyard_server.access.failures import Failures
from taskyard_server.access.grants import EVERYTHING, Access, CallRequirement, Principal
from taskyard_server.access.limits import CallBucket, RequestLimits
from taskyard_server.access.requirements import is_stream, requirement_of
from taskyard_server.core.errors import PermissionDenied, Refusal, Unauthenticated, Unavailable
from taskyard_server.logs.audit import AuditLog
from taskyard_server.settings.security import AuthSettings
from taskyard_server.store.port import StoreError

from .auditing import Auditor
from .callers import Context, Headers, address_of, authorization_in, credentials_of
from .open_calls import ENDED, OpenCalls

if TYPE_CHECKING:
    from taskyard_server.access.jwt import Jwts
    from taskyard_server.access.token_encryption import TokenEncryption
    from taskyard_server.engine.persistence import Persistence

CHECK_SECS: Final = 20.0
"""How often the credentials of open calls are looked at again, and counted refusals are written down."""
KEYS_SECS: Final = 1.0
"""How often it is looked whether the keys of an issuer of JWTs are due."""


class AdmissionError(Exception):
    """Nobody can be admitted as the settings say; the text is one line for the operator."""


class Entry(NamedTuple):
    """A call that was let in. `stream_of` is set where it counts as an open stream, whose messages keep to `pace`."""

    access: Access
    task: asyncio.Task[object] | None = None
    stream_of: Principal | None = None
    pace: CallBucket | None = None


ADMITTED: Final = Entry(EVERYTHING)


class CallAdmission:
    """Admits calls. One for all interceptors of a server; without `settings` everybody is the local admin.

    `tokens` knows those that are kept in the store. Changes are written to `audit`; `door` is what callers come by
    where that is neither REST nor gRPC. `clock` is in seconds.
    """

    def __init__(
        self,
        settings: AuthSettings | None,
        tokens: BearerSource | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        audit: AuditLog | None = None,
        door: str | None = None,
    ) -> None:
        self.audit = audit
        self.failures = Failures(clock, None if audit is None else self._note_failure)
        self.limits = RequestLimits({})
        self.look_for: Callable[[str], Awaitable[bool]] | None = None
        """Looks whether a token that is unknown is one by now, where other servers make tokens too."""
        self.denied = 0
        """Calls whose principal may not make them."""
        self._clock = clock
        self._door = door
        self._tokens = tokens
        self.jwts: Jwts | None = None
        """The issuers of JWTs, once there have been any."""
        self._gates: dict[str, Gate] = {}
        self._is_on = settings is not None
        self.sealing = None if settings is None else _sealing(None)
        self._authentication = Authentication()
        self.open_calls = OpenCalls(self._authentication)
        if settings is not None:
            self.reconfigure(settings)

    def reconfigure(self, settings: AuthSettings) -> None:
        """Take other settings. Calls whose credential no longer holds by them are ended."""
        if not self._is_on:
            return
        bearers: list[BearerSource] = []
        if settings.admin_token is not None:
            bearers.append(AdminToken(settings.admin_token.get_secret_value()))
        if self._tokens is not None:
            bearers.append(self._tokens)
        if settings.jwt or self.jwts is not None:
            bearers.append(self._issuers(settings))
        self._authentication.replace(bearers, ClientCertificates(settings.certificates))
        self.limits.reconfigure(settings.limits)
        self.open_calls.end_stale()

    async def open(self, persistence: Persistence | None = None) -> None:
        """Read the keys of issuers of JWTs, and the secret of a store, if there is one. Raises `AdmissionError`."""
        if persistence is not None and self.sealing is not None:
            from taskyard_server.engine.kept_secret import SEALING, kept_secret

            try:
                self.sealing = _sealing(await kept_secret(persistence, SEALING))
            except (StoreError, Unavailable) as error:
                raise AdmissionError(str(error)) from None
        if self.jwts is None:
            return
        from taskyard_server.access.key_sets import KeySetError

        try:
            await self.jwts.open()
        except KeySetError as error:
            raise AdmissionError(str(error)) from None

    def gate(self, method: str) -> Gate:
        """The gate of a method, made once. Raises `NoRequirement`."""
        gate = self._gates.get(method)
        if gate is None:
            requirement = requirement_of(method)
            auditor = None
            if self.audit is not None and requirement.changes and not requirement.anyone:
                auditor = Auditor(self.audit, method, self._door)
            gate = Gate(self, requirement, is_stream=is_stream(method), auditor=auditor)
            self._gates[method] = gate
        return gate

    async def run(self) -> None:
        """Refresh the keys of issuers, and end the calls whose credential no longer holds, until cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._end_stale())
            parts.create_task(self._refresh_keys())

    async def _end_stale(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECS)
            await self.open_calls.check()
            if self.audit is not None:
                self.audit.flush()

    async def _refresh_keys(self) -> None:
        while True:
            await asyncio.sleep(KEYS_SECS)
            if self.jwts is not None:
                await self.jwts.refresh()

    def _issuers(self, settings: AuthSettings) -> Jwts:
        """The issuers of JWTs, by these settings from now on."""
        if self.jwts is None:
            # It loads much that is of no use without issuers.
            from taskyard_server.access.jwt import Jwts

            self.jwts = Jwts()
        self.jwts.reconfigure(settings.jwt)
        return self.jwts

    def refusal_by_metadata(self, metadata: Any, takes_certificates: bool) -> Unauthenticated | None:
        """Why a call cannot be let in, whatever its message is; None where that cannot be told yet.

        grpc serves a unary call once its message has come, which may be never: strangers must not occupy the server so.
        """
        if not self._is_on:
            return None
        authorization = authorization_in(metadata)
        if authorization is None and takes_certificates:
            return None
        try:
            self._authentication.principal(Credentials(authorization))
        except Unauthenticated as refusal:
            return refusal
        # Who it is must be asked again with the message: until that comes a credential may be revoked, or expire.
        return None

    async def is_known_now(self, metadata: Any) -> bool:
        """True if the token of a call that was refused by its metadata has become known since."""
        authorization = authorization_in(metadata)
        token = None if authorization is None else bearer_in(authorization)
        return token is not None and self.look_for is not None and await self.look_for(token)

    def enter(self, gate: Gate, headers: Headers, context: Context) -> Entry:
        """Let a call in. Raises `Unauthenticated`, `TooManyRequests` or `PermissionDenied`."""
        if gate.requirement.anyone or not self._is_on:
            return ADMITTED
        credentials = credentials_of(headers, context)
        principal = self._authentication.principal(credentials)
        limits = self.limits
        limits.admit(principal, self._clock())
        try:
            by_request = gate.requirement.namespace_field
            access = unjudged(principal) if by_request else judge(principal, gate.requirement, headers.namespace)
        except PermissionDenied:
            gate.note_denied(principal, headers, context)
            raise
        if not gate.is_stream:
            return Entry(access, self.open_calls.enter(credentials, principal))
        limits.open_stream(principal)
        pace = limits.bucket_of(principal, self._clock())
        return Entry(access, self.open_calls.enter(credentials, principal), principal, pace)

    def _note_failure(self, address: str) -> None:
        assert self.audit is not None
        self.audit.count({"event": "credentials_refused", "address": address, "outcome": "unauthenticated"})


class Gate:
    """The gate of one method."""

    def __init__(
        self,
        admission: CallAdmission,
        requirement: CallRequirement,
        *,
        is_stream: bool = False,
        auditor: Auditor | None = None,
    ) -> None:
        self._admission = admission
        self._auditor = auditor
        self.requirement = requirement
        self.is_stream = is_stream

    def audited(self, serve: Any) -> Any:
        """The same servicer method; what it changes is written down where there is an audit log."""
        return serve if self._auditor is None else self._auditor.audited(serve)

    @property
    def seal(self) -> TokenEncryption | None:
        """Seals what must tell callers nothing; None where authentication is off."""
        return self._admission.sealing

    def enter(self, headers: Headers, context: Context) -> Entry:
        """Let a call in. Raises `Unauthenticated`, `TooManyRequests` or `PermissionDenied`."""
        return self._admission.enter(self, headers, context)

    def check(self, access: Access, request: Any, headers: Headers, context: Context) -> Access:
        """Refuse a request in another name than the caller's: `PermissionDenied`. What the call may touch then."""
        requirement = self.requirement
        try:
            if requirement.namespace_field and access is not EVERYTHING:
                access = judge(access.principal, requirement, named_namespace(requirement, request, headers.namespace))
            check_names(access, requirement, request)
        except PermissionDenied:
            self.note_denied(access.principal, headers, context)
            raise
        return access

    def note_denied(self, principal: Principal, headers: Headers, context: Context) -> None:
        """Count a call that its principal may not make."""
        self._admission.denied += 1
        if self._auditor is not None:
            self._auditor.note_denied(principal, headers, context)

    def leave(self, entry: Entry) -> None:
        """Note that a call is over."""
        if entry.task is not None:
            self._admission.open_calls.leave(entry.task)
        if entry.stream_of is not None:
            self._admission.limits.close_stream(entry.stream_of)

    def end_of(self, entry: Entry | None) -> Refusal | None:
        """Why the call was cancelled by the server, if it was."""
        if entry is None or entry.task is None or not self._admission.open_calls.was_ended(entry.task):
            return None
        entry.task.uncancel()
        return Unauthenticated(ENDED)

    async def delay(self, refusal: Refusal, headers: Headers, context: Context) -> None:
        """Count a wrong credential, and delay its answer. Without one there is nothing to guess."""
        if headers.authorization is not None and refusal.message != ENDED:
            await self._admission.failures.delay(address_of(headers, context))


def _sealing(secret: bytes | None) -> TokenEncryption:
    # What makes ciphers takes a while to import, and is not needed where authentication is off.
    from taskyard_server.access.token_encryption import TokenEncryption

    return TokenEncryption(secret)
