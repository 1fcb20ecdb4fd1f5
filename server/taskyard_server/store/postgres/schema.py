"""The schema of a store in PostgreSQL: made and migrated, by whichever replica comes first."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import asyncpg

from taskyard_server.store.port import StoreError

from .address import PostgresAddress

VERSION: Final = 4
"""The version of the schema. A step "to N" in schema.sql leads from N - 1 to N."""
ASK_AGAIN_SECS: Final = 0.1
"""How long one migration lets pass before it asks again whether another has ended."""
_FILES: Final = ("schema.sql", "members.sql")


@cache
def statements() -> dict[str, str]:
    """The statements of all files by name."""
    found = {}
    for name in _FILES:
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        for part in text.split("\n-- name: ")[1:]:
            name, _, statement = part.partition("\n")
            lines = [line for line in statement.split("\n") if not line.startswith("--")]
            found[name] = "\n".join(lines).strip()
    return found


async def migrate(
    connection: Any,
    address: PostgresAddress,
    sql: dict[str, str] | None = None,
    version: int = VERSION,
    *,
    must_exist: bool = False,
) -> None:
    """Make the schema, or take it to the present version. Raises `StoreError`, and what asyncpg raises.

    Many may do so at once: each step is one transaction that keeps the others out. One that `must_exist` is not made.
    """
    sql = statements() if sql is None else sql
    try:
        while True:
            found = await _version(connection, sql)
            if found is None and must_exist:
                raise StoreError(f"no store at {address.shown}")
            if found is not None and found > version:
                raise StoreError(newer(address, found, version))
            if found == version:
                return
            if (concurrent := sql.get(f"to {(found or 0) + 1} concurrently")) is not None:
                await _execute_alone(connection, sql, concurrent)
            async with connection.transaction():
                await connection.execute(sql["exclude_others"])
                if await _version(connection, sql) == found:
                    await _step(connection, sql, found, version)
    except asyncpg.InsufficientPrivilegeError as error:
        text = address.without_secrets(str(error))
        raise StoreError(
            f"{address.shown}: {text}; the role may not make or change the tables: let one that may run "
            "`taskyard store migrate URL` (docs/operate/durability.md, PostgreSQL)"
        ) from error
    except (asyncpg.DuplicateTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedTableError) as error:
        text = address.without_secrets(str(error))
        raise StoreError(
            f"{address.shown}: its schema taskyard is of something else ({text}); name another database"
        ) from error


async def _execute_alone(connection: Any, sql: dict[str, str], statement: str) -> None:
    """Execute a statement outside of transactions while no other migration executes one.

    Two that build an index at once wait for each other's transactions; so would one whose statement waits for a lock,
    which is why it is asked for again and again. Who is second finds it done: the statement says IF NOT EXISTS.
    """
    while not await connection.fetchval(sql["try_alone"]):  # noqa: ASYNC110 - others are other processes
        await asyncio.sleep(ASK_AGAIN_SECS)
    try:
        await connection.execute(statement)
    finally:
        await connection.execute(sql["end_alone"])


async def _version(connection: Any, sql: dict[str, str]) -> int | None:
    """The version of the schema; None if there is none."""
    if not await connection.fetchval(sql["has_meta"]):
        return None
    found: int | None = await connection.fetchval(sql["read_version"])
    return found


async def _step(connection: Any, sql: dict[str, str], found: int | None, version: int) -> None:
    if found is None:
        # Not IF NOT EXISTS, for which one needs the right to make it where it is there.
        if not await connection.fetchval(sql["has_schema"]):
            await connection.execute(sql["make_schema"])
        await connection.execute(sql["schema"])
    elif f"to {found + 1}" in sql:
        await connection.execute(sql[f"to {found + 1}"])
    await connection.execute(sql["write_version"], version if found is None else found + 1)


def newer(address: PostgresAddress, found: int, version: int) -> str:
    """A schema is of a version to come."""
    text = f"{address.shown} was written by a newer Taskyard (schema {found}, this one knows {version})"
    return f"{text}; start that version again, or restore a backup of before"


def steps(sql: dict[str, str]) -> list[int]:
    """The versions to which there are steps, for tests."""
    return sorted({int(found[1]) for name in sql if (found := re.fullmatch(r"to (\d+)( concurrently)?", name))})
