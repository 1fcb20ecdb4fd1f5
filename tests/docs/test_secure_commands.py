"""The commands of "Try it" in docs/operate/security.md work against what `make up-secure` runs."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import without_settings
from tests.gateway.control_plane import control_plane
from tests.grpcurl import INSTALL_SECS, installed_grpcurl

pytestmark = pytest.mark.gate("a document that is followed as a reader would")

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "docs/operate/security.md").read_text().partition("## Try it")[2].partition("\n## ")[0]
RUN = "$ make up-secure\n"
SECS = 60.0


def commands() -> str:
    """What the section shows after the start, as one script that stops at the first failure."""
    (block,) = re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL)
    assert block.startswith(RUN)
    return "set -e\n" + re.sub(r"(?m)^\$ ", "", block.removeprefix(RUN))


@pytest.mark.long
@pytest.mark.timeout(INSTALL_SECS + 2 * SECS)
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_section_work(tmp_path: Path) -> None:
    grpcurl = installed_grpcurl()
    local = tmp_path / ".local"
    subprocess.run([sys.executable, ROOT / "tools/secure_yard.py", local], check=True, timeout=SECS)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    token = (local / "admin.token").read_text().strip()
    # Without the flag, tests keep nothing.
    options = ("--config", str(local / "taskyard.json"), "--store", f"sqlite:///{local}/yard.db")
    with control_plane(*options, environment={"TASKYARD_ADMIN_TOKEN": token}) as plane:
        script = commands()
        for documented, name in (("50051", "grpc"), ("9867", "rest")):
            script = script.replace(f"localhost:{documented}", f"localhost:{plane.ports[name]}")
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**without_settings(), "no_proxy": "localhost", "PATH": f"{grpcurl.parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=SECS,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert '"state":"queued"' in done.stdout
    assert '"agentId": "my-agent"' in done.stdout
    assert done.stdout.splitlines()[-1] == "queued"


def test_what_it_makes_is_for_its_owner_alone(tmp_path: Path) -> None:
    local = tmp_path / ".local"
    for _ in range(2):
        subprocess.run([sys.executable, ROOT / "tools/secure_yard.py", local], check=True, timeout=SECS)
    assert local.stat().st_mode & 0o777 == 0o700
    assert {path.name for path in local.iterdir() if path.stat().st_mode & 0o077} == set()
    assert json.loads((local / "taskyard.json").read_text())["auth"]["required"] is True


def test_a_second_run_keeps_what_is_there(tmp_path: Path) -> None:
    local = tmp_path / ".local"
    subprocess.run([sys.executable, ROOT / "tools/secure_yard.py", local], check=True, timeout=SECS)
    before = {path.name: path.read_bytes() for path in local.iterdir()}
    subprocess.run([sys.executable, ROOT / "tools/secure_yard.py", local], check=True, timeout=SECS)
    assert {path.name: path.read_bytes() for path in local.iterdir()} == before
