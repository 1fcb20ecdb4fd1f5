"""The pairs of others.py whose tasks are in a broker: Redis, beanstalkd, NATS JetStream, Temporal; and River's load.

Each is started as its documentation advises, `durable` with an fsync before each acknowledgement, which no broker does
by default: Redis with `appendfsync always`, beanstalkd with a log and `-f0`, JetStream with `sync_interval: always`.
Temporal's development server keeps its tasks in a file of SQLite.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psutil
import servers
from durable_pairs import postgres
from pairs import AGENT_SECS, BESIDE, Pair, Programs, new_server
from rows import Figure

Opened = Callable[[Programs], AbstractContextManager[Pair]]
FSYNC = ("--appendonly", "yes", "--appendfsync", "always")
CONNECTIONS = 50
"""Those of Taskiq's agent, of which it would open one for each of a thousand submits otherwise."""
TASKIQ = ("-m", "taskiq", "worker", "taskiq_side:broker", "--app-dir", str(BESIDE))
TASKIQ_WORKER = ("--workers", "2", "--no-parse", "--log-level", "WARNING")
DRAMATIQ = ("-m", "dramatiq", "dramatiq_side", "--processes", "2", "--threads", "8")
CELERY = ("-m", "celery", "--app", "celery_side", "--quiet", "worker", "--pool", "prefork", "--concurrency", "2")
CELERY_WORKER = ("--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat")
ARQ = ("-m", "arq", "arq_side.Worker")


def on_redis(script: str, *worker: str, durable: bool, python: str = "python", **environment: str) -> Opened:
    """A system on a new Redis, by the name of its script and the arguments of its worker."""

    @contextmanager
    def pair(programs: Programs) -> Iterator[Pair]:
        options = FSYNC if durable else ()
        redis = (programs["redis-server"], "--bind", "127.0.0.1", "--dir", "FOLDER", "--port", "PORT", *options)
        with new_server(*redis) as (server, address):
            given = {"BESIDE_REDIS": f"redis://{address}", "PYTHONPATH": str(BESIDE), **environment}
            command = ("env", *(f"{name}={value}" for name, value in given.items()), programs[python])
            with servers.running(*command, *worker) as process:
                yield Pair((server,), (process,), (*command, str(BESIDE / script)))

    return pair


def taskiq(broker: str, durable: bool = False) -> Opened:
    environment = {"BESIDE_BROKER": broker, "BESIDE_CONNECTIONS": str(CONNECTIONS)}
    return on_redis("taskiq_side.py", *TASKIQ, *TASKIQ_WORKER, durable=durable, **environment)


def dramatiq(durable: bool) -> Opened:
    return on_redis("dramatiq_side.py", *DRAMATIQ, durable=durable)


def celery(durable: bool) -> Opened:
    return on_redis("celery_side.py", *CELERY, *CELERY_WORKER, durable=durable)


def arq(durable: bool) -> Opened:
    return on_redis("arq_side.py", *ARQ, durable=durable, python="python-arq")


def beanstalkd(durable: bool) -> Opened:
    @contextmanager
    def pair(programs: Programs) -> Iterator[Pair]:
        log = ("-b", "FOLDER", "-f0") if durable else ()
        script = (programs["python"], str(BESIDE / "beanstalkd_side.py"))
        with (
            new_server(programs["beanstalkd"], "-l", "127.0.0.1", "-p", "PORT", *log) as (server, address),
            servers.running(*script, "worker", address) as worker,
        ):
            yield Pair((server,), (worker,), (*script, "agent", address))

    return pair


def temporal(durable: bool) -> Opened:
    @contextmanager
    def pair(programs: Programs) -> Iterator[Pair]:
        ports = ("--ip", "127.0.0.1", "--port", "PORT", "--http-port", str(servers.free_port()))
        quiet = ("--headless", "--log-level", "never", "--metrics-port", str(servers.free_port()))
        kept = ("--db-filename", "FOLDER/temporal.db") if durable else ()
        command = (programs["temporal"], "server", "start-dev", *ports, *quiet, *kept)
        script = (programs["python"], str(BESIDE / "temporal_side.py"))
        with new_server(*command) as (server, address), servers.running(*script, "worker", address) as worker:
            yield Pair((server,), (worker,), (*script, "agent", address))

    return pair


@contextmanager
def nats_server(programs: Programs, durable: bool = False) -> Iterator[tuple[psutil.Process, str]]:
    """Starts a new NATS server with JetStream, and yields its process and address."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "nats.conf")
        config.write_text(f"jetstream {{\n store_dir: {folder}\n sync_interval: always\n}}\n")
        options = ("-c", str(config)) if durable else ("-js", "-sd", "FOLDER")
        with new_server(programs["nats-server"], *options, "-a", "127.0.0.1", "-p", "PORT") as started:
            yield started


def nats(durable: bool = False) -> Opened:
    @contextmanager
    def pair(programs: Programs) -> Iterator[Pair]:
        script = (programs["python"], str(BESIDE / "nats_side.py"))
        with (
            nats_server(programs, durable) as (server, address),
            servers.running(*script, "worker", address) as worker,
        ):
            yield Pair((server,), (worker,), (*script, "agent", address))

    return pair


# Load generators in Go


def taskyard_flow(secs: float, durable: bool = False) -> Callable[[Programs], Figure]:
    def measure(_: Programs) -> Figure:
        with servers.taskyard(durable=durable) as server:
            return servers.throughput(server, "flow", secs, hosts=4, submitters=4, inflight=4)

    return measure


def nats_flow(secs: float, pull: int, durable: bool = False) -> Callable[[Programs], Figure]:
    def measure(programs: Programs) -> Figure:
        with nats_server(programs, durable) as (server, address):
            return _by_program(programs, "nats", secs, server.pid, "-address", address, "-pull", str(pull))

    return measure


def river_flow(secs: float) -> Callable[[Programs], Figure]:
    def measure(programs: Programs) -> Figure:
        with postgres(programs["python"]) as (server, dsn):
            return _by_program(programs, "river", secs, server.pid, "-dsn", dsn)

    return measure


def _by_program(programs: Programs, name: str, secs: float, pid: int, *flags: str) -> Figure:
    """What a load generator in Go measures, whose sources are in `beside`."""
    program = BESIDE / name / "bin" / name
    subprocess.run([programs["go"], "build", "-o", str(program), "."], cwd=BESIDE / name, check=True)
    window = ("-secs", str(secs), "-warm-up", str(servers.WARM_UP_SECS), "-server-pid", str(pid))
    command = [str(program), *window, *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=secs + AGENT_SECS, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr[-2_000:]}")
    result = json.loads(done.stdout)
    tasks, took, used = result["operations"], result["secs"], result["server_cpu_secs"]
    return Figure(tasks / took, used / tasks * 1e6, used / took, result["cpu_secs"] / took)
