"""CI has everything that tests need, so that a skip is a mistake there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPS = {
    "a test": "import pytest\n\ndef test_it():\n    pytest.skip('needs Go')\n",
    "a mark": "import pytest\n\n@pytest.mark.skip(reason='needs Go')\ndef test_it():\n    pass\n",
    "a file": "import pytest\n\npytest.skip('needs Go', allow_module_level=True)\n",
}
EXPECTED_FAILURE = "import pytest\n\n@pytest.mark.xfail\ndef test_it():\n    assert False\n"


def outcome(source: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on a file with the rules of `tests/conftest.py`."""
    file = folder / "test_it.py"
    file.write_text(source)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", str(file)]
    return subprocess.run(command, cwd=ROOT, env=clean | environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("source", SKIPS.values(), ids=SKIPS)
def test_a_skip_fails_in_ci_and_names_its_reason(source: str, tmp_path: Path) -> None:
    done = outcome(source, tmp_path, CI="true")
    assert done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    assert "skipped in CI: " in done.stdout
    assert "needs Go" in done.stdout


def test_elsewhere_a_skip_is_a_skip(tmp_path: Path) -> None:
    done = outcome(SKIPS["a test"], tmp_path)
    assert (done.returncode, "1 skipped" in done.stdout) == (pytest.ExitCode.OK, True)


def test_an_expected_failure_is_no_skip(tmp_path: Path) -> None:
    done = outcome(EXPECTED_FAILURE, tmp_path, CI="true")
    assert (done.returncode, "1 xfailed" in done.stdout) == (pytest.ExitCode.OK, True)
