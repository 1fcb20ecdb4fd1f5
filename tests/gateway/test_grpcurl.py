"""The grpcurl commands in the documents print what the documents show.

All commands of a document run from top to bottom. Its ids stand for those of the run; `{...}` is anything.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.control_plane import ControlPlane, control_plane
from tests.grpcurl import INSTALL_SECS, installed_grpcurl

pytestmark = [pytest.mark.gate("Go"), pytest.mark.long]

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "gateway/README.md")
SECS = 30
CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
HERE_DOCUMENT = re.compile(r"<<(\w+)")
ID = re.compile(r"(tsk|ses)_[0-9a-f]{16,}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ANYTHING = "{...}"


@pytest.fixture(scope="module")
def grpcurl() -> Path:
    """The grpcurl beside this Python."""
    return installed_grpcurl()


@dataclass(frozen=True)
class Step:
    """One command of a document, and the output that the document shows."""

    command: str
    shown: str


def steps(document: str) -> list[Step]:
    """The grpcurl commands of a document, here-documents included; those over TLS are in test_secure_commands.py."""
    found = []
    for block in CONSOLE.findall((ROOT / document).read_text()):
        lines = block.splitlines()
        while lines:
            command = [lines.pop(0).removeprefix("$ ")]
            while command[-1].endswith("\\"):
                command.append(lines.pop(0))
            for end in HERE_DOCUMENT.findall("\n".join(command)):
                while command[-1] != end:
                    command.append(lines.pop(0))
            shown = []
            while lines and not lines[0].startswith("$ "):
                shown.append(lines.pop(0))
            if "grpcurl" in command[0] and "-cacert" not in command[0]:
                found.append(Step("\n".join(command), "\n".join(shown)))
    return found


def addresses_in(plane: ControlPlane) -> dict[str, str]:
    """The addresses in the documents, and those of this control plane."""
    return {f"localhost:{port}": f"localhost:{plane.ports[name]}" for name, port in (("grpc", 50051), ("rest", 9867))}


def run(command: str, grpcurl: Path) -> str:
    """What the command prints on a terminal."""
    path = f"{grpcurl.parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "no_proxy": "localhost"}
    result = subprocess.run(
        ["bash", "-c", command], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECS
    )
    return result.stdout


def parsed(text: str) -> Any:
    """The JSON values of an output, one after the other; the text itself if there are none."""
    text = text.replace(ANYTHING, json.dumps(ANYTHING)).strip()
    if not text.startswith("{"):
        return text
    values = []
    while text:
        value, end = json.JSONDecoder().raw_decode(text)
        values.append(value)
        text = text[end:].strip()
    return values


def is_as_shown(shown: Any, seen: Any, ids: dict[str, str]) -> bool:
    """True if an output is as shown; records which id stands for which."""
    if shown == ANYTHING:
        return True
    if isinstance(shown, dict) and isinstance(seen, dict):
        return shown.keys() == seen.keys() and all(is_as_shown(shown[key], seen[key], ids) for key in shown)
    if isinstance(shown, list) and isinstance(seen, list):
        return len(shown) == len(seen) and all(map(is_as_shown, shown, seen, [ids] * len(shown)))
    if isinstance(shown, str) and isinstance(seen, str) and ID.fullmatch(shown) and ID.fullmatch(seen):
        return ids.setdefault(shown, seen) == seen
    if isinstance(shown, str) and isinstance(seen, str) and TIME.fullmatch(shown):
        return TIME.fullmatch(seen) is not None
    return bool(shown == seen)


@pytest.mark.timeout(INSTALL_SECS + 4 * SECS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_a_document_print_what_it_shows(document: str, grpcurl: Path) -> None:
    ids: dict[str, str] = {}
    written = steps(document)
    assert written
    with control_plane() as plane:
        addresses = addresses_in(plane)
        for step in written:
            command = step.command
            for name, now in {**addresses, **ids}.items():
                command = command.replace(name, now)
            seen = run(command, grpcurl)
            assert is_as_shown(parsed(step.shown), parsed(seen), ids), f"{command}\n{seen}"


def test_a_document_shows_the_stream_of_a_host_from_a_here_document() -> None:
    commands = [step.command for document in DOCUMENTS for step in steps(document)]
    assert any("RuntimeHostService/Connect" in command and "<<" in command for command in commands)


@pytest.mark.timeout(INSTALL_SECS + 2 * SECS)
@pytest.mark.parametrize("address", ["localhost:50051", "localhost:9867"], ids=["directly", "through the gateway"])
def test_reflection_lists_what_is_served(address: str, grpcurl: Path) -> None:
    with control_plane() as plane:
        served = addresses_in(plane)[address]
        listed = run(f"grpcurl -plaintext {served} list", grpcurl).split()
        described = run(f"grpcurl -plaintext {served} describe taskyard.v1.BatchService", grpcurl)
    names = ("Task", "Batch", "Stats", "RuntimeHost", "Lease", "Target", "Schedule", "Admin")
    assert {f"taskyard.v1.{name}Service" for name in names} < set(listed)
    assert (
        "rpc CancelBatch ( .taskyard.v1.CancelBatchRequest ) returns ( .taskyard.v1.CancelBatchResponse )" in described
    )
