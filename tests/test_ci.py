"""CI has everything that tests need, so that a skip is a mistake there; it runs in stages, and tells why one failed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate("runs of pytest")

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


def stages(folder: Path, *lines: str) -> subprocess.Popen[str]:
    """Begin a run with these stages in place of those of CI. It has no terminal, and nothing to read."""
    script = folder / "stages.sh"
    script.write_text("\n".join([f". {ROOT}/.ci/run", *lines]))
    return subprocess.Popen(
        ["bash", str(script)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_a_run_ends_with_the_seconds_of_its_stages(tmp_path: Path) -> None:
    run = stages(tmp_path, "stage first echo 12 passed", "stage second cat")
    printed, _ = run.communicate(timeout=60)
    assert run.returncode == 0
    shown, table = printed.split("\nstage ")
    assert "=== first: echo 12 passed\n12 passed\n" in shown
    heading, *rows = table.splitlines()
    assert heading.split() == ["seconds"]
    assert [(name, result) for name, _, result in map(str.split, rows)] == [
        ("first", "ok"),
        ("second", "ok"),
        ("total", "ok"),
    ]
    assert all(row.split()[1].isdigit() for row in rows)


def test_a_run_stops_at_the_first_stage_that_fails_and_ends_with_why(tmp_path: Path) -> None:
    tests = "echo FAILED tests/test_it.py::test_it; seq 100; echo the reason >&2; exit 7"
    run = stages(tmp_path, "stage first true", f"stage tests sh -c '{tests}'", "stage third echo never")
    printed, _ = run.communicate(timeout=60)
    assert run.returncode == 7
    assert "never" not in printed
    table, reason = printed.split("\nstage ")[1].split("\n=== The end of tests:\n")
    assert [row.split()[::2] for row in table.splitlines()[1:]] == [
        ["first", "ok"],
        ["tests", "failed"],
        ["total", "failed"],
    ]
    first, *rest = reason.splitlines()
    assert first == "FAILED tests/test_it.py::test_it"
    assert rest == [*map(str, range(42, 101)), "the reason", "", "=== tests failed with exit code 7."]


def test_what_a_stage_prints_is_seen_while_it_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = stages(tmp_path, f"stage slow sh -c 'echo begun; read line <{gate}'")
    assert run.stdout is not None
    assert "begun\n" in iter(run.stdout.readline, "")
    gate.write_text("go on\n")
    run.communicate(timeout=60)
    assert run.returncode == 0
