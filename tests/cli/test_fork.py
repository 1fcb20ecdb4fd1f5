"""What the command sets before grpc is there."""

import subprocess
import sys

PROGRAM = """
import os, sys
import taskyard_server.cli.main
print(os.environ["GRPC_ENABLE_FORK_SUPPORT"], "grpc" in sys.modules)
"""


def test_grpc_does_not_prepare_for_forks_since_envoy_starts_while_calls_are_served():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "True"]
