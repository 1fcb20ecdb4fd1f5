"""The command switches the fork support of grpc off before it imports grpc: Envoy starts while calls are served."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.gate("a fresh interpreter a test")

PROGRAM = """
import os, sys
from taskyard_server.cli.main import app
before = "grpc" in sys.modules
import taskyard_server.cli.tasks
print(os.environ["GRPC_ENABLE_FORK_SUPPORT"], before, "grpc" in sys.modules)
"""


def test_fork_support_of_grpc_is_off():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "False", "True"]
