"""mypy and pyright accept the programs in `accepted`, and refuse each line that ends in `# wrong` in `refused`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.gate("type checkers"), pytest.mark.long]

HERE = Path(__file__).parent
SDK = Path(__file__).parents[4] / "clients" / "python"

Lines = dict[tuple[str, int], list[str]]


def by_mypy(folder: Path, scratch: Path) -> Lines:
    """The lines that mypy refuses, with its messages."""
    config = scratch / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n[mypy-taskyard.*]\nfollow_imports = silent\n")
    done = run(
        [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", scratch / "cache", *files(folder)],
        scratch,
    )
    found: Lines = {}
    for line in done.splitlines():
        if match := re.match(r"(.+?):(\d+): error: (.*)", line):
            found.setdefault((Path(match[1]).name, int(match[2])), []).append(match[3])
    return found


def by_pyright(folder: Path, scratch: Path) -> Lines:
    """The lines that pyright refuses in its strict mode, with its messages. basedpyright is pyright with a wheel."""
    config = {"typeCheckingMode": "strict", "include": [str(folder)], "extraPaths": [str(SDK)]}
    (scratch / "pyrightconfig.json").write_text(json.dumps(config))
    program = Path(sys.executable).with_name("basedpyright")
    answer = run([program, "--outputjson", "-p", scratch], scratch)
    found: Lines = {}
    for each in json.loads(answer)["generalDiagnostics"]:
        if each["severity"] == "error":
            place = (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
            found.setdefault(place, []).append(each["message"])
    return found


def run(command: list[object], folder: Path) -> str:
    environment = {**os.environ, "MYPYPATH": str(SDK), "PYTHONPATH": str(SDK)}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode in (0, 1), done.stderr or done.stdout
    return done.stdout


def files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.py"))
    assert found
    return found


def statements(folder: Path) -> Lines:
    """The lines that are marked as wrong."""
    return {
        (file.name, number): []
        for file in files(folder)
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if line.endswith("# wrong")
    }


CHECKERS = pytest.mark.parametrize("checker", [by_mypy, by_pyright])


@CHECKERS
def test_what_is_right_is_accepted(checker: Callable[[Path, Path], Lines], tmp_path: Path) -> None:
    assert checker(HERE / "accepted", tmp_path) == {}


@CHECKERS
def test_what_is_wrong_is_refused_and_nothing_else(checker: Callable[[Path, Path], Lines], tmp_path: Path) -> None:
    found = checker(HERE / "refused", tmp_path)
    assert found.keys() == statements(HERE / "refused").keys(), found
