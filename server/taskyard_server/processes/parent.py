"""The parent of several server processes: it starts them and one gateway in front, and has no namespace itself.

(docs/processes.md)
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from taskyard_server.app import StartError
from taskyard_server.certificates import CertificateError, CertificateFiles, certificate_files
from taskyard_server.config import Settings
from taskyard_server.draining import AGAIN
from taskyard_server.exposure import exposed
from taskyard_server.listening import gateway_of
from taskyard_server.live_config import LiveConfig
from taskyard_server.metrics_server import MetricsServer
from taskyard_server.readiness import ENDING, STARTING, turns
from taskyard_server.setting_types import secret
from taskyard_server.store.port import StoreError
from taskyard_server.store_url import MEMORY, is_postgres, shown_store_url, sqlite_folder

from .members import Members, common_store
from .metrics import ProcessMetrics
from .process import Process
from .routes import Routes
from .upkeep import Upkeep

log = structlog.get_logger(__name__)

HURRY_SECS: Final = 10.0
"""So long after a second signal the processes are killed that have not ended."""
READY_SECS: Final = 5.0
NOTHING_AWAITED: Final = "Stopping: no task has to end first."


class Parent:
    """`settings.processes` processes and their gateway. `flags` and `log_level` are those of the command.

    `say` is called with lines for who looks at the terminal.
    """

    def __init__(
        self,
        config: LiveConfig,
        flags: Mapping[str, Any],
        log_level: str,
        *,
        accept_clock: bool = False,
        insecure: bool = False,
    ) -> None:
        settings = config.settings
        if (problems := exposed(settings)) and not insecure:
            raise StartError("\n".join(problems))
        _require_shared_store(settings)
        self.say: Callable[[str], None] = lambda _: None
        self._config = config
        self._settings = settings
        self._routes = Routes()
        self._ending = asyncio.Event()
        self._hurrying = asyncio.Event()
        try:
            self._certificates: CertificateFiles | None = certificate_files("tls", settings.tls)
            self._gateway = gateway_of(settings, self._certificates, None, settings.processes)
        except CertificateError as error:
            raise StartError(str(error)) from None
        order = {
            "config_file": None if config.file is None else str(config.file),
            "log_level": log_level,
            "accept_clock": accept_clock,
        }
        numbers = range(1, settings.processes + 1)
        orders = [{**order, "number": number, "flags": _flags_of(flags, settings, number)} for number in numbers]
        self._processes = [self._process(each) for each in orders]
        self._members: Members | None = None
        if (folder := sqlite_folder(settings.store.url)) is not None:
            self._members = Members(folder, common_store(folder, settings.store.synchronous), self._tell_all)
        self._upkeep = None if self._members is None else Upkeep(self._members, self._ask)
        self._keeping: list[asyncio.Task[None]] = []
        self._metrics: MetricsServer | None = None
        self._is_ready = False

    async def start(self) -> None:
        """Serve. Raises `StartError` or `GatewayError`, with nothing left running."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._on_signal)
        loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        self._config.apply = self._apply
        carrier = self._gateway.carrier
        carrier.take_replicas({each.name: each.socket for each in self._processes})
        carrier.take_owners(self._routes.owners)
        try:
            if self._certificates is not None:
                self._certificates.load()
            self._listen_for_scrapes()
            if self._members is not None:
                await self._members.open()
            async with asyncio.TaskGroup() as starts:
                for process in self._processes:
                    starts.create_task(process.start())
            self._servers_changed()
            await self._gateway.start()
        except BaseExceptionGroup as group:
            await self._stop_all()
            raise group.exceptions[0] from None
        except (CertificateError, StoreError) as error:
            await self._stop_all()
            raise StartError(str(error)) from None
        except BaseException:
            await self._stop_all()
            raise
        self._keeping = [asyncio.create_task(process.keep()) for process in self._processes]
        if self._members is not None:
            self._keeping.append(asyncio.create_task(self._members.run()))
        if self._config.file is not None:
            self._keeping.append(asyncio.create_task(self._config.watch()))
        self._is_ready = True
        log.info("processes_started", count=len(self._processes), pids=[each.pid for each in self._processes])

    async def run(self) -> None:
        """Keep them running until a signal or a drain call, and then until they have ended."""
        await self._ending.wait()
        self._is_ready = False
        for keeping in self._keeping:
            keeping.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        ended = asyncio.create_task(self._ended())
        hurried = asyncio.create_task(self._hurrying.wait())
        await asyncio.wait({ended, hurried}, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        await asyncio.wait({ended}, timeout=HURRY_SECS if self._hurrying.is_set() else None)
        await self._stop_all()
        await ended
        log.info("stopped")

    async def _ended(self) -> None:
        await asyncio.gather(*(process.wait() for process in self._processes))

    async def _stop_all(self) -> None:
        for process in self._processes:
            process.kill()
        await self._ended()
        await self._gateway.stop()
        if self._members is not None:
            await self._members.close()
        if self._metrics is not None:
            await asyncio.to_thread(self._metrics.stop)

    # What the processes say

    async def _serve(self, process: Process, method: str, arguments: tuple[Any, ...]) -> Any:
        match method:
            case "serves":
                instance, new, gone = arguments
                process.instance = instance
                self._routes.serves(process.name, new, gone)
                self._gateway.carrier.take_owners(self._routes.owners)
            case "say":
                self._say_of(process, arguments[0])
            case "drain":
                self._drain(arguments[0], process)
            case "reloaded":
                self._config.reload_if_changed()
                for other in self._others(process):
                    other.tell("reload")
            case "join":
                process.instance = arguments[0]
                return await self._called(method, arguments)
            case _:
                return await self._called(method, arguments)
        return None

    async def _called(self, method: str, arguments: tuple[Any, ...]) -> Any:
        for part in (self._members, self._upkeep):
            if part is not None and method in part.CALLED:
                return await getattr(part, method)(*arguments)
        raise LookupError(method)

    async def _ask(self, instance: str, method: str, *arguments: Any) -> Any:
        process = next((each for each in self._processes if each.instance == instance), None)
        return None if process is None else await process.ask(method, *arguments)

    def _tell_all(self, news: str) -> None:
        for process in self._processes:
            process.tell(news)

    def _process_ended(self, process: Process) -> None:
        if self._members is not None and process.instance is not None:
            self._members.died(process.instance)
        self._routes.ended(process.name)
        self._servers_changed()
        self._gateway.carrier.take_owners(self._routes.owners)
        heir = next((other for other in self._others(process) if other.is_serving), None)
        if heir is not None and self._members is None and process.instance is not None:
            heir.tell("bury", process.instance)

    def _servers_changed(self) -> None:
        self._gateway.carrier.take_servers([each.name for each in self._processes if each.is_serving])

    def _others(self, process: Process) -> list[Process]:
        return [other for other in self._processes if other is not process]

    def _say_of(self, process: Process, words: str) -> None:
        """Pass on what a process says of its end, but for what the parent has said of all."""
        if (news := words.removesuffix(AGAIN).strip()) not in (NOTHING_AWAITED, "Stops at once."):
            self.say(f"Process {process.number}: {news}")

    # What ends and changes it

    def _on_signal(self) -> None:
        if self._ending.is_set() and not self._hurrying.is_set():
            self._hurrying.set()
            self.say("Stops at once.")
        elif not self._ending.is_set():
            self.say(f"Stopping {len(self._processes)} processes. {AGAIN}")
        self._ending.set()
        for process in self._processes:
            process.signal(signal.SIGTERM)

    def _drain(self, grace_secs: float | None, but: Process) -> None:
        self._ending.set()
        for other in self._others(but):
            other.tell("drain", grace_secs)

    def _on_hangup(self) -> None:
        self._config.try_reload()
        for process in self._processes:
            process.tell("reload")

    def _apply(self, settings: Settings) -> None:
        if self._metrics is not None:
            self._metrics.token = secret(settings.metrics_token)

    # What is made of the settings

    def _process(self, order: dict[str, Any]) -> Process:
        name = f"{self._settings.replicas.name}-{order['number']}"
        socket = self._gateway.make_server_socket(f"process-{order['number']}.sock")
        return Process({**order, "name": name, "socket": socket}, self._serve, self._process_ended)

    def _listen_for_scrapes(self) -> None:
        address, token = self._settings.metrics, secret(self._settings.metrics_token)
        loop = asyncio.get_running_loop()
        collected = ProcessMetrics(self._texts, lambda: {str(each.number): each.restarts for each in self._processes})
        probes = {"/healthz": turns(loop), "/readyz": lambda: turns(loop)() or self._obstacle(loop)}
        try:
            self._metrics = MetricsServer(address, collected.registry(), token, self._certificates, probes)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise StartError(f"cannot listen on {address} for metrics: {reason}") from None

    async def _texts(self) -> dict[str, bytes]:
        serving = [each for each in self._processes if each.is_serving]
        texts = await asyncio.gather(*(each.ask("metrics") for each in serving))
        return {str(each.number): text for each, text in zip(serving, texts, strict=True) if text is not None}

    def _obstacle(self, loop: asyncio.AbstractEventLoop) -> str | None:
        """Why no calls should come, asked by another thread: a process that is started again has handed on its part."""
        if not self._is_ready:
            return ENDING if self._ending.is_set() else STARTING
        return asyncio.run_coroutine_threadsafe(self._obstacles(), loop).result(timeout=2 * READY_SECS)

    async def _obstacles(self) -> str | None:
        serving = [each for each in self._processes if each.is_serving]
        if not serving:
            return STARTING
        try:
            async with asyncio.timeout(READY_SECS):
                found = await asyncio.gather(*(each.ask("obstacle") for each in serving))
        except TimeoutError:
            return "a process does not answer"
        return next((why for why in found if why is not None), None)


def _flags_of(flags: Mapping[str, Any], settings: Settings, number: int) -> dict[str, Any]:
    """The flags of one process. Files that only one process may write have its number in their names."""
    own = {key: dict(value) if isinstance(value, Mapping) else value for key, value in flags.items()}
    for section, file in (("log", settings.log.file), ("audit", settings.audit.file)):
        if file is not None:
            own[section] = {**own.get(section, {}), "file": str(_numbered(file, number))}
    return own


def _numbered(file: Path, number: int) -> Path:
    return file.with_name(f"{file.stem}-{number}{file.suffix}")


def _require_shared_store(settings: Settings) -> None:
    url = settings.store.url
    if not settings.gateway:
        raise StartError("processes: needs the gateway, since that carries calls to the process of their namespace")
    if settings.replicas.advertise is not None:
        raise StartError("processes: other replicas cannot reach more than one: leave replicas.advertise out")
    if url == MEMORY:
        raise StartError(f"processes: {MEMORY} is kept by one process; name a database, or a folder for files")
    if not is_postgres(url) and sqlite_folder(url) is None:
        raise StartError(
            f"processes: {shown_store_url(url)} is a file, which one process serves; name a folder, by a slash at the "
            "end, and fill it by `taskyard store copy`"
        )
