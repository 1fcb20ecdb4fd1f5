"""tools/flaky.py: tests that run again and again beside busy loops."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate("runs of pytest")

FLAKY = Path(__file__).parents[2] / "tools" / "flaky.py"
EVERY_SECOND = """
from pathlib import Path

def test_every_second():
    seen = Path(__file__).with_name("seen")
    seen.write_text(seen.read_text() + "." if seen.exists() else ".")
    assert len(seen.read_text()) % 2
"""
BUSY = """
import psutil

def test_beside():
    flaky = psutil.Process().parent()
    loops = [each for each in flaky.children() if each.pid != psutil.Process().pid]
    assert len(loops) == 2
"""


@pytest.fixture
def flaky(tmp_path):
    """Runs the tool over a file of tests; how it ended, and what it printed."""

    def run(source, *arguments):
        file = tmp_path / "test_it.py"
        file.write_text(source)
        # What pytest is told here holds for no other project.
        command = [sys.executable, FLAKY, *arguments, "-c", "/dev/null", "--disable-plugin-autoload", file]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_each_run_has_a_line_and_each_failure_its_reason_and_its_count(flaky):
    ended = flaky(EVERY_SECOND, "--runs", "2", "--busy", "0")
    lines = ended.stdout.splitlines()
    runs = [line for line in lines if line.startswith("run ")]
    assert [line.partition(",")[0] for line in runs] == ["run 1: passed", "run 2: failed"]
    assert all(line.endswith(" s") for line in runs)
    assert any(line.startswith("E ") for line in lines)
    assert lines[-1].startswith("1 of 2: ")
    assert lines[-1].endswith("test_it.py::test_every_second")
    assert ended.returncode == 1


def test_where_all_that_pytest_is_to_run_pass_it_succeeds(flaky):
    ended = flaky("def test_one(): pass\ndef test_two(): assert False", "--runs", "1", "--busy", "0", "-k", "one")
    assert ended.returncode == 0
    assert len(ended.stdout.splitlines()) == 1


def test_where_no_test_was_picked_it_says_so(flaky):
    ended = flaky("def test_one(): pass", "--busy", "0", "-k", "two")
    assert ended.returncode == 1
    assert "no test was picked" in ended.stderr


def test_two_busy_loops_run_beside_them(flaky):
    ended = flaky(BUSY, "--runs", "1")
    assert ended.returncode == 0, ended.stdout
