"""Tables that fit: on a narrow terminal ids are shortened, lesser columns are left out, and the rest is folded."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Final

from rich.cells import cell_len
from rich.table import Column, Table
from rich.text import Text

from .console import Output, out
from .server import shown

SHORTEST_ID: Final = 16
"""`tsk_` and the millisecond of the submit."""
FOLDED_WIDTH: Final = 16
"""Columns are left out rather than that others are folded to less."""
LEAST_WIDTH: Final = 8
"""No column is folded to less than that, unless all are."""
GAP: Final = 2


@dataclass(frozen=True, slots=True)
class Head:
    """A column: its name, whether it holds numbers or ids of tasks, and when it is left out, the highest first."""

    name: str
    lesser: int = 0
    is_number: bool = False
    is_id: bool = False


def number(name: str, lesser: int = 0) -> Head:
    """A column of numbers."""
    return Head(name, lesser, is_number=True)


def task_id(name: str, lesser: int = 0) -> Head:
    """A column of ids of tasks."""
    return Head(name, lesser, is_id=True)


class ListingTable:
    """A table that is built row by row, and then printed as the terminal has room. `note` stands below it."""

    def __init__(self, *heads: Head | str) -> None:
        self._heads = [Head(head) if isinstance(head, str) else head for head in heads]
        self._rows: list[tuple[Text, ...]] = []
        self._has_section = False
        self.note = ""

    def add(self, *cells: Text | str, last: bool = False) -> None:
        """Add a row; texts of callers lose their control characters. `last` sets it off as a sum of those above."""
        self._rows.append(tuple(shown(cell) if isinstance(cell, str) else cell for cell in cells))
        self._has_section = self._has_section or last

    def print(self, to: Output = out) -> None:
        """Print it."""
        to.print(self.table(to.size.width if to.is_fitted else None))

    def table(self, width: int | None = None, *, is_cut: bool = False) -> Table:
        """The table for this many cells in a line; None for as many as it takes.

        With `is_cut` texts are cut in place of folded, for tables with a line a row that are drawn again and again.
        """
        heads, rows = self._heads, self._rows
        left_out: list[str] = []
        if width is not None:
            if _width(heads, rows) > width:
                rows = _with_short_ids(heads, rows)
            while _width(heads, rows, FOLDED_WIDTH) > width and any(head.lesser for head in heads):
                index = max(range(len(heads)), key=lambda each: heads[each].lesser)
                left_out.append(heads[index].name)
                heads = heads[:index] + heads[index + 1 :]
                rows = [row[:index] + row[index + 1 :] for row in rows]
        folded = _folded(heads, rows, width)
        columns = [
            Column(
                head.name,
                justify="right" if head.is_number else "left",
                overflow="ellipsis" if is_cut else "fold",
                no_wrap=is_cut or not fold,
                min_width=LEAST_WIDTH if fold else None,
            )
            for head, fold in zip(heads, folded, strict=True)
        ]
        table = Table(*columns, box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        for index, row in enumerate(rows):
            if self._has_section and index == len(rows) - 1:
                table.add_section()
            table.add_row(*row)
        hidden = f"not shown: {', '.join(reversed(left_out))} (--wide)" if left_out else ""
        if note := "; ".join(filter(None, (self.note, hidden))):
            table.caption = Text(note, "dim")
            table.caption_justify = "left"
        return table


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """The shortest beginnings by which these ids are told from each other, at least `SHORTEST_ID` characters."""
    ordered = sorted(set(ids))
    shared = [0, *(_shared(*pair) for pair in pairwise(ordered)), 0]
    return {each: each[: max(SHORTEST_ID, 1 + max(shared[at : at + 2]))] for at, each in enumerate(ordered)}


def _shared(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _with_short_ids(heads: Sequence[Head], rows: list[tuple[Text, ...]]) -> list[tuple[Text, ...]]:
    columns = [index for index, head in enumerate(heads) if head.is_id]
    short = short_ids(row[index].plain for row in rows for index in columns)
    return [
        tuple(Text(short[cell.plain], cell.style) if index in columns else cell for index, cell in enumerate(row))
        for row in rows
    ]


def _width(heads: Sequence[Head], rows: Sequence[tuple[Text, ...]], most: int | None = None) -> int:
    """The rows of the table, where texts are folded to this many cells, if to any."""
    widths = _widths(heads, rows)
    if most is not None:
        widths = [
            width if head.is_id or head.is_number else min(width, most)
            for head, width in zip(heads, widths, strict=True)
        ]
    return sum(widths) + GAP * (len(heads) - 1)


def _widths(heads: Sequence[Head], rows: Sequence[tuple[Text, ...]]) -> list[int]:
    return [
        max(cell_len(head.name), *(row[index].cell_len for row in rows)) if rows else cell_len(head.name)
        for index, head in enumerate(heads)
    ]


def _folded(heads: Sequence[Head], rows: Sequence[tuple[Text, ...]], width: int | None) -> list[bool]:
    """Which columns are folded: the widest ones, as few as will do, and never ids or numbers while there are others."""
    widths = _widths(heads, rows)
    folded = [False] * len(heads)
    if width is None:
        return folded
    order = sorted(range(len(heads)), key=lambda index: (heads[index].is_id or heads[index].is_number, -widths[index]))
    need = sum(widths) + GAP * (len(heads) - 1)
    for index in order:
        if need <= width:
            break
        folded[index] = True
        need -= max(0, widths[index] - LEAST_WIDTH)
    return folded
