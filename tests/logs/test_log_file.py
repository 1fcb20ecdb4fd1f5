"""The log file: whole lines of JSON, rotation, and failures that break nothing else (docs/rules.md, Logs)."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from taskyard_server.logs import log_file
from taskyard_server.logs.log_file import LogFile, ToFile

NO_ROTATION_BYTES = 1_000_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "taskyard.log"


@pytest.fixture
def console():
    """The lines of the console, as dicts."""
    return LogCapture()


@pytest.fixture
def logger(path, console, monkeypatch):
    """Logs to the file and to the console, as the server does, and so do the messages of the file itself."""
    processors = [structlog.processors.add_log_level, ToFile(LogFile(path, NO_ROTATION_BYTES, 5)), console]
    logger = structlog.wrap_logger(None, processors=processors, wrapper_class=structlog.BoundLogger)
    monkeypatch.setattr(log_file, "log", logger)
    return logger


def lines_of(path):
    """The lines of a file, as dicts."""
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def events(lines):
    return [line["event"] for line in lines]


# Who may read it


def test_other_users_of_the_machine_cannot_read_it_nor_what_follows_it(path):
    before = os.umask(0o022)
    try:
        file = LogFile(path, 100, 2)
        for _ in range(3):
            file.write("x" * 80)
    finally:
        os.umask(before)
    assert {each.name: oct(each.stat().st_mode & 0o777) for each in path.parent.iterdir()} == {
        "taskyard.log": "0o640",
        "taskyard.log.1": "0o640",
        "taskyard.log.2": "0o640",
    }


def test_a_mode_that_its_owner_has_set_stays(path):
    path.touch()
    path.chmod(0o644)
    LogFile(path, NO_ROTATION_BYTES, 1).write("x")
    assert path.stat().st_mode & 0o777 == 0o644


# Writing


def test_each_line_is_in_the_file_and_on_the_console(logger, console, path):
    logger.info("trigger_fired", trigger_id="trg_1", text="工\nand more")
    logger.warning("odd")
    assert lines_of(path) == [
        {"event": "trigger_fired", "level": "info", "trigger_id": "trg_1", "text": "工\nand more"},
        {"event": "odd", "level": "warning"},
    ]
    assert events(console.entries) == ["trigger_fired", "odd"]


def test_an_existing_file_is_continued(path):
    path.write_text('{"event": "before"}\n')
    LogFile(path, NO_ROTATION_BYTES, 5).write('{"event": "after"}')
    assert events(lines_of(path)) == ["before", "after"]


def test_a_full_file_is_rotated_and_the_oldest_one_deleted(path):
    file = LogFile(path, 100, 2)
    for number in range(5):
        file.write(json.dumps({"event": str(number), "filler": "x" * 50}))
    kept = {each.name: events(lines_of(each)) for each in path.parent.iterdir()}
    assert kept == {"taskyard.log": ["4"], "taskyard.log.1": ["3"], "taskyard.log.2": ["2"]}


def test_the_file_has_json_while_the_console_has_columns(path):
    program = f"""
from pathlib import Path
import structlog
from taskyard_server.logs import logs
from taskyard_server.logs.log_file import LogFile
logs.configure(as_json=False, file=LogFile(Path({str(path)!r}), {NO_ROTATION_BYTES}, 5))
log = structlog.get_logger()
log.debug('hidden')
try: 1 / 0
except ZeroDivisionError: log.exception('no', task_id='tsk_1')
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    (line,) = lines_of(path)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line.pop("timestamp"))
    assert "ZeroDivisionError" in line.pop("exception")
    assert line == {"event": "no", "level": "error", "task_id": "tsk_1"}
    assert "ZeroDivisionError" in done.stderr
    assert not done.stderr.startswith("{")


# Opening


def test_the_folder_of_the_file_is_created(tmp_path):
    LogFile(tmp_path / "logs" / "taskyard.log", NO_ROTATION_BYTES, 5).write("{}")
    assert lines_of(tmp_path / "logs" / "taskyard.log") == [{}]


def test_a_missing_parent_of_the_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "lgo" / "taskyard" / "taskyard.log", NO_ROTATION_BYTES, 5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [Path("/"), Path("/dev/null"), Path("/dev/null/x"), Path("a\0b")])
def test_a_path_that_cannot_be_a_file_is_refused(path):
    with pytest.raises((OSError, ValueError)):
        LogFile(path, NO_ROTATION_BYTES, 5)


# Failures


@pytest.mark.parametrize(
    "remove", [Path.unlink, lambda path: path.rename(path.with_name("moved"))], ids=["gone", "moved"]
)
def test_a_file_that_is_deleted_or_moved_is_created_again(logger, console, path, remove):
    logger.info("before")
    remove(path)
    logger.info("after")
    assert events(lines_of(path)) == ["after"]
    assert events(console.entries) == ["before", "after"]


def test_a_file_that_cannot_be_written_is_logged_once_on_the_console(logger, console, path):
    logger.info("before")
    shutil.rmtree(path.parent)
    for number in range(3):
        logger.info("lost", number=number)
    assert sorted(events(console.entries)) == ["before", "log_file_failed", "lost", "lost", "lost"]
    (failure,) = [line for line in console.entries if line["event"] == "log_file_failed"]
    assert (failure["file"], failure["error"]) == (str(path), "No such file or directory")
    assert failure["log_level"] == "error"


def test_a_file_that_can_be_written_again_logs_the_number_of_lost_lines(logger, console, path):
    shutil.rmtree(path.parent)
    for _ in range(2):
        logger.info("lost")
    path.parent.mkdir()
    logger.info("after")
    logger.info("later")
    # The line `log_file_failed` is lost too.
    assert events(lines_of(path)) == ["after", "log_file_resumed", "later"]
    assert lines_of(path)[1]["lost_lines"] == 2 + 1
    shutil.rmtree(path.parent)
    logger.info("lost again")
    assert events(console.entries).count("log_file_failed") == 2


def test_on_a_full_disk_lines_stay_whole_and_the_program_goes_on(path):
    """A limit on the size of files cuts a line in the middle, as a full disk does."""
    program = f"""
import resource
from pathlib import Path
import structlog
from taskyard_server.logs import logs
from taskyard_server.logs.log_file import LogFile
logs.configure(as_json=True, file=LogFile(Path({str(path)!r}), {NO_ROTATION_BYTES}, 5))
log = structlog.get_logger()
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
for number in range(4): log.info('line', number=number, filler='x' * 300)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.info('after')
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    on_console = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["number"] for line in on_console if line["event"] == "line"] == [0, 1, 2, 3]
    assert events(on_console).count("log_file_failed") == 1
    written = lines_of(path)
    assert [line.get("number") for line in written if line["event"] == "line"] == [0, 1]
    assert events(written)[2:] == ["after", "log_file_resumed"]
