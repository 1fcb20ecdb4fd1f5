"""The audit log as a file: whole private lines, room that is taken before a change, and what a full disk refuses."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from taskyard_server.core.errors import Unavailable
from taskyard_server.logs import audit, log_file
from taskyard_server.logs.audit import MAX_LINE_BYTES, MAX_TALLIED, RESERVE_BYTES, AuditLog

NOON = 1_700_000_000.0
CHANGE = {"event": "change", "principal": "ann", "on": {"task_id": "tsk_1"}, "outcome": "ok"}
REFUSED = {"event": "credentials_refused", "address": "192.0.2.1", "outcome": "unauthenticated"}


class Disk:
    """A disk that can be full, but for the room that was taken on it before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.reserved = 0
        self._write = os.write
        monkeypatch.setattr(log_file.os, "write", self.write)
        monkeypatch.setattr(audit.os, "posix_fallocate", self.take)
        give_up = audit.Reserve.give_up
        monkeypatch.setattr(audit.Reserve, "give_up", lambda reserve: (self.give(), give_up(reserve)))

    def write(self, file: int, data: bytes) -> int:
        if self.is_full:
            if len(data) > self.reserved:
                return self._write(file, data[: len(data) // 2])
            self.reserved -= len(data)
        return self._write(file, data)

    def take(self, *_: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def give(self) -> None:
        self.reserved = RESERVE_BYTES


@pytest.fixture
def disk(monkeypatch):
    return Disk(monkeypatch)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.log"


@pytest.fixture
def clock():
    return [NOON]


@pytest.fixture
def log(path, clock):
    log = AuditLog(path, 65_536, 2, lambda: clock[0])
    yield log
    log.close()


def lines(path):
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def change(log, **fields):
    log.begin()
    log.end(CHANGE | fields)


# Lines


def test_a_change_is_one_line_with_its_time(log, path):
    change(log)
    assert lines(path) == [{"at": "2023-11-14T22:13:20.000Z", **CHANGE}]


def test_only_the_owner_can_read_the_file_and_its_backups(log, tmp_path):
    for _ in range(2_000):
        change(log)
    files = list(tmp_path.iterdir())
    assert {each.name for each in files} == {"audit.log", "audit.log.1", "audit.log.2"}
    assert {stat.S_IMODE(each.stat().st_mode) for each in files} == {0o600}


def test_a_file_that_others_can_read_is_made_private(path):
    path.write_text("")
    path.chmod(0o644)
    AuditLog(path, 65_536, 2).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_all_files_together_are_within_the_quota(log, tmp_path):
    for _ in range(3_000):
        change(log)
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) <= 3 * 65_536


def test_a_line_is_never_longer_than_the_room_that_is_taken_for_it(log, path):
    long = "\x00" * 10_000
    names = ("agent_id", "batch_id", "host_id", "path", "schedule_id", "target", "task_id", "token_id", "trigger_id")
    change(log, principal=long, credential=long, on=dict.fromkeys(names, long))
    assert path.stat().st_size <= MAX_LINE_BYTES


def test_a_line_end_in_a_name_begins_no_line(log, path):
    change(log, principal='x"}\n{"event":"change"}\r\u2028')
    assert len(path.read_bytes().splitlines()) == 1
    assert lines(path)[0]["principal"] == 'x"}\n{"event":"change"}\r\u2028'


def test_a_path_that_cannot_be_written_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="not a regular file"):
        AuditLog(tmp_path, 65_536, 2)


# A full disk


def test_a_change_that_was_begun_is_written_down_although_the_disk_has_become_full(disk, log, path):
    log.begin()
    disk.is_full = True
    log.end(CHANGE)
    assert [line["event"] for line in lines(path)] == ["change"]


def test_many_changes_under_way_have_room_each(disk, log, path):
    for _ in range(RESERVE_BYTES // MAX_LINE_BYTES):
        log.begin()
    disk.is_full = True
    with pytest.raises(Unavailable):
        log.begin()
    for _ in range(RESERVE_BYTES // MAX_LINE_BYTES):
        log.end(CHANGE)
    assert len(lines(path)) == RESERVE_BYTES // MAX_LINE_BYTES


def test_after_the_room_is_used_changes_are_refused_until_there_is_room_again(disk, log, path):
    disk.is_full = True
    change(log)
    with pytest.raises(Unavailable, match="the audit log cannot be written: no space left on device"):
        log.begin()
    disk.is_full = False
    change(log, principal="bob")
    assert [line["principal"] for line in lines(path)] == ["ann", "bob"]


def test_a_line_that_could_not_be_written_all_the_same_is_the_next_one(disk, log, path, monkeypatch):
    log.begin()
    disk.is_full = True
    monkeypatch.setattr(disk, "give", lambda: None)
    log.end(CHANGE)
    assert lines(path) == []
    with pytest.raises(Unavailable):
        log.begin()
    disk.is_full = False
    change(log, principal="bob")
    assert [line["principal"] for line in lines(path)] == ["ann", "bob"]


def test_changes_are_refused_while_the_folder_is_gone(log, path, tmp_path):
    path.unlink()
    tmp_path.rmdir()
    with pytest.raises(Unavailable, match="no such file or directory"):
        log.begin()
    tmp_path.mkdir()
    change(log)
    assert len(lines(path)) == 1


def test_changes_are_refused_while_the_file_cannot_be_rotated(log, path, monkeypatch):
    for _ in range(800):
        if path.stat().st_size + MAX_LINE_BYTES >= 65_536:
            break
        change(log)
    with monkeypatch.context() as patch:
        patch.setattr(log_file.os, "rename", _refuse_rename)
        with pytest.raises(Unavailable, match="permission denied"):
            log.begin()
    change(log)


def _refuse_rename(_from: str, _to: str) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def test_the_room_leaves_no_file_behind(log, tmp_path):
    log.begin()
    assert [each.name for each in tmp_path.iterdir()] == ["audit.log"]


def test_real_room_is_taken_on_the_disk(log):
    fd = log._reserve._file.fileno()
    assert os.fstat(fd).st_blocks * 512 >= RESERVE_BYTES


# What is refused


def test_what_is_refused_is_one_line_a_minute_with_a_count(log, path, clock):
    for _ in range(5):
        log.count(REFUSED)
    log.flush()
    assert [line["count"] for line in lines(path)] == [1]
    clock[0] += 60
    log.flush()
    log.flush()
    assert [line["count"] for line in lines(path)] == [1, 4]


def test_what_was_counted_is_written_at_the_end(log, path):
    for _ in range(3):
        log.count(REFUSED)
    log.close()
    assert [line["count"] for line in lines(path)] == [1, 2]


def test_refusals_from_very_many_addresses_share_a_line(log, path, clock):
    for number in range(10_000):
        log.count(REFUSED | {"address": f"2001:db8::{number:x}"})
    clock[0] += 60
    log.flush()
    assert len(lines(path)) <= MAX_TALLIED + 2
    assert sum(line["count"] for line in lines(path)) == 10_000
    assert lines(path)[-1]["address"] == "others"


def test_refusals_take_no_room_from_changes(disk, log, path):
    log.begin()
    disk.is_full = True
    log.count(REFUSED)
    log.end(CHANGE)
    assert [line["event"] for line in lines(path)] == ["change"]


def test_a_clock_that_goes_back_delays_no_count(log, path, clock):
    log.count(REFUSED)
    log.count(REFUSED)
    clock[0] -= 3_600
    log.flush()
    assert [line["count"] for line in lines(path)] == [1, 1]


def test_a_log_that_another_program_has_moved_goes_on_in_a_new_file(log, path):
    change(log)
    path.rename(Path(f"{path}.moved"))
    change(log)
    assert len(lines(path)) == 1
