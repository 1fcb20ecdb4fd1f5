"""The statement of a commit, composed of the parts that a group needs, so that few texts are planned, once each.

One statement fences and writes: rows go only where the fence of their namespace held, which is decided under the lock
of its owner's row (schema.sql, fence). So nothing that comes late, or from who owns no longer, overwrites.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn

from taskyard_server.store.port import Group, Row, StoreError, Table, namespace_of

UNFENCED: Final = frozenset({Table.TOKENS, Table.SECRETS, Table.TOKEN_USES})
"""Their rows belong to no namespace."""
UNFENCED_ROWS: Final = -1
"""Stands in the answer for the rows without a fence."""


class Shape(NamedTuple):
    """The parts of a statement: the whole store's fence or those of namespaces, tables, and output."""

    is_whole: bool
    has_fences: bool
    has_unfenced: bool
    removes: tuple[Table, ...]
    puts: tuple[Table, ...]
    cuts_output: bool
    puts_output: bool


class Commit(NamedTuple):
    """A statement with its arguments. It answers the namespaces that were written, and `UNFENCED_ROWS`."""

    statement: str
    arguments: list[Any]
    has_unfenced: bool


class Composer:
    """Composes commits. `sql` are the statements of schema.sql."""

    def __init__(self, sql: dict[str, str]) -> None:
        self._sql = sql
        self._text: Callable[[Shape], str] = lru_cache(maxsize=1024)(self._compose)

    def whole(self, group: Group) -> Commit:
        """A commit of who uses the whole store."""
        removes, puts = _removes(group), _puts(group)
        shape = Shape(True, False, False, tuple(removes), tuple(puts), *_has_output(group))
        arguments = [group.number, group.at, *_values(removes, puts), *_output_values(group)]
        return Commit(self._text(shape), arguments, has_unfenced=False)

    def fenced(self, group: Group, instance: str, writer: str, write_no: int) -> Commit:
        """A commit of one of several replicas. Raises `StoreError` if a row has no fence.

        `write_no` counts the groups of this writer: one that is sent again has the same.
        """
        removes, puts = _removes(group), _puts(group)
        _require_fences(group, removes, puts)
        has_unfenced = not UNFENCED.isdisjoint((*removes, *puts))
        tables = (tuple(removes), tuple(puts))
        shape = Shape(False, bool(group.fences), has_unfenced, *tables, *_has_output(group))
        arguments: list[Any] = []
        if group.fences:
            # In one order, so that two who write the same rows meet at the first.
            spaces = sorted(group.fences)
            fences = [group.fences[space] for space in spaces]
            arguments += [spaces, [fence.term for fence in fences], [fence.number for fence in fences]]
            arguments += [[fence.needs_owner for fence in fences], instance]
        if has_unfenced:
            arguments += [writer, write_no]
        arguments += _values(removes, puts) + _output_values(group)
        return Commit(self._text(shape), arguments, has_unfenced)

    def _compose(self, shape: Shape) -> str:
        number = 0

        def part(name: str, *arguments: str, **words: str) -> str:
            nonlocal number
            for argument in arguments:
                number += 1
                words[argument] = f"${number}"
            return self._sql[name].format(**words)

        parts, answers = [], []
        if shape.is_whole:
            parts.append(f"fenced AS ({part('fence_whole', 'number', 'at')})")
            answers.append("SELECT ns FROM fenced")
        if shape.has_fences:
            parts.append(f"fenced AS ({part('fence', 'spaces', 'terms', 'numbers', 'needs', 'instance')})")
            answers.append("SELECT ns FROM fenced")
        if shape.has_unfenced:
            parts.append(f"unfenced AS ({part('unfenced', 'writer', 'write_no')})")
            answers.append("SELECT ns FROM unfenced")
        for table in shape.removes:
            words = {"table": table.name.lower(), "right": _right(shape, table)}
            parts.append(f"remove_{words['table']} AS ({part('remove', 'keys', **words)})")
        for table in shape.puts:
            words = {"table": table.name.lower(), "right": _right(shape, table)}
            if table is Table.ENDED:
                text = part("put_ended", "keys", "ats", "records", **words)
            else:
                text = part("put_new" if table is Table.SECRETS else "put", "keys", "records", **words)
            parts.append(f"put_{words['table']} AS ({text})")
        right = _right(shape, Table.TASKS)
        if shape.cuts_output:
            parts.append(f"cut_output AS ({part('cut_output', 'keys', 'befores', right=right)})")
        if shape.puts_output:
            text = part("put_output", "keys", "firsts", "begins", "records", right=right)
            parts.append(f"put_output AS ({text})")
        return f"WITH {', '.join(parts)} {' UNION ALL '.join(answers)}" if parts else ""


def _right(shape: Shape, table: Table) -> str:
    """The condition under which a row x of a table may be written."""
    if shape.is_whole:
        return "EXISTS (SELECT FROM fenced)"
    if table in UNFENCED:
        return "EXISTS (SELECT FROM unfenced)"
    space = "x.key" if table is Table.NAMESPACES else "x.key >> 40"
    return f"{space} IN (SELECT ns FROM fenced)"


def _puts(group: Group) -> dict[Table, dict[int, Any]]:
    """The rows by table and key: the last one of each, since one statement must not touch a row twice."""
    puts: dict[Table, dict[int, Any]] = {}
    for table in sorted(group.puts):
        rows: Iterable[Row] = group.puts[table]
        if rows:
            puts[table] = dict(rows)
    if group.ended:
        puts[Table.ENDED] = {key: (at, record) for key, at, record in group.ended}
    return puts


def _removes(group: Group) -> dict[Table, list[int]]:
    """The keys by table; one that is also put is only put."""
    removes: dict[Table, list[int]] = {}
    for table in sorted(group.removes):
        put = {key for key, *_ in (group.ended if table is Table.ENDED else group.puts.get(table, ()))}
        if keys := [key for key in group.removes[table] if key not in put]:
            removes[table] = keys
    return removes


def _values(removes: dict[Table, list[int]], puts: dict[Table, dict[int, Any]]) -> list[Any]:
    values: list[Any] = list(removes.values())
    for table, rows in puts.items():
        values.append(list(rows))
        if table is Table.ENDED:
            values.append([at for at, _ in rows.values()])
            values.append([record for _, record in rows.values()])
        else:
            values.append(list(rows.values()))
    return values


def _has_output(group: Group) -> tuple[bool, bool]:
    """True for each of the two that a group has: cuts of output, output."""
    return bool(group.output_cuts), bool(group.outputs)


def _output_values(group: Group) -> list[Any]:
    """The columns of what is cut and of what is put; of rows that are put twice the last.

    Both parts of the statement see the rows of before: a cut never reaches what the same group puts (`OutputCut`).
    """
    values: list[Any] = []
    if group.output_cuts:
        values += map(list, zip(*group.output_cuts, strict=True))
    if group.outputs:
        rows = {(row.key, row.first): row for row in group.outputs}
        values += map(list, zip(*rows.values(), strict=True))
    return values


def _require_fences(group: Group, removes: dict[Table, list[int]], puts: dict[Table, dict[int, Any]]) -> None:
    fences = group.fences
    for table, keys in (*removes.items(), *puts.items()):
        if table in UNFENCED:
            continue
        spaces = set(keys) if table is Table.NAMESPACES else {namespace_of(key) for key in keys}
        if not fences.keys() >= spaces:
            _raise_unfenced(table.name, spaces - fences.keys())
    spaces = {namespace_of(row.key) for rows in (group.outputs, group.output_cuts) for row in rows}
    if not fences.keys() >= spaces:
        _raise_unfenced("OUTPUT", spaces - fences.keys())


def _raise_unfenced(table: str, spaces: set[int]) -> NoReturn:
    raise StoreError(f"rows of {table} of namespace {min(spaces)} came without a fence; please report it")
