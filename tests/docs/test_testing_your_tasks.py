"""The examples of docs/use/testing_your_tasks.md are a project whose tests pass."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import without_settings

pytestmark = pytest.mark.gate("a document that is followed as a reader would")

GUIDE = Path(__file__).parents[2] / "docs/use/testing_your_tasks.md"
FILES = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)


def test_the_examples_are_tests_that_pass(tmp_path):
    text = GUIDE.read_text()
    files = dict(FILES.findall(text))
    assert len(files) == text.count("```python")
    for name, code in files.items():
        (tmp_path / name).write_text(code)
    written = sum(code.count("def test_") for code in files.values())
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\npythonpath = .\n")
    options = ["--disable-plugin-autoload", "-p", "pytest_asyncio.plugin", "-p", "pytest_taskyard", "--strict-markers"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-o", "asyncio_default_fixture_loop_scope=function", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
        env=without_settings() | {"PYTEST_ADDOPTS": ""},
    )
    assert f"{written} passed in" in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""
