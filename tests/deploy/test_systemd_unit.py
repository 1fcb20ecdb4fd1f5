"""The unit of systemd: it is understood, it is hardened, and what it says of times and places fits the server."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from taskyard_server.settings.config import Settings
from taskyard_server.settings.live_config import LiveConfig
from taskyard_server.settings.store_url import sqlite_path

FOLDER = Path(__file__).parents[2] / "deploy/systemd"
UNIT = FOLDER / "taskyard.service"


@pytest.fixture
def analyze(tmp_path):
    """Runs systemd-analyze over the unit, whose program is one that is there, or with a line changed."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze, of Debian's package systemd")

    def run(*words, line="", instead=""):
        path = tmp_path / UNIT.name
        path.write_text(
            UNIT.read_text().replace("/opt/taskyard/bin/taskyard", sys.executable).replace(line, instead, 1)
        )
        return subprocess.run(["systemd-analyze", *words, path], capture_output=True, text=True)

    return run


@pytest.mark.gate("needs systemd-analyze")
def test_systemd_understands_each_line_of_the_unit(analyze):
    checked = analyze("verify")
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert "Unknown key" in analyze("verify", line="ProtectHome=", instead="ProtectHose=").stderr


@pytest.mark.gate("needs systemd-analyze")
def test_the_exposure_of_the_unit_is_below_3(analyze):
    checked = analyze("security", "--offline=true", "--no-pager", "--threshold=30")
    assert checked.returncode == 0, checked.stdout
    assert analyze("security", "--offline=true", "--no-pager", "--threshold=1").returncode != 0


def test_the_unit_waits_for_longer_than_tasks_have_to_end():
    grace = Settings.model_fields["shutdown_grace_period_seconds"].default
    assert float(_unit()["Service"]["TimeoutStopSec"]) >= grace + 30


def test_the_settings_of_the_package_are_taken_and_keep_tasks_where_the_unit_lets_them():
    settings = LiveConfig(FOLDER / "taskyard.json", {}).settings
    assert sqlite_path(settings.store.url).parent == Path("/var/lib", _unit()["Service"]["StateDirectory"])
    assert "/etc/taskyard/taskyard.json" in _unit()["Service"]["ExecStart"]


def _unit():
    """The unit, of a key that stands twice the last value."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(UNIT)
    return unit
