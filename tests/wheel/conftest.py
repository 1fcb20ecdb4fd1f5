"""The wheel, which all of these tests build on."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


def output_of(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built of the compiled form that is there."""
    folder = tmp_path_factory.mktemp("dist")
    output_of(UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", folder, ROOT)
    (wheel,) = folder.glob("*.whl")
    return wheel
