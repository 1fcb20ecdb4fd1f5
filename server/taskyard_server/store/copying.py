"""Copies all rows of a store into another, empty one, which may be of another kind."""

from __future__ import annotations

from typing import Final

from .port import Group, Store, StoreError, Table

OTHER_TABLES: Final = tuple(
    table for table in Table if table not in (Table.NAMESPACES, Table.TASKS, Table.STATES, Table.ENDED)
)


async def copy(source: Store, target: Store) -> dict[str, int]:
    """Copy all rows between two opened stores; the number of rows by table.

    The copy goes on with the numbers and the epoch of the source. Raises `StoreError` if the target is not empty, or
    does not hold the same afterwards.
    """
    kept = await source.stats()
    target_kept = await target.stats()
    if any(target_kept.rows.values()):
        raise StoreError(f"{target.url} is not empty")
    copier = _Copier(target, kept.number, kept.at)
    await target.go_on_from((await source.kept()))
    return {}
