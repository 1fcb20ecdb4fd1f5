"""The only place where things are wired together: settings in, a running control plane out."""

import asyncio
import logging
import signal
from typing import Final

import structlog

from taskyard_server.conversion.task_encoding import encode_event
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.listeners import Listener
from taskyard_server.executors.from_settings import configured_executor
from taskyard_server.executors.tls_files import TlsFilesError
from taskyard_server.interceptors.admission import AdmissionError
from taskyard_server.interceptors.calls import CallInterceptor, Door
from taskyard_server.logs.audit import AuditLogError
from taskyard_server.logs.logs import LossLog, TransitionLog, TriggerLog
from taskyard_server.net.admin_address import socket_of
from taskyard_server.net.exposure import authentication_is_on, exposed
from taskyard_server.services.admin import AdminService
from taskyard_server.services.sign_in import SignInService
from taskyard_server.services.store import StoreService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.settings.config import Settings
from taskyard_server.settings.live_config import LiveConfig, Reload
from taskyard_server.settings.setting_types import secret
from taskyard_server.store.port import StoreError
from taskyard_server.telemetry.parts import OFF, Telemetry
from taskyard_server.webhooks.webhooks import Webhooks

from . import gc_policy
from .admin_socket import AdminSocket
from .cancel_on_event import cancel_on_event
from .configured_access import ServerAccess
from .configured_engine import configured_engine
from .draining import Draining
from .embedded_options import EmbeddedOptions
from .endpoints import Endpoints, StartError
from .maintenance import end_leases_of_the_dead, look_for_hosts
from .observation import Observation
from .readiness import Readiness
from .service_notices import READY, STOPPING, notify, reloading
from .service_set import ServiceSet, served

log = structlog.get_logger(__name__)

STOP_GRACE_SECS: Final = 2.0
PASS_ON_SECS: Final = 0.3
WEBHOOK_GRACE_SECS: Final = 10.0


class App:
    """Everything that `taskyard up` runs, in one event loop.

    With `accept_clock` it starts although what is stored is ahead of the clock (docs/operate/durability.md, The clock).
    With `insecure` it listens to other machines although it is not protected (docs/operate/security.md). A `guest` is
    started and closed, instead of run. What observes it is in `telemetry`.
    """

    def __init__(
        self,
        config: LiveConfig,
        *,
        accept_clock: bool = False,
        insecure: bool = False,
        guest: EmbeddedOptions | None = None,
        telemetry: Telemetry = OFF,
    ) -> None:
        settings = config.settings
        problems = exposed(settings)
        if problems and not insecure:
            raise StartError("\n".join(problems))
        self._is_exposed = bool(problems)
        self._config = config
        self._settings = settings
        self._guest, self._telemetry = guest, telemetry
        virtual = None if guest is None else guest.clock
        self._engine, self.sharing = configured_engine(settings, accept_clock=accept_clock, virtual=virtual)
        self._retry_policies = settings.retry_policies()
        self._event_logs = self._engine.event_logs(encode_event)
        self._task_watches = TaskWatches(self._engine, self._event_logs)
        self._webhooks = Webhooks(settings.webhooks, self._engine.outbox, telemetry.posts)
        try:
            self._access = access = ServerAccess(settings, self._engine)
        except AuditLogError as error:
            raise StartError(str(error)) from None
        self._observation = Observation(config, self._engine, self.sharing, access.admission, self._webhooks, virtual)
        persistence = self._engine.persistence
        path = socket_of(settings) if guest is None else None
        self._admin_socket = (
            None
            if persistence is None or path is None
            else AdminSocket(path, StoreService(persistence.store), access.token_service, access.audit)
        )
        self._endpoints = Endpoints(settings, self._interceptor, self.sharing, None if guest is None else guest.address)
        trust = None if self.sharing is None else self.sharing.replica.trust
        self.readiness = Readiness(persistence, lambda: trust is None or trust.holds)
        secs, is_set = (
            settings.shutdown_grace_period_seconds,
            "shutdown_grace_period_seconds" in settings.model_fields_set,
        )
        self.draining = Draining(self._engine, self.sharing, secs, is_set)
        self._services = ServiceSet(
            settings,
            self._engine,
            self._task_watches,
            lambda action: self._retry_policies.get(action),
            self._observation.service,
            AdminService(self._engine, config, self._drain, self.sharing),
            access.token_service,
            self.readiness,
            SignInService(config, access.admission),
            self._observation.pools,
            self._door,
            telemetry.handed,
        )
        if self.sharing is not None:
            followers, webhooks = (self._event_logs, self._services.hosts.watches), self._webhooks
            self.sharing.tell(*followers, begun=webhooks.begin, left=webhooks.leave)
        try:
            self._executor = configured_executor(self._engine, settings, telemetry.handed)
        except TlsFilesError as error:
            raise StartError(str(error)) from None
        self._background: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Serve; raises `StartError` or `GatewayError`, with nothing left running."""
        settings = self._settings
        if self._guest is None:
            self._take_signals()
        self._telemetry.take_clock(self._engine.now)
        self._engine.subscribe(TransitionLog())
        self._observation.subscribe()
        listeners: list[Listener] = [self._event_logs, *self._telemetry.listeners]
        for listener in listeners:
            self._engine.subscribe(listener)
        if self._engine.outbox is None:
            self._engine.subscribe(self._webhooks)
        self._engine.leases.subscribe(LossLog())
        self._engine.schedules.subscribe(TriggerLog())
        for part in (self._event_logs, self._webhooks, self._services.hosts.watches):
            self._engine.namespaces.subscribe(part.deleted)
        self._config.apply = self._apply
        self._config.reloaded = self._note_reload
        try:
            await self._engine.open()
            self._observation.open()
            if self.sharing is not None:
                await self.sharing.replica.start()
            await self._access.load()
        except StoreError as error:
            await self._engine.release()
            raise StartError(str(error)) from None
        if self._admin_socket is not None:
            await self._admin_socket.open()
        try:
            await self._access.open()
            self._listen()
            await self._endpoints.start()
        except AdmissionError as error:
            await self._stop_serving()
            raise StartError(str(error)) from None
        except BaseException:
            await self._stop_serving()
            raise
        parts = [
            self._engine.run(),
            self._webhooks.run(),
            end_leases_of_the_dead(self._engine),
            look_for_hosts(self._engine),
            self.readiness.run(),
            *self._access.runs(),
            *self._endpoints.runs(),
            *self._observation.runs(is_guest=self._guest is not None),
        ]
        if self.sharing is not None:
            parts.append(self.sharing.replica.run())
        if self._config.file is not None:
            parts.append(self._config.watch())
        if self._executor is not None:
            parts.append(self._executor.run())
        if self._guest is None:
            parts += [self._telemetry.run(self._observation.metrics), gc_policy.collect_periodically()]
        self._background = [asyncio.create_task(part) for part in parts]
        await self.readiness.begin(served(settings))
        if self._guest is None:
            gc_policy.install()
        if not authentication_is_on(settings):
            level = logging.WARNING if self._is_exposed else logging.INFO
            log.log(level, "everybody_is_admin", why="authentication is off, see auth.required")
        log.info("started", grpc=settings.grpc, rest=settings.rest if self._endpoints.has_gateway else None)
        if self._guest is None:
            notify(READY)

    @property
    def other_replicas(self) -> int | None:
        """How many other replicas live that share the store; None where it is not one that is shared."""
        return None if self.sharing is None else len(self.sharing.replica.membership.living()) - 1

    async def run(self) -> None:
        """Serve until a signal or a drain call, let what runs end within the grace period, and stop.

        A second signal ends it at once (docs/rules.md, Drain and shutdown).
        """
        draining = asyncio.create_task(self.draining.begun.wait())
        await asyncio.wait([draining, *self._background], return_when=asyncio.FIRST_COMPLETED)
        notify(STOPPING)
        try:
            for part in self._background:
                if part.done():
                    await part
            await self.readiness.end()
            await self.draining.wait()
        except StoreError as error:
            self.draining.hurry.set()
            raise StartError(str(error)) from None
        finally:
            draining.cancel()
            await self._stop()

    @property
    def engine(self) -> Engine:
        """The parts that a test looks at beside the API."""
        return self._engine

    async def close(self) -> None:
        """End a guest at once: what changed is committed, and what hosts run may go on after the next start."""
        await self._engine.admin.close(built_in_only=True)
        self._services.close()
        self.draining.hurry.set()
        await self._task_watches.close(STOP_GRACE_SECS)
        await self._end_parts()

    @property
    def _door(self) -> Door | None:
        return None if self.sharing is None else self.sharing.door

    def _interceptor(self, takes_certificates: bool) -> CallInterceptor:
        """The interceptor of one server of gRPC."""
        return CallInterceptor(
            self._access.admission,
            takes_certificates,
            self._door,
            self._telemetry.calls,
            self._observation.metrics.refused,
            self._engine.fair_yield,
            self._observation.ignored,
        )

    def _take_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, self._reload)

    def _reload(self) -> None:
        with reloading():
            self._config.try_reload()

    def _on_signal(self) -> None:
        if self.draining.on_signal():
            self._access.note("stop_signal")

    def _drain(self, grace_secs: float | None) -> float:
        return self.draining.begin(grace_secs)

    async def _stop(self) -> None:
        await cancel_on_event(self._engine.admin.close(built_in_only=self.draining.built_in_only), self.draining.hurry)
        if not self.draining.hurry.is_set():
            await cancel_on_event(self._end_calls(), self.draining.hurry)
            await cancel_on_event(self._webhooks.finish(WEBHOOK_GRACE_SECS), self.draining.hurry)
        await self._end_parts()
        log.info("stopped")

    async def _end_parts(self) -> None:
        for part in self._background:
            part.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._stop_serving()

    async def _end_calls(self) -> None:
        self._services.close()
        await self._task_watches.close(STOP_GRACE_SECS)
        if self._endpoints.has_gateway:
            # It ends at once when it is told to, and has still to pass the last messages on: of watches, of calls that
            # waited for a task, and of the drain call that may have begun all this.
            await asyncio.sleep(PASS_ON_SECS)

    async def _stop_serving(self) -> None:
        await self._endpoints.stop(None if self.draining.hurry.is_set() else STOP_GRACE_SECS)
        await asyncio.to_thread(self._observation.metrics.stop)
        await cancel_on_event(self._telemetry.close(), self.draining.hurry)
        if self._admin_socket is not None:
            await self._admin_socket.close()
        await self._release()
        self._access.close()

    async def _release(self) -> None:
        """Let go of the store; after a second signal without waiting for one that does not answer."""
        self._access.let_go()
        release = asyncio.create_task(self._let_go())
        hurry = asyncio.create_task(self.draining.hurry.wait())
        await asyncio.wait((release, hurry), return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        await asyncio.wait((release,), timeout=STOP_GRACE_SECS)
        if release.done():
            await release
        else:
            release.cancel()

    async def _let_go(self) -> None:
        if self.sharing is not None:
            await self.sharing.replica.leave()
        await self._engine.release()

    def _apply(self, settings: Settings) -> None:
        self._retry_policies = settings.retry_policies()
        self._engine.admin.reconfigure(settings.limits(), settings.rules())
        self._access.reconfigure(settings)
        self._observation.reconfigure(settings)
        self._webhooks.take_secret(secret(settings.webhooks.secret))
        if self._executor is not None:
            self._executor.take(settings)

    def _note_reload(self, reload: Reload | None) -> None:
        outcome = "conflict" if reload is None else "ok"
        self._access.note("reload", changed=[] if reload is None else reload.changed, outcome=outcome)

    def _listen(self) -> None:
        self._endpoints.listen(self._services)
        if self._guest is None:
            self._observation.serve(self._settings, self._endpoints.certificates, self.readiness)
