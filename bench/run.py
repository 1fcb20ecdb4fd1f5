"""`make bench`: runs the benchmarks, ours, an older version and the ceilings alternately, and prints one table.

    python bench/run.py [--rows WORD ...] [--secs S] [--rounds N] [--against REF] [--json FILE]

The older version is REF of this repository, by default what older.py names; with `--against none` there is none. The
figures depend on the machine; the ratios can be compared between machines. Nothing here passes or fails.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import apart
import older
import servers
from rows import Case, Figure, Measure, Result, Run, Side, table

FAMILIES = (
    "core", "core_keys", "memory", "submits", "end_to_end", "latency", "watching", "idle_hosts", "start_up", "durable",
    "day", "secured", "shared", "maps", "many_at_once", "observed", "output", "soon",
)  # fmt: skip
PACKAGES = ("grpcio", "protobuf", "uvloop")


def cases(words: Sequence[str]) -> Iterator[tuple[str, Case]]:
    """The cases of the named families, and those with a row whose name contains a word. All cases without words.

    Each comes with its family.
    """
    parts = [word.lower() for word in words if word not in FAMILIES]
    for family in FAMILIES:
        if words and family not in words and not parts:
            continue
        for case in importlib.import_module(family).cases():
            names = " ".join(row.name for row in case.rows).lower()
            if not words or family in words or any(part in names for part in parts):
                yield family, case


def measure(case: Case, rounds: int, secs: float, family: str = "", tree: Path | None = None) -> list[Result]:
    """All rounds of a case. Its sides alternate, so that other work of the machine affects all.

    `family` is the module of a case whose sides are apart; `tree` has the older version, None for none.
    """
    sides = _sides(family, case, tree)
    taken: dict[str, list[Sequence[Figure]]] = {name: [] for name in sides}
    with ExitStack() as opened:
        takes: dict[str, tuple[Path | None, Measure]] = {}
        for name, (of, side) in sides.items():
            with servers.version(of):
                takes[name] = (of, opened.enter_context(side()))
        for _ in range(case.rounds or rounds):
            for name, (of, take) in takes.items():
                with servers.version(of):
                    taken[name].append(tuple(take(case.secs or secs)))
    return [
        Result(row, **{name: tuple(figures[place] for figures in all_rounds) for name, all_rounds in taken.items()})
        for place, row in enumerate(case.rows)
    ]


def _sides(family: str, case: Case, tree: Path | None) -> dict[str, tuple[Path | None, Side]]:
    """The sides of a case by the name that they have in a result, each with the version that it starts."""
    if case.apart:
        here = older.ROOT
        case = replace(
            case,
            ours=apart.side(here, family, case, "ours"),
            ceiling=apart.side(here, family, case, "ceiling") if case.ceiling is not None else None,
        )
    found: dict[str, tuple[Path | None, Side]] = {"ours": (None, case.ours)}
    if tree is not None and case.older:
        if not case.apart:
            found["older"] = (tree, case.ours)
        elif apart.has(tree, family, case):
            found["older"] = (None, apart.side(tree, family, case, "ours"))
    if case.ceiling is not None:
        found["ceiling"] = (None, case.ceiling)
    if case.counted is not None:
        found["counted"] = (None, case.counted)
    return found


def machine() -> dict[str, str]:
    """The machine and the versions, on which the figures depend."""
    return {
        "CPU": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        **{package: importlib.metadata.version(package) for package in PACKAGES},
        "Envoy": _version("envoy", "--version"),
        "Go": _version("go", "version"),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _version(*command: str) -> str:
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "none"
    found = re.search(r"\d+(\.\d+)+", output.rpartition("version")[2])
    return found[0] if found else "unknown"


def measure_all(
    chosen: Iterable[tuple[str, Case]], rounds: int, secs: float, tree: Path | None = None
) -> tuple[list[Result], list[str]]:
    """The results, and a line for each case that has failed. The other cases still run."""
    results: list[Result] = []
    failures: list[str] = []
    for family, case in chosen:
        name, begin = case.rows[0].name, time.monotonic()
        print(f"{name} ...", end="", file=sys.stderr, flush=True)
        try:
            results += measure(case, rounds, secs, family, tree)
        except (Exception, SystemExit) as error:
            failures.append(f"{name}: failed: {error or type(error).__name__}")
        print(f" {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return results, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", nargs="+", default=[], metavar="WORD", help=f"{', '.join(FAMILIES)}, or part of a name"
    )
    parser.add_argument("--secs", type=float, default=1.0, help="how long one measurement takes, about")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--against", default=older.DEFAULT, metavar="REF", help="the older version; `none` for none (%(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to keep all rounds, for compare.py")
    given = parser.parse_args()
    # On SIGTERM, too, the started processes are ended.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    tree = older.tree(given.against)
    about = {**machine(), "older": "none" if tree is None else tree.name[:12]}
    print(", ".join(f"{name} {value}" for name, value in about.items()), flush=True)
    begin = time.monotonic()
    results, failures = measure_all(cases(given.rows), given.rounds, given.secs, tree)
    print(f"{given.rounds} rounds of {given.secs:g} s, {time.monotonic() - begin:.0f} s in all\n")
    if results:
        print(table(results))
    if given.json is not None:
        given.json.write_text(json.dumps(Run(about, tuple(results)).as_json(), indent=1) + "\n")
    if failures or not results:
        raise SystemExit("\n".join(failures) or "no row is called that")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
