"""`make lint` checks the workflows of GitHub where Go is, and CI has Go."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate("what `make lint` runs")

ROOT = Path(__file__).parents[2]
SCRIPT = "tools/workflows.sh"
NIGHTLY = """\
on:
  schedule:
    - cron: '{minute} 2 * * *'
jobs:
  deep:
    runs-on: ubuntu-24.04
    steps:
      - run: make
"""
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def check_without_go(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the check in a fresh checkout, on a machine that has what the script needs, and no Go."""
    for name in ("tools", "bin"):
        (folder / name).mkdir()
    shutil.copy(ROOT / SCRIPT, folder / SCRIPT)
    (folder / "bin/dirname").symlink_to(shutil.which("dirname") or "")
    path = str(folder / "bin")
    return subprocess.run(
        [folder / SCRIPT], env={"PATH": path} | environment, capture_output=True, text=True, timeout=60
    )


def test_without_go_the_workflows_are_left_out(tmp_path: Path) -> None:
    done = check_without_go(tmp_path)
    assert (done.returncode, done.stderr) == (0, "The workflows are left out: go is not installed.\n")


def test_in_ci_a_missing_go_is_an_error(tmp_path: Path) -> None:
    done = check_without_go(tmp_path, CI="true")
    assert (done.returncode, done.stderr) == (1, "The workflows are left out: go is not installed.\n")


@pytest.mark.parametrize(("minute", "code", "answer"), [("17", 0, ""), ("77", 1, "invalid CRON format")])
def test_a_workflow_that_github_would_refuse_is_refused(tmp_path: Path, minute: str, code: int, answer: str) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs Go, which builds actionlint")
    workflow = tmp_path / "nightly.yml"
    workflow.write_text(NIGHTLY.format(minute=minute))
    done = subprocess.run([ROOT / SCRIPT, workflow], capture_output=True, text=True, timeout=110)
    assert done.returncode == code, done.stderr
    assert answer in done.stdout


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_read_the_repository(workflow: Path) -> None:
    assert "\npermissions:\n  contents: read\n" in workflow.read_text()
