"""grpcurl, for the commands in the documents that use it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
FOLDER = Path(sys.prefix) / "bin"
INSTALL_SECS = 400


def installed_grpcurl() -> Path:
    """The grpcurl beside this Python; Go installs it where it is missing."""
    installed = FOLDER / "grpcurl"
    if not installed.exists():
        go = shutil.which("go")
        if go is None:
            pytest.skip("needs Go, which installs grpcurl")
        command = [go, "install", GRPCURL]
        result = subprocess.run(
            command, env={**os.environ, "GOBIN": str(FOLDER)}, capture_output=True, text=True, timeout=INSTALL_SECS
        )
        if result.returncode:
            pytest.skip(f"needs grpcurl, which Go could not install: {result.stderr[-500:]}")
    return installed
