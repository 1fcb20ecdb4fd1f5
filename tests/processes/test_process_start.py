"""How one of the processes of a parent starts: it goes on only as the child of who it was started by."""

import os
import subprocess
import sys

from tests.environment import without_settings


def test_a_process_whose_parent_has_gone_meanwhile_ends_before_it_imports_the_rest() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "taskyard_server.processes", str(os.getppid()), "0"]
    ended = subprocess.run(command, env=without_settings(), capture_output=True, text=True, check=False)
    lines = ended.stderr.splitlines()
    assert (ended.returncode, lines[-1]) == (1, "the parent has gone")
    assert not any("taskyard_server.processes.child" in line for line in lines)
