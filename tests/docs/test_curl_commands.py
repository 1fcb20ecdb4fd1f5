"""The curl commands in README and the guide print what these show.

All commands of a document run from top to bottom. Its ids stand for those of the run, and `...` for anything.
"""

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from examples.tab_executor import TabActions
from tests.gateway.control_plane import control_plane
from tests.waiting import until_in_thread

pytestmark = pytest.mark.gate("a document that is followed as a reader would")

ROOT = Path(__file__).parents[2]
ADDRESS = "localhost:9867"
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
ID = re.compile(r"(?:tsk|bat|sch|trg)_[0-9a-f]{32}")
PATTERNS = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z",
    r"\.\.\.": ".*",
}
"""What is shown differently in each run, and what that is like."""
SECS = 20.0


@dataclass(frozen=True)
class Step:
    """One command of a document, and the output that the document shows."""

    command: str
    shown: str

    @property
    def may_repeat(self) -> bool:
        """True if it only reads."""
        return " -X " not in self.command


def steps(document: str) -> list[Step]:
    """The curl commands of a document, but for those that never end, and those of test_secure_commands.py."""
    found = []
    for block in CONSOLE.findall((ROOT / document).read_text()):
        for command, shown in re.findall(r"(?m)^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", block):
            if command.startswith("curl ") and " -N " not in command and "--cacert" not in command:
                found.append(Step(command, shown.strip()))
    return found


def pattern(shown: str, ids: dict[str, str]) -> str:
    """What an output must be like. Ids that were not seen yet are groups, each with the name of the id."""
    parts = []
    seen = set(ids)
    for part in re.split(f"({ID.pattern}|{'|'.join(PATTERNS)})", shown):
        alike = [like for one, like in PATTERNS.items() if re.fullmatch(one, part)]
        if alike:
            parts.append(alike[0])
        elif ID.fullmatch(part) and part not in ids:
            parts.append(f"(?P={part})" if part in seen else f"(?P<{part}>{ID.pattern})")
            seen.add(part)
        else:
            parts.append(re.escape(ids.get(part, part)))
    return "".join(parts)


@pytest.fixture
def executor() -> Iterator[str]:
    """The URL of the example executor."""

    class Silent(TabActions):
        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def output_of(command: str) -> str:
    run = subprocess.run(
        ["bash", "-c", command.replace("curl ", "curl -s ", 1)],
        env={**os.environ, "no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=SECS,
        check=True,
    )
    return run.stdout.strip()


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("document", "least"), [("README.md", 2), ("docs/use/guide.md", 25)])
def test_the_commands_of_a_document_print_what_it_shows(document: str, least: int, executor: str) -> None:
    written = steps(document)
    assert len(written) >= least
    ids: dict[str, str] = {}
    with control_plane("--executor", executor) as plane:
        for step in written:
            command = step.command.replace(ADDRESS, f"127.0.0.1:{plane.ports['rest']}")
            for name, now in ids.items():
                command = command.replace(name, now)

            def matched(step: Step = step, command: str = command) -> re.Match[str] | None:
                seen = output_of(command)
                match = re.fullmatch(pattern(step.shown, ids), seen)
                # What has been submitted is executed meanwhile.
                assert match or step.may_repeat, f"{step.command}\n{seen}"
                return match

            found = until_in_thread(matched)
            assert found is not None
            ids.update(found.groupdict())


@pytest.mark.parametrize(
    ("shown", "seen", "is_alike"),
    [
        ('{"a":1}', '{"a":1}', True),
        ('{"a":1}', '{"a":2}', False),
        ('{"a":{...},"b":2}', '{"a":{"x":[1]},"b":2}', True),
        ('{"a":1,...,"b":2}', '{"a":1,"x":3,"b":2}', True),
        ('{"a":1,...}', '{"b":1,"x":3}', False),
        (f'["tsk_{1:032x}","tsk_{1:032x}"]', f'["tsk_{7:032x}","tsk_{7:032x}"]', True),
        (f'["tsk_{1:032x}","tsk_{1:032x}"]', f'["tsk_{7:032x}","tsk_{8:032x}"]', False),
        (f'"tsk_{9:032x}"', f'"tsk_{3:032x}"', True),
        (f'"tsk_{9:032x}"', f'"tsk_{4:032x}"', False),
        ('"2026-11-22T05:42:18.637501Z"', '"2030-01-01T00:00:00Z"', True),
        ('"2026-11-22T05:42:18.637501Z"', '"soon"', False),
    ],
)
def test_what_is_shown_is_compared_as_a_reader_would(shown: str, seen: str, is_alike: bool) -> None:
    ids = {f"tsk_{9:032x}": f"tsk_{3:032x}"}
    assert (re.fullmatch(pattern(shown, ids), seen) is not None) is is_alike
