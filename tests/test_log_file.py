"""The log in a file: whole lines of JSON, set aside when it is full; what goes wrong with it breaks nothing else."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from structlog.testing import LogCapture

from taskyard_server import log_file
from taskyard_server.log_file import LogFile, ToFile

MANY = 1_000_000


@pytest.fixture
def path(tmp_path):
    return tmp_path / "taskyard.log"


@pytest.fixture
def console():
    """What the console is given, one dict a line."""
    return LogCapture()


@pytest.fixture
def logger(path, console, monkeypatch):
    """Logs to the file and to the console, as the server does; also what the file has to say of itself."""
    processors = [structlog.processors.add_log_level, ToFile(LogFile(path, MANY, 5)), console]
    logger = structlog.wrap_logger(None, processors=processors, wrapper_class=structlog.BoundLogger)
    monkeypatch.setattr(log_file, "log", logger)
    return logger


def lines_of(path):
    """The objects of a file, one a line."""
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def events(lines):
    return [line["event"] for line in lines]


# What is written


def test_each_line_is_in_the_file_and_on_the_console(logger, console, path):
    logger.info("trigger_fired", trigger_id="trg_1", text="工\nand more")
    logger.warning("odd")
    assert lines_of(path) == [
        {"event": "trigger_fired", "level": "info", "trigger_id": "trg_1", "text": "工\nand more"},
        {"event": "odd", "level": "warning"},
    ]
    assert events(console.entries) == ["trigger_fired", "odd"]


def test_a_file_that_is_there_is_continued(path):
    path.write_text('{"event": "before"}\n')
    LogFile(path, MANY, 5).write('{"event": "after"}')
    assert events(lines_of(path)) == ["before", "after"]


def test_a_full_file_is_set_aside_and_the_oldest_of_those_dropped(path):
    file = LogFile(path, 100, 2)
    for number in range(5):
        file.write(json.dumps({"event": str(number), "filler": "x" * 50}))
    kept = {each.name: events(lines_of(each)) for each in path.parent.iterdir()}
    assert kept == {"taskyard.log": ["4"], "taskyard.log.1": ["3"], "taskyard.log.2": ["2"]}


def test_what_a_person_reads_on_the_console_is_json_in_the_file(path):
    program = f"""
from pathlib import Path
import structlog
from taskyard_server import logs
from taskyard_server.log_file import LogFile
logs.configure(as_json=False, file=LogFile(Path({str(path)!r}), {MANY}, 5))
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


# How it is opened


def test_the_folder_of_the_file_is_made(tmp_path):
    LogFile(tmp_path / "logs" / "taskyard.log", MANY, 5).write("{}")
    assert lines_of(tmp_path / "logs" / "taskyard.log") == [{}]


def test_a_folder_in_a_folder_that_is_not_there_is_taken_for_a_mistake(tmp_path):
    with pytest.raises(FileNotFoundError):
        LogFile(tmp_path / "lgo" / "taskyard" / "taskyard.log", MANY, 5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [Path("/"), Path("/dev/null"), Path("/dev/null/x"), Path("a\0b")])
def test_what_can_be_no_log_file_is_refused(path):
    with pytest.raises((OSError, ValueError)):
        LogFile(path, MANY, 5)


# What goes wrong later


@pytest.mark.parametrize(
    "lose", [Path.unlink, lambda path: path.rename(path.with_name("moved"))], ids=["gone", "moved"]
)
def test_a_file_that_is_deleted_or_moved_is_begun_anew(logger, console, path, lose):
    logger.info("before")
    lose(path)
    logger.info("after")
    assert events(lines_of(path)) == ["after"]
    assert events(console.entries) == ["before", "after"]


def test_while_the_file_cannot_be_written_the_console_is_and_that_is_said_once(logger, console, path):
    logger.info("before")
    shutil.rmtree(path.parent)
    for number in range(3):
        logger.info("lost", number=number)
    assert sorted(events(console.entries)) == ["before", "log_file_failed", "lost", "lost", "lost"]
    (said,) = [line for line in console.entries if line["event"] == "log_file_failed"]
    assert (said["file"], said["error"], said["log_level"]) == (str(path), "No such file or directory", "error")


def test_once_it_can_be_written_again_it_says_how_much_is_missing(logger, console, path):
    shutil.rmtree(path.parent)
    for _ in range(2):
        logger.info("lost")
    path.parent.mkdir()
    logger.info("after")
    logger.info("later")
    # The line that said that the file had failed is not in it either, and is told from those that are lost.
    assert events(lines_of(path)) == ["after", "log_file_resumed", "later"]
    assert lines_of(path)[1]["lost_lines"] == 2 + 1
    shutil.rmtree(path.parent)
    logger.info("lost again")
    assert events(console.entries).count("log_file_failed") == 2


def test_a_full_disk_leaves_whole_lines_and_a_running_program(path):
    """The limit on the size of files stands for the disk: it cuts a line in the middle, as the disk does."""
    program = f"""
import resource
from pathlib import Path
import structlog
from taskyard_server import logs
from taskyard_server.log_file import LogFile
logs.configure(as_json=True, file=LogFile(Path({str(path)!r}), {MANY}, 5))
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
