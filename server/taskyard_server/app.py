"""The only place where things are wired together: settings in, a running control plane out."""

import asyncio
import contextlib
import signal
from typing import Any, Final

import grpc
import structlog
from grpc_channelz.v1 import channelz
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from taskyard.v1 import (
    admin_pb2_grpc,
    batch_pb2_grpc,
    lease_pb2_grpc,
    runtime_host_pb2_grpc,
    schedule_pb2_grpc,
    stats_pb2_grpc,
    target_pb2_grpc,
    task_pb2_grpc,
)

from . import garbage, logs
from .config import Settings
from .engine.memory import MemoryEngine
from .executors.tab_actions import TabExecutor
from .executors.tab_resolver import TabMap
from .gateway import Gateway
from .interceptors.calls import CallInterceptor
from .services.batches import BatchService
from .services.stats import StatsService
from .services.tasks import TaskService

log = structlog.get_logger(__name__)

SERVICES: Final = tuple(
    f"taskyard.v1.{name}Service"
    for name in ("Task", "Batch", "Stats", "RuntimeHost", "Lease", "Target", "Schedule", "Admin")
)
SCHEDULER_SERVICES: Final = SERVICES[:3]
CHANNELZ: Final = "grpc.channelz.v1.Channelz"
STOP_GRACE_SECS: Final = 2.0

SERVER_OPTIONS: Final = (
    # Without this a second server could take the same port and steal half of the calls.
    ("grpc.so_reuseport", 0),
    # Above what the gateway lets in, so that its limit is the one that callers meet.
    ("grpc.max_receive_message_length", 8 * 1024 * 1024),
    # The gateway's keepalive on idle streams would otherwise be answered with "too many pings".
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class StartError(Exception):
    """The control plane cannot start; the text is one line for the operator."""


class App:
    """Everything that `taskyard up` runs, in one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine = MemoryEngine(settings.scheduler.limits())
        self._engine.subscribe(logs.TransitionLog())
        self._server = grpc.aio.server(interceptors=(CallInterceptor(),), options=SERVER_OPTIONS)
        self._health = health.aio.HealthServicer()
        self._gateway = Gateway(rest=settings.rest, grpc=settings.grpc) if settings.gateway else None
        self._executor: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve; raises `StartError`, or the gateway's error, with nothing left running."""
        self._add_services()
        try:
            port = self._server.add_insecure_port(self._settings.grpc)
        except RuntimeError:
            port = 0
        if not port:
            raise StartError(f"cannot listen on {self._settings.grpc}: the port is taken or the address is not ours")
        await self._server.start()
        try:
            if self._gateway is not None:
                await self._gateway.start()
        except BaseException:
            await self.stop()
            raise
        if self._settings.executor is not None or self._settings.tabs:
            self._executor = asyncio.create_task(self._tab_executor().run())
        for name in ("", *SERVICES):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        garbage.tame()
        log.info("started", grpc=self._settings.grpc, rest=self._settings.rest if self._gateway else None)

    async def run_until_signal(self) -> None:
        """Serve until SIGINT or SIGTERM, or until a part that must run has failed."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
        waits: list[asyncio.Task[Any]] = [asyncio.create_task(stopping.wait())]
        if self._executor is not None:
            waits.append(self._executor)
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for finished in done:
            finished.result()

    async def stop(self) -> None:
        """Refuse new calls, end what runs here, and leave nothing behind."""
        log.info("stopping")
        await self._health.enter_graceful_shutdown()
        if self._executor is not None:
            self._executor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._executor
        await self._engine.close()
        if self._gateway is not None:
            await self._gateway.stop()
        await self._server.stop(STOP_GRACE_SECS)
        log.info("stopped")

    def _add_services(self) -> None:
        scheduler = self._settings.scheduler
        engine, server = self._engine, self._server
        names = [*SERVICES, health.SERVICE_NAME, CHANNELZ, reflection.SERVICE_NAME]
        # Generated servicers refuse what a subclass leaves out; mypy takes them for abstract.
        if scheduler.enabled:
            tasks = TaskService(engine, scheduler.max_payload_bytes)  # type: ignore[abstract]
            batches = BatchService(engine, scheduler.max_batch_size, scheduler.max_payload_bytes)  # type: ignore[abstract]
            stats = StatsService(engine, scheduler.strategy, scheduler.worker_count)  # type: ignore[abstract]
            task_pb2_grpc.add_TaskServiceServicer_to_server(tasks, server)
            batch_pb2_grpc.add_BatchServiceServicer_to_server(batches, server)
            stats_pb2_grpc.add_StatsServiceServicer_to_server(stats, server)
        else:
            names = [name for name in names if name not in SCHEDULER_SERVICES]
        hosts = runtime_host_pb2_grpc.RuntimeHostServiceServicer()  # type: ignore[abstract]
        leases = lease_pb2_grpc.LeaseServiceServicer()  # type: ignore[abstract]
        targets = target_pb2_grpc.TargetServiceServicer()  # type: ignore[abstract]
        schedules = schedule_pb2_grpc.ScheduleServiceServicer()  # type: ignore[abstract]
        admin = admin_pb2_grpc.AdminServiceServicer()  # type: ignore[abstract]
        runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(hosts, server)
        lease_pb2_grpc.add_LeaseServiceServicer_to_server(leases, server)
        target_pb2_grpc.add_TargetServiceServicer_to_server(targets, server)
        schedule_pb2_grpc.add_ScheduleServiceServicer_to_server(schedules, server)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        channelz.add_channelz_servicer(server)
        reflection.enable_server_reflection(names, server)

    def _tab_executor(self) -> TabExecutor:
        settings = self._settings
        resolver = TabMap(
            {tab_id: str(url) for tab_id, url in settings.tabs.items()},
            str(settings.executor) if settings.executor else None,
        )
        return TabExecutor(
            self._engine,
            resolver,
            workers=settings.scheduler.worker_count,
            max_answer_bytes=settings.scheduler.max_payload_bytes,
        )
