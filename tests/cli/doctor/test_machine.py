"""What the doctor says of the machine: clock, open files, processes, versions."""

import resource
from importlib.metadata import version

import pytest

from taskyard_server.cli.doctor import machine
from taskyard_server.cli.doctor.machine import clock, core, limits, open_files, versions
from tests.cli.doctor.yards import only, told, yard


@pytest.mark.parametrize(
    ("status", "told_of"), [((0, 12_000), "ok"), ((machine.STA_UNSYNC, 0), "warning"), (None, "ok")]
)
def test_a_clock_that_nothing_keeps_right_is_a_warning(monkeypatch, status, told_of):
    monkeypatch.setattr(machine, "_clock_status", lambda: status)
    ((found, _),) = told(clock, yard({}))
    assert found == told_of


def test_the_clock_of_this_machine_can_be_asked_and_is_not_set():
    found = machine._clock_status()
    assert found is None or found[1] >= 0


def test_few_open_files_are_a_warning_that_says_for_how_many_callers_they_are():
    found = only([open_files("it", 0, 1_024)])
    assert found.seen == "at most 1024 for it: room for 512 callers at once"
    assert open_files("it", 0, 65_536).status == "ok"
    assert open_files("it", 60_000, 65_536).status == "warning"
    assert open_files("it", 0, resource.RLIM_INFINITY).status == "ok"


@pytest.mark.parametrize(("left", "status"), [(None, "ok"), (5_000, "ok"), (12, "failure"), (-3, "failure")])
def test_too_few_processes_are_a_failure(monkeypatch, left, status):
    monkeypatch.setattr(machine, "_tasks_left", lambda: left)
    assert told(limits, yard({}))[1][0] == status


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    (tmp_path / "proc").write_text("0::/some/group\n")
    (tmp_path / "some" / "group").mkdir(parents=True)
    (tmp_path / "some" / "group" / "pids.max").write_text("100\n")
    (tmp_path / "some" / "group" / "pids.current").write_text("90\n")
    read = machine._lines
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(
        machine, "_lines", lambda path: read(tmp_path / "proc" if path == "/proc/self/cgroup" else path)
    )
    assert machine._tasks_left() == 10


def test_versions_are_named():
    (_, text), _ = told(versions, yard({}))
    assert f"taskyard {version('taskyard')} with Python " in text
    assert f"grpcio {version('grpcio')}" in text


def test_a_core_that_is_not_compiled_is_a_warning():
    assert only([core("/x/scheduler.py")]).status == "warning"
    assert core("/x/scheduler.cpython-311-x86_64-linux-gnu.so").status == "ok"
