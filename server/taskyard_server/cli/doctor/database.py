"""A store in PostgreSQL: reachable, of a version that fits, with the rights that it takes, and its clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from taskyard_server.engine.persistence import MAX_AHEAD_SECS
from taskyard_server.store.port import FORMAT_LEVEL, CommitDelayed, StoreError

from .examined import Examined
from .findings import Findings, failure, failure_of, ok, warning

CHECK: Final = "store"
ASK_SECS: Final = 8.0
SERVER_CONNECTIONS: Final = 8
MIGRATE: Final = (
    "let a role that may make tables run `taskyard store migrate URL` (docs/operate/durability.md, The role)"
)
T = TypeVar("T")


class _Seen(NamedTuple):
    """A database: its server, its tables if there are any, and its time less that of this machine."""

    server: str
    version: int | None
    level: int
    may_make: bool
    may_use: bool
    risks: list[str]
    free_connections: int
    ahead_secs: float
    round_trip_secs: float


def database(on: Examined) -> Findings:
    """Look at the database of the settings. Nothing is written."""
    # Only here: others need no client of PostgreSQL.
    from taskyard_server.store.postgres.schema import VERSION

    url = on.settings.store.url
    try:
        shown, seen = ask(url, _looked)
    except (CommitDelayed, StoreError) as error:
        yield failure_of(CHECK, error, "see that it runs, that store.url names it, and that this machine reaches it")
        return
    where = f"{shown}, PostgreSQL {seen.server}"
    if seen.version is None:
        if seen.may_make:
            yield ok(CHECK, f"{where}: empty, the first start makes its tables")
        else:
            yield failure(CHECK, f"{where}: there are no tables, and this role may not make them", MIGRATE)
    elif seen.version > VERSION or seen.level > FORMAT_LEVEL:
        words = (
            f"schema {seen.version} with records of level {seen.level}, this version knows {VERSION} and {FORMAT_LEVEL}"
        )
        todo = "start the newer version again, or restore a backup of before"
        yield failure(CHECK, f"{where}: written by a newer Taskyard ({words})", todo)
    elif not seen.may_use:
        yield failure(CHECK, f"{where}: this role may not use its tables", MIGRATE)
    elif seen.version < VERSION:
        todo = "make a backup before, by pg_dump" if seen.may_make else MIGRATE
        words = f"{where}: schema {seen.version}, the next start takes it to {VERSION}"
        yield (warning if seen.may_make else failure)(CHECK, words, todo)
    else:
        yield ok(CHECK, f"{where}: schema {seen.version}, answers in {1_000 * seen.round_trip_secs:.1f} ms")
    for risk in seen.risks:
        yield warning(CHECK, risk, "see docs/operate/durability.md, When it fails")
    if seen.free_connections < SERVER_CONNECTIONS:
        todo = f"raise max_connections: each server takes up to {SERVER_CONNECTIONS}"
        yield warning(CHECK, f"PostgreSQL has {seen.free_connections} connections left", todo)
    apart = (
        f"PostgreSQL's is {abs(seen.ahead_secs):.1f} s {'ahead of' if seen.ahead_secs > 0 else 'behind'} this machine's"
    )
    if abs(seen.ahead_secs) > MAX_AHEAD_SECS:
        yield warning("clock", apart, "let NTP set both clocks: servers go by PostgreSQL's, all else here by this one")
    else:
        yield ok("clock", apart)


def ask(url: str, use: Callable[[Any, dict[str, str]], Awaitable[T]]) -> tuple[str, T]:
    """The URL for people, and the result of a use of a connection and of the statements by name.

    Raises `CommitDelayed` or `StoreError`.
    """
    from taskyard_server.store.postgres.address import PostgresAddress
    from taskyard_server.store.postgres.health import require_sessions, require_version
    from taskyard_server.store.postgres.links import Link
    from taskyard_server.store.postgres.schema import statements

    async def asked() -> tuple[str, T]:
        address, sql = PostgresAddress(url), statements()
        one, other = (Link(address, sql["session"], ASK_SECS) for _ in range(2))

        async def used(connection: Any) -> T:
            require_version(connection, address)
            return await use(connection, sql)

        try:
            answer = await one.run(used, is_opening=True)
            await require_sessions(one, other, address)
        finally:
            await one.close()
            await other.close()
        return address.shown, answer

    return asyncio.run(asked())


async def _looked(connection: Any, sql: dict[str, str]) -> _Seen:
    from taskyard_server.store.postgres.health import warnings

    version, level, may_use = None, 0, False
    may_make = bool(await connection.fetchval(sql["may_make"]))
    if await connection.fetchval(sql["has_meta"]):
        may_use = bool(await connection.fetchval(sql["may_use"]))
        version, level = await connection.fetchrow(sql["formats"]) if may_use else (0, 0)
    risks = await warnings(connection, sql)
    free = await connection.fetchval(sql["free_connections"])
    sent = time.time()
    at = await connection.fetchval(sql["now"])
    received = time.time()
    found = connection.get_server_version()
    ahead = at - (sent + received) / 2
    return _Seen(f"{found.major}.{found.minor}", version, level, may_make, may_use, risks, free, ahead, received - sent)
