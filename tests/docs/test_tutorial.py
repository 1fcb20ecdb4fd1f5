"""The tutorial is run as a reader would: its files are written, its commands print what it shows, in this order.

`...` stands for anything, and two spaces for any number of them, since columns are as wide as what a machine shows. A
command that does not end, a server or a host, runs beside the others; a host ends when the page starts the next one.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environment import without_settings
from tests.ports import free_port
from tests.waiting import until_in_thread

pytestmark = [pytest.mark.gate("a document that is followed as a reader would"), pytest.mark.long]

PAGE = (Path(__file__).parents[2] / "docs/use/tutorial.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w.]+\.(?:py|ini))(, added)?\n(.*)", re.DOTALL)
COMMAND = re.compile(r"\$ ([^\n]*)\n(.*)", re.DOTALL)
GAP = re.compile(r"(?:\\ ){2,}")
PORTS = {"GRPC": "50051", "REST": "9867", "METRICS": "9464"}
LASTING = ("taskyard up", "taskyard host run")
SECS = 60.0


class Terminals:
    """The folder of a reader, and what runs there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {name: str(free_port()) for name in PORTS}
        self._lasting: dict[str, subprocess.Popen[bytes]] = {}
        listen = {f"TASKYARD_{name}": f"127.0.0.1:{port}" for name, port in self._ports.items()}
        plugins = {
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_PLUGINS": "pytest_asyncio.plugin,pytest_taskyard",
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
        }
        self._environment = (
            without_settings()
            | plugins
            | {
                **listen,
                "TASKYARD_ADDRESS": listen["TASKYARD_GRPC"],
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
        )

    def write(self, name: str, text: str, is_added: bool) -> None:
        """Write a file, or add to it."""
        path = self._folder / name
        assert path.exists() == is_added, name
        path.write_text(f"{path.read_text()}\n\n{text}" if is_added else f"# {name}\n{text}")

    def run(self, command: str, shown: str) -> None:
        """Run a command, and compare what it prints."""
        for name, port in PORTS.items():
            shown = shown.replace(f":{port}", f":{self._ports[name]}")
        like = ".*".join(re.escape(part) for part in shown.strip().split("..."))
        like = GAP.sub(" {2,}", like)
        if command.startswith(LASTING):
            self._begin(command, like)
            return
        done = subprocess.run(
            command.split(),
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECS,
            check=False,
        )
        seen = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        is_alike = re.fullmatch(like, seen.strip(), re.DOTALL) is not None
        assert is_alike, f"{command}\n{done.stdout}"

    def _begin(self, command: str, like: str) -> None:
        """Start what does not end, and wait until it has printed what is shown."""
        kind = next(each for each in LASTING if command.startswith(each))
        self._end(kind)
        log = self._folder / f"{kind.split()[1]}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command.split(), cwd=self._folder, env=self._environment, stdout=output, stderr=subprocess.STDOUT
            )
        self._lasting[kind] = process

        def printed() -> str:
            text = log.read_text()
            assert process.poll() is None, f"{command}\n{text}"
            return text

        until_in_thread(printed, lambda text: re.search(like, text, re.DOTALL) is not None)

    def _end(self, kind: str) -> None:
        """Press Ctrl-C, if there is something to end."""
        if (process := self._lasting.pop(kind, None)) is not None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(SECS)
            finally:
                process.kill()
                process.wait()

    def close(self) -> None:
        """End everything."""
        for kind in reversed([*self._lasting]):
            self._end(kind)


@pytest.fixture
def terminals(tmp_path: Path) -> Iterator[Terminals]:
    opened = Terminals(tmp_path)
    yield opened
    opened.close()


def test_the_tutorial_can_be_followed(terminals: Terminals) -> None:
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) * 2 == PAGE.count("\n```")
    for kind, text in blocks:
        if kind == "console":
            command = COMMAND.fullmatch(text)
            assert command is not None, text
            terminals.run(command[1], command[2])
        else:
            file = FILE.fullmatch(text)
            assert file is not None, text
            terminals.write(file[1], file[3], bool(file[2]))
