"""The commands of "Try it" in docs/operate/security.md work against what `make up-secure` runs."""

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
    (tmp_path / ".venv").symlink_to(sys.prefix)
    # Without the flag, tests keep nothing.
    with control_plane("--secure", str(local), "--store", f"sqlite:///{local}/yard.db") as plane:
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
