"""Tables of `taskyard top`: a row is one line, whatever is in it; columns that do not fit are left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from taskyard_server.cli.listing import Head

GAP: Final = 2
LEAST_NAME: Final = 12
"""The first column is cut to no less, but for a screen that is narrower."""


def table_lines(heads: Sequence[Head], rows: Sequence[Sequence[Text]], width: int) -> list[Text]:
    """The lines of a table for this many cells, its heads first. The first column takes what the others leave."""
    columns = list(range(len(heads)))
    widths = [max(len(head.name), *(row[at].cell_len for row in rows), 1) for at, head in enumerate(heads)]

    def needed() -> int:
        return min(widths[0], LEAST_NAME) + sum(GAP + widths[at] for at in columns[1:])

    while len(columns) > 1 and needed() > width:
        columns.remove(max(columns[1:], key=lambda at: (heads[at].lesser, at)))
    rest = sum(GAP + widths[at] for at in columns[1:])
    widths[0] = max(1, min(widths[0], width - rest))
    titles = [Text(head.name, "bold") for head in heads]
    return [_line(heads, each, columns, widths) for each in (titles, *rows)]


def beside(left: Sequence[Text], right: Sequence[Text], width: int) -> list[Text]:
    """Two columns of lines, each of this many cells."""
    lines = []
    for at in range(max(len(left), len(right))):
        line = left[at].copy() if at < len(left) else Text()
        line.truncate(width, overflow="ellipsis", pad=True)
        if at < len(right):
            line.append("  ")
            line.append_text(right[at])
        lines.append(line)
    return lines


def _line(heads: Sequence[Head], row: Sequence[Text], columns: Sequence[int], widths: Sequence[int]) -> Text:
    line = Text()
    for at in columns:
        if at:
            line.append(" " * GAP)
        cell = row[at].copy()
        cell.truncate(widths[at], overflow="ellipsis")
        missing = widths[at] - cell.cell_len
        if heads[at].is_number:
            cell.pad_left(missing)
        else:
            cell.pad_right(missing)
        line.append_text(cell)
    return line
