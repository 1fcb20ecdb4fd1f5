"""Installs Taskyard from an index as a stranger does, who has uv and a Python and nothing else, and measures it.

    python tools/packages/try_index.py FOLDER...

The folders have the wheels and the sdist; they are served as an index beside the one that this machine uses. A line
tells how long `uvx ... taskyard up` takes until it has accepted a task, without and with uv's cache, and which form of
the core it runs. Another tells what the plain package brings. There is no compiler on the path of any of these.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPException
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.request import Request, urlopen

ROOT: Final = Path(__file__).parents[2]
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TASK: Final = json.dumps({"agentId": "ann", "action": "greet"}).encode()
WAIT_SECS: Final = 120
FORM: Final = "import taskyard_server.core.scheduler as found; print(found.__file__)"
IMPORTED: Final = """
import importlib.metadata, sys
before = set(sys.modules)
import taskyard
owners = importlib.metadata.packages_distributions()
names = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
print(*sorted({owners[name][0] for name in names if name in owners}))
"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and writes no log. The listing of a folder is the page of an index."""

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def index_of(folders: list[Path], place: Path) -> Iterator[str]:
    """The URL of an index that has what is in the folders, for as long as this lasts."""
    (place / "taskyard").mkdir(parents=True)
    for file in (file for folder in folders for file in folder.glob("taskyard-*")):
        shutil.copy(file, place / "taskyard")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(place)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


class Stranger:
    """Somebody with uv and this Python alone, in a folder of their own. `index` has Taskyard."""

    def __init__(self, folder: Path, index: str) -> None:
        self.folder = folder
        programs = folder / "programs"
        programs.mkdir(parents=True)
        # The scripts that uv installs use the last two.
        for name in ("uv", "uvx", "realpath", "dirname"):
            (programs / name).symlink_to(shutil.which(name) or sys.exit(f"there is no {name}"))
        (programs / "python3").symlink_to(Path(sys.executable).resolve())
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TASKYARD_", "XDG_"))}
        own = {"PATH": str(programs), "HOME": str(folder), "UV_INDEX": index, "UV_CACHE_DIR": str(folder / "cache")}
        self.environment = kept | own
        self.environment.pop("VIRTUAL_ENV", None)

    def run(self, *words: str) -> str:
        """What a command prints. Raises `CalledProcessError` where it fails."""
        command = subprocess.run(
            words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return command.stdout.strip()

    def secs_to_a_task(self) -> float:
        """How long `uvx ... taskyard up` takes until it has accepted a task."""
        addresses = {name: f"127.0.0.1:{_free_port()}" for name in ("grpc", "rest", "metrics")}
        flags = [word for name, address in addresses.items() for word in (f"--{name}", address)]
        command, log = (*_uvx("taskyard[server,gateway]"), "taskyard", "up", *flags), self.folder / "log"
        began = time.monotonic()
        with log.open("w") as written:
            up = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=written, stderr=written)
        try:
            while not _is_accepted(f"http://{addresses['rest']}/tasks"):
                if up.poll() is not None or time.monotonic() - began > WAIT_SECS:
                    raise SystemExit(f"taskyard up accepts no task; exit code {up.poll()}: {log.read_text()}")
                time.sleep(0.05)
            return time.monotonic() - began
        finally:
            up.terminate()
            up.wait()


def _uvx(package: str) -> tuple[str, ...]:
    return ("uvx", "--quiet", "--from", f"{package}=={VERSION}")


def _is_accepted(url: str) -> bool:
    try:
        with urlopen(Request(url, TASK, {"content-type": "application/json"}), timeout=5) as answer:
            return answer.status == 202
    except (OSError, HTTPException):
        return False


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _megabytes(*folders: Path) -> str:
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return f"{sum(path.stat().st_size for path in files) / 1e6:.1f} MB"


def main(folders: list[Path]) -> None:
    """Try both ways."""
    with tempfile.TemporaryDirectory() as folder, index_of(folders, Path(folder, "index")) as index:
        stranger = Stranger(Path(folder, "stranger"), index)
        cold, warm = stranger.secs_to_a_task(), stranger.secs_to_a_task()
        form = Path(stranger.run(*_uvx("taskyard[server,gateway]"), "python", "-c", FORM)).suffix
        print(
            f"uvx: a task is accepted {cold:.1f} s after the command, {warm:.1f} s with uv's cache; the core is {form}"
        )
        stranger.run("uv", "venv", "--quiet", "sdk")
        stranger.run("uv", "pip", "install", "--quiet", "--python", "sdk", f"taskyard=={VERSION}")
        (site,) = stranger.folder.glob("sdk/lib/python*/site-packages")
        own = _megabytes(site / "taskyard", site / "taskyard_server", site / "pytest_taskyard")
        imported = stranger.run("sdk/bin/python", "-c", IMPORTED)
        print(f"SDK: {own}, with what it needs {_megabytes(site)}; `import taskyard` imports {imported}")
        assert not {"httpx", "typer", "uvloop"} & {path.name for path in site.iterdir()}


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
