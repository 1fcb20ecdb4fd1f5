"""The results of a benchmark: rows, the figures of their rounds, and the table and the JSON made from them.

This module starts nothing and measures nothing. A *ceiling* is the figure of the bare transport with the same messages
in the same run; the *counted* one is that of hosts whose accepted reports are counted and whose credit comes with
reports. *Older* is an older version of Taskyard, measured in turn with this one. A ratio is always ours by the other
figure, no matter whether more or less is better.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal

BUSY_SHARE = 0.9
"""Share of one core above which a process has no capacity left."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement of one row, in one round.

    `server_cpu_us` is microseconds of the server's CPU per operation; the shares are of one core. All are None where
    they have no meaning.
    """

    value: float
    server_cpu_us: float | None = None
    server_share: float | None = None
    client_share: float | None = None

    @property
    def is_of_the_client(self) -> bool:
        """True if the load generator was the limit: the server could have done more."""
        if self.client_share is None or self.server_share is None:
            return False
        return self.client_share > BUSY_SHARE > self.server_share


@dataclass(frozen=True, slots=True)
class Aim:
    """The minimum of the ratio or the value, or the maximum where less is better."""

    bound: float
    of: Literal["ratio", "value"] = "ratio"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Two runs are compared by its name."""

    name: str
    unit: str
    better: Literal["more", "less"] = "more"
    aim: Aim | None = None
    remark: str = ""


Measure = Callable[[float], Sequence[Figure]]
"""Measures for about this number of seconds, and returns a figure for each row of its case."""


Side = Callable[[], AbstractContextManager[Measure]]
"""Opens ours or the ceiling, which starts and stops servers."""


@dataclass(frozen=True, slots=True)
class Case:
    """The rows that one measurement fills, ours and the ceilings.

    Each side is opened once, measured in every round, and closed. `rounds` and `secs` override those of the run.
    `older` is whether an older version can stand beside this one: its side is `ours` with servers of that version. If
    no server is started, the case is `apart`: each side has an interpreter of its own, and the older version its
    own benchmark.
    """

    rows: tuple[Row, ...]
    ours: Side
    ceiling: Side | None = None
    counted: Side | None = None
    older: bool = True
    apart: bool = False
    rounds: int | None = None
    secs: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """All rounds of a row. `ceiling`, `counted` and `older` are as long as `ours`, or empty for a row without them."""

    row: Row
    ours: tuple[Figure, ...]
    ceiling: tuple[Figure, ...] = ()
    counted: tuple[Figure, ...] = ()
    older: tuple[Figure, ...] = ()

    @property
    def value(self) -> float:
        """The median of the rounds, in the unit of the row."""
        return median(figure.value for figure in self.ours)

    @property
    def ceiling_value(self) -> float | None:
        """The median of the ceiling, None for a row without one."""
        return median(figure.value for figure in self.ceiling) if self.ceiling else None

    @property
    def ratio(self) -> float | None:
        """Ours by the ceiling."""
        return self.ratio_to(self.ceiling)

    def ratio_to(self, others: Sequence[Figure]) -> float | None:
        """The median of the ratios of the rounds, because a disturbance of a round affects all of its sides.

        None by nothing, as where only ours has a process that writes.
        """
        if not others or not all(other.value for other in others):
            return None
        return median(ours.value / other.value for ours, other in zip(self.ours, others, strict=True))

    @property
    def is_met(self) -> bool | None:
        """True if the aim is reached, None for a row without one."""
        aim = self.row.aim
        reached = None if aim is None else self.value if aim.of == "value" else self.ratio
        if aim is None or reached is None:
            return None
        return reached >= aim.bound if self.row.better == "more" else reached <= aim.bound

    def as_json(self) -> dict[str, Any]:
        """The JSON for a file: every round, and the medians for human readers."""
        return {
            **asdict(self.row),
            "value": self.value,
            "ceiling_value": self.ceiling_value,
            "ratio": self.ratio,
            "ours": [asdict(figure) for figure in self.ours],
            "ceiling": [asdict(figure) for figure in self.ceiling],
            "counted": [asdict(figure) for figure in self.counted],
            "older": [asdict(figure) for figure in self.older],
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Result":
        """The result from the JSON of a file. Raises `KeyError` or `TypeError` for anything else."""
        aim = None if saved["aim"] is None else Aim(**saved["aim"])
        row = Row(saved["name"], saved["unit"], saved["better"], aim, saved["remark"])
        # Files of before have neither a counted ceiling nor an older version.
        sides = (saved["ours"], saved["ceiling"], saved.get("counted", ()), saved.get("older", ()))
        return cls(row, *(tuple(Figure(**figure) for figure in side) for side in sides))


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run: the machine with its versions, and the results."""

    machine: dict[str, str]
    results: tuple[Result, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The JSON for a file."""
        return {"machine": self.machine, "rows": [result.as_json() for result in self.results]}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Run":
        """The run from the JSON of a file. Raises `KeyError` or `TypeError` for anything else."""
        return cls(saved["machine"], tuple(Result.from_json(row) for row in saved["rows"]))


HEADER = (
    *("", "ours", "older", "ceiling", "counted", "unit", "by older", "ratio", "by counted", "aim", "met"),
    *("CPU us", "of older", "of ceiling", "of counted"),
)
LEFT_ALIGNED = ("", "unit", "aim", "met")
ALWAYS_SHOWN = ("", "ours", "ceiling", "unit", "ratio", "aim", "met", "CPU us", "of ceiling")
"""The other columns are left out where no row has them."""


def table(results: Sequence[Result]) -> str:
    """The table, and below it the meaning of its columns and marks."""
    cells = [_cells(result) for result in results]
    shown_ones = [
        place for place, title in enumerate(HEADER) if title in ALWAYS_SHOWN or any(line[place] for line in cells)
    ]
    header, *lines = [tuple(line[place] for place in shown_ones) for line in (HEADER, *cells)]
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    text = ["  ".join(_aligned(line, header, widths)).rstrip() for line in (header, *lines)]
    text += ["", "CPU us: of the server's process, an operation"]
    if "counted" in header:
        text.append("counted: the ceiling of hosts whose accepted reports are counted, with credit in reports")
    if any(_is_of_the_client(side) for each in results for side in (each.ours, each.older, each.ceiling, each.counted)):
        text.append("*: the load generator was the limit, the server had CPU to spare")
    for remark in dict.fromkeys(result.row.remark for result in results if result.row.remark):
        names = "; ".join(result.row.name for result in results if result.row.remark == remark)
        text.append(f"{names}: {remark}")
    return "\n".join(text)


def shown(value: float) -> str:
    """A value with three significant digits and separated thousands."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _cells(result: Result) -> tuple[str, ...]:
    row = result.row
    return (
        row.name,
        *map(_value, (result.ours, result.older, result.ceiling, result.counted)),
        row.unit,
        *(_ratio(result.ratio_to(side)) for side in (result.older, result.ceiling, result.counted)),
        _aim(row),
        {True: "yes", False: "no", None: ""}[result.is_met],
        *map(_cpu, (result.ours, result.older, result.ceiling, result.counted)),
    )


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _value(figures: Sequence[Figure]) -> str:
    if not figures:
        return ""
    return shown(median(figure.value for figure in figures)) + ("*" if _is_of_the_client(figures) else "")


def _is_of_the_client(figures: Sequence[Figure]) -> bool:
    # Most rounds decide, because the machine may have been busy during one of them.
    return 2 * sum(figure.is_of_the_client for figure in figures) > len(figures)


def _aim(row: Row) -> str:
    if row.aim is None:
        return ""
    sign = ">=" if row.better == "more" else "<="
    return f"{sign} {row.aim.bound:.2f}" if row.aim.of == "ratio" else f"{sign} {row.aim.bound:,g} {row.unit}"


def _cpu(figures: Sequence[Figure]) -> str:
    known = [figure.server_cpu_us for figure in figures if figure.server_cpu_us is not None]
    return shown(median(known)) if known else ""


def _aligned(line: Sequence[str], header: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if title in LEFT_ALIGNED else cell.rjust(width)
        for cell, title, width in zip(line, header, widths, strict=True)
    ]
