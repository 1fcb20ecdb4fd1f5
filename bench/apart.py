"""One side of a case in an interpreter of its own, by the benchmark of the version that is measured.

So cases that start no server, such as those of the core, can stand beside an older version, and none disturbs the
memory of another. This file is also what runs there, with the modules of that version:

    python -P bench/apart.py FAMILY "NAME OF THE FIRST ROW" ours|ceiling

It answers each line with seconds by a line with the figures.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any


def side(tree: Path, family: str, case: Any, which: str) -> Any:
    """A side of a case of rows.py, measured by the benchmark in `tree`."""
    from rows import Figure

    @contextmanager
    def opened() -> Iterator[Any]:
        with _started(tree, family, case.rows[0].name, which) as process:

            def measure(secs: float) -> list[Figure]:
                print(secs, file=process.stdin, flush=True)
                line = process.stdout.readline() if process.stdout is not None else ""
                if not line:
                    raise SystemExit(f"{family} ended early")
                return [Figure(**figure) for figure in json.loads(line)]

            yield measure

    return opened


def has(tree: Path, family: str, case: Any) -> bool:
    """True if the benchmark in `tree` has the case."""
    with _started(tree, family, case.rows[0].name, "none") as process:
        return process.wait() == 0


@contextmanager
def _started(tree: Path, family: str, name: str, which: str) -> Iterator[subprocess.Popen[str]]:
    from servers import packages_of

    command = (sys.executable, "-P", __file__, family, name, which)
    errors = subprocess.DEVNULL if which == "none" else None
    environment = {**os.environ, "PYTHONPATH": packages_of(tree)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def main(family: str, name: str, which: str) -> None:
    found = [case for case in importlib.import_module(family).cases() if case.rows[0].name == name]
    if not found:
        raise SystemExit(f"{family} has no row {name}")
    if which == "none":
        return
    with getattr(found[0], which)() as measure:
        for line in sys.stdin:
            print(json.dumps([asdict(figure) for figure in measure(float(line))]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
