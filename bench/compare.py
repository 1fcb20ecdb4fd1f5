"""Compares two runs of the benchmarks: what changed by more than the spread of the rounds.

    python bench/compare.py BEFORE.json AFTER.json

Two machines, or two hours on one machine, differ too: the ceilings show by how much.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from rows import Figure, Result, Run, shown

HEADER = ("", "unit", "before", "after", "change", "of ceiling", "ratio before", "after", "")
TEXT_COLUMNS = (0, 1, len(HEADER) - 1)


def comparison(before: Run, after: Run) -> str:
    """The differences of the machines, then a line for each row of either run."""
    earlier = {result.row.name: result for result in before.results}
    later = {result.row.name: result for result in after.results}
    lines = [HEADER, *(_cells(result, later[name]) for name, result in earlier.items() if name in later)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADER))]
    text = [
        f"{key}: {before.machine.get(key, 'unknown')} -> {after.machine.get(key, 'unknown')}"
        for key in before.machine | after.machine
        if before.machine.get(key) != after.machine.get(key)
    ]
    text += ["  ".join(_aligned(line, widths)).rstrip() for line in lines]
    text += [f"{name}: only before" for name in earlier if name not in later]
    text += [f"{name}: only after" for name in later if name not in earlier]
    return "\n".join(text)


def verdict(before: Result, after: Result) -> str:
    """True if ours became better or worse, or why that cannot be decided."""
    if min(len(before.ours), len(after.ours)) < 2:
        return "one round"
    ours = _direction(before.ours, after.ours)
    if ours == 0:
        return "within the spread"
    word = "better" if (ours > 0) == (after.row.better == "more") else "worse"
    shares = bool(before.ceiling and after.ceiling) and _direction(before.ceiling, after.ceiling) == ours
    return f"{word}, the ceiling too" if shares else word


def _direction(before: Sequence[Figure], after: Sequence[Figure]) -> int:
    """1 if every round of the later run is above all of the earlier one, -1 if below, else 0."""
    lowest, highest = _spread(before)
    low, high = _spread(after)
    return (low > highest) - (high < lowest)


def _spread(figures: Sequence[Figure]) -> tuple[float, float]:
    values = [figure.value for figure in figures]
    return min(values), max(values)


def _cells(before: Result, after: Result) -> tuple[str, ...]:
    return (
        after.row.name,
        after.row.unit,
        shown(before.value),
        shown(after.value),
        _change(before.value, after.value),
        _change(before.ceiling_value, after.ceiling_value),
        "" if before.ratio is None else f"{before.ratio:.2f}",
        "" if after.ratio is None else f"{after.ratio:.2f}",
        verdict(before, after),
    )


def _change(before: float | None, after: float | None) -> str:
    return f"{(after / before - 1) * 100:+.1f} %" if before and after is not None else ""


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if column in TEXT_COLUMNS else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]


def read(file: Path) -> Run:
    """Read a file of `run.py --json`. Raises `SystemExit` for any other file."""
    try:
        return Run.from_json(json.loads(file.read_text()))
    except OSError as error:
        raise SystemExit(f"{file}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, KeyError, TypeError):
        raise SystemExit(f"{file}: is not a run of the benchmarks") from None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    given = parser.parse_args()
    print(comparison(read(given.before), read(given.after)))


if __name__ == "__main__":
    main()
