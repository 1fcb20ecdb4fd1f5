"""Checks of a store in PostgreSQL when it is opened, and on request: whether it keeps what it is trusted with."""

from __future__ import annotations

from typing import Any, Final

from taskyard_server.store.port import NAMESPACE_SHIFT, StoreError

from .address import PostgresAddress
from .errors import DIRECT
from .links import Link

OLDEST: Final = 14
LINES: Final = 20
"""This many findings of a kind are named, the rest is counted."""
_RULES: Final = {
    "states_without_task": "has a state and no task row",
    "ended_without_task": "has ended and has no task row",
    "live_and_ended": "is live and has ended",
    "neither_live_nor_ended": "has neither a state nor an end",
    "output_without_task": "has output and no task row",
}


def require_version(connection: Any, address: PostgresAddress) -> None:
    """Raise `StoreError` if the server is too old."""
    version = connection.get_server_version()
    if version.major < OLDEST:
        raise StoreError(f"{address.shown} is PostgreSQL {version.major}; at least {OLDEST} is needed")


async def require_sessions(one: Link, other: Link, address: PostgresAddress) -> None:
    """Raise `StoreError` if a proxy gives a server's session to anyone who has something to do.

    Then LISTEN and prepared statements do not work. Such a proxy gives the session that one connection has just used
    to the other: both see the same process of the server.
    """

    async def process(connection: Any) -> int:
        async with connection.transaction():
            found: int = await connection.fetchval("SELECT pg_backend_pid()")
        return found

    for _ in range(2):
        if await one.run(process, is_opening=True) == await other.run(process, is_opening=True):
            raise StoreError(f"{address.shown}: a proxy pools transactions; {DIRECT}")


async def warnings(connection: Any, sql: dict[str, str]) -> list[str]:
    """The settings that may cost acknowledged work, a line each."""
    fsync, synchronous, standbys, following = await connection.fetchrow(sql["safety"])
    lines = []
    if fsync == "off":
        lines.append("fsync is off in PostgreSQL: a crash of its machine may destroy everything")
    if synchronous == "off":
        lines.append("synchronous_commit is off in PostgreSQL: a crash of it takes the last moment of what was kept")
    if standbys and synchronous in ("off", "local"):
        lines.append(
            f"synchronous_commit is {synchronous} in PostgreSQL: its standbys are not waited for, and a failover to "
            "one takes the last moment of what was kept"
        )
    if following and not standbys:
        lines.append(
            "standbys follow PostgreSQL, but synchronous_standby_names is empty: a failover to one takes the last "
            "moment of what was kept"
        )
    return lines


async def broken_rules(connection: Any, sql: dict[str, str]) -> list[str]:
    """The contradictions, a line each, as of one moment."""
    lines = []
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        for rule, words in _RULES.items():
            keys = [key for (key,) in await connection.fetch(sql[rule])]
            lines += [f"{_name(key)} {words}" for key in keys[:LINES]]
            if len(keys) > LINES:
                lines.append(f"and {len(keys) - LINES} more, each of which {words}")
        for namespace, table, key in await connection.fetch(sql["without_namespace"]):
            lines.append(f"namespace {namespace} has no row, and table {table} has rows of it, the first at key {key}")
        for (namespace,) in await connection.fetch(sql["without_owner"]):
            lines.append(f"namespace {namespace} has a row, and none in the table owners: nobody will serve it")
    return lines


def _name(key: int) -> str:
    return f"task {key & (1 << NAMESPACE_SHIFT) - 1} of namespace {key >> NAMESPACE_SHIFT}"
