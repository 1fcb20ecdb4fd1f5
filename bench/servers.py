"""The processes of a benchmark: `taskyard up`, the bare server, either behind Envoy, and the load generator.

Each runs on free ports of loopback and is ended, by its pid, with the block that started it. Taskyard runs as it does
for users, with metrics and logs, except for limits that admit the whole load.
"""

import functools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import psutil
from rows import Figure

HERE = Path(__file__).resolve().parent
START_SECS = 20.0
POLL_SECS = 0.005
WARM_UP_SECS = 0.5
SPARE_SECS = 60.0
"""Maximum seconds of a load generator beyond the time of its measurement."""
TREE: ContextVar[Path | None] = ContextVar("TREE", default=None)
"""Where the files of the version are that is started; this version without it."""
PLENTY = 4_000_000_000
SETTINGS = {
    "scheduler": {
        "maxQueueSize": PLENTY,
        "maxPerAgent": PLENTY,
        "maxInflight": PLENTY,
        "maxPerAgentInflight": PLENTY,
        # A task that expires during a row would be work that the ceiling does not do.
        "defaultDeadlineSec": 3600,
    }
}


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. `address` and `rest` are HOST:PORT; `rest` is set if it runs behind Envoy."""

    address: str
    rest: str | None
    process: psutil.Process

    def cpu_secs(self) -> float:
        """User and system time of the server's process until now, without Envoy."""
        return cpu_secs(self.process)

    def rss_bytes(self) -> int:
        return int(self.process.memory_info().rss)


@dataclass(frozen=True, slots=True)
class Load:
    """The measurement of the load generator. Operations are calls, or tasks where a message carries several.

    `server_cpu_secs` is that of the process that it observes. The latencies are those of calls or messages.
    """

    operations: int
    secs: float
    cpu_secs: float
    server_cpu_secs: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    messages: int
    errors: int
    last_error: str = ""


@contextmanager
def taskyard(
    gateway: bool = False,
    settings: Mapping[str, object] = SETTINGS,
    durable: bool = False,
    store: str | None = None,
    options: Sequence[str] = (),
) -> Iterator[Server]:
    """Starts `taskyard up` with these settings and options, and waits until it serves.

    It keeps its tasks in `store`, a URL, or in a file of SQLite if it is `durable`.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "taskyard.json")
        file.write_text(json.dumps(settings))
        kept = store or (f"sqlite:///{folder}/yard.db" if durable else "memory://")
        command = (*up_command(kept), "--config", str(file), *options)
        with serving(*command, gateway=gateway) as server:
            yield server


@contextmanager
def bare(gateway: bool = False) -> Iterator[Server]:
    """Starts the ceiling, the server of bare.py, with `gateway` behind the same Envoy."""
    with serving(sys.executable, str(HERE / "bare.py"), gateway=gateway) as server:
        yield server


@contextmanager
def version(tree: Path | None) -> Iterator[None]:
    """Within the block, Taskyard is started from the files in `tree`, or from those of this version."""
    before = TREE.set(tree)
    try:
        yield
    finally:
        TREE.reset(before)


def up_command(store: str = "memory://") -> tuple[str, ...]:
    return (*command_line(), "up", "--metrics", local(free_port()), "--store", store)


def command_line() -> tuple[str, ...]:
    """The command `taskyard`, of the version that is started."""
    tree = TREE.get()
    python = (sys.executable,) if tree is None else ("env", f"PYTHONPATH={packages_of(tree)}", sys.executable)
    return (*python, "-m", "taskyard_server.cli.main")


def packages_of(tree: Path) -> str:
    """The folders from which Python imports the version whose files are in `tree`, as `PYTHONPATH` takes them."""
    return os.pathsep.join(str(tree / folder) for folder in ("bench", "server", "clients/python"))


@contextmanager
def serving(*command: str, gateway: bool) -> Iterator[Server]:
    """Starts a server that takes `--grpc`, `--rest` and `--no-gateway`. Raises `SystemExit` if it does not serve."""
    address, rest = local(free_port()), local(free_port()) if gateway else None
    with running(*command, "--grpc", address, *(("--rest", rest) if rest else ("--no-gateway",))) as process:
        for each in filter(None, (address, rest)):
            wait_for(each, process)
        yield Server(address, rest, process)


@contextmanager
def running(*command: str) -> Iterator[psutil.Process]:
    """Starts a process that ends with the block, and so do its children. Its output goes to a temporary file."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=printed, env={**os.environ, "TMPDIR": folder}
        )
        try:
            yield psutil.Process(process.pid)
        finally:
            failed = process.poll()
            # An orderly stop would end every queued task first.
            children = [] if failed is not None else psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            if failed is not None:
                printed.seek(0)
                print(printed.read()[-2_000:].decode(errors="replace"), file=sys.stderr)


def wait_for(address: str, process: psutil.Process) -> None:
    """Wait until `address` accepts connections. Raises `SystemExit` if the process ends before, or takes too long."""
    deadline = time.monotonic() + START_SECS
    while time.monotonic() < deadline and process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(address.rpartition(":")[2]))) == 0:
                return
        time.sleep(POLL_SECS)
    raise SystemExit(f"nobody serves {address}")


def load(mode: str, server: Server, secs: float, **flags: int | float | str) -> Load:
    """Run the load generator against `server` for `secs` after its warm-up. Raises `SystemExit` if it fails.

    Flags are those of `load MODE -help`, with `_` for `-`.
    """
    command = load_command(mode, server, secs, **flags)
    done = subprocess.run(command, capture_output=True, text=True, timeout=secs + SPARE_SECS, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2_000:]}")
    fields = json.loads(done.stdout.splitlines()[-1])
    result = Load(**{name: fields[name] for name in Load.__dataclass_fields__ if name in fields})
    if result.errors or not result.operations:
        raise SystemExit(f"{' '.join(command)}: {result.operations} done, {result.errors} not: {result.last_error}")
    return result


def load_command(mode: str, server: Server, secs: float, **flags: int | float | str) -> tuple[str, ...]:
    """The command of the load generator, for a load that runs beside others."""
    address = server.rest if mode == "rest" else server.address
    assert address is not None
    options = {"address": address, "secs": secs, "warm_up": WARM_UP_SECS, "server_pid": server.process.pid, **flags}
    given = [word for name, value in options.items() for word in (f"-{name.replace('_', '-')}", str(value))]
    return (str(load_program()), mode, *given)


def figure(value: float, result: Load) -> Figure:
    """A figure of `value` with the CPU use of the processes."""
    return Figure(
        value,
        server_cpu_us=result.server_cpu_secs / result.operations * 1e6,
        server_share=result.server_cpu_secs / result.secs,
        client_share=result.cpu_secs / result.secs,
    )


def throughput(server: Server, mode: str, secs: float, **flags: int | float | str) -> Figure:
    """Measures operations per second with the load generator."""
    result = load(mode, server, secs, **flags)
    return figure(result.operations / result.secs, result)


@functools.cache
def load_program() -> Path:
    """The path of the load generator, built if it is stale. Raises `SystemExit` if Go is missing."""
    go = shutil.which("go")
    if go is None:
        raise SystemExit("Go is missing, in which the load generator is written; ROWS picks rows that need none")
    program = HERE / "load" / "bin" / "load"
    subprocess.run([go, "build", "-o", str(program), "."], cwd=HERE / "load", check=True)
    return program


def cpu_secs(process: psutil.Process) -> float:
    """User and system time of a process until now. Raises `SystemExit` if it has ended."""
    if process.status() == psutil.STATUS_ZOMBIE:
        raise SystemExit(f"process {process.pid} ended early")
    times = process.cpu_times()
    return float(times.user + times.system)


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def local(port: int) -> str:
    return f"127.0.0.1:{port}"
