"""`taskyard artifacts`: what a task has is listed, printed into a pipe, and saved."""

import hashlib
import json
import re

import grpc
import pytest
from google.api.httpbody_pb2 import HttpBody

from taskyard.v1 import artifact_pb2
from taskyard_server.cli import artifacts as command
from taskyard_server.cli.connection import connection
from taskyard_server.cli.failure import Failure, NoServer
from taskyard_server.core.errors import NotOwner
from taskyard_server.interceptors.errors import trailing_metadata
from tests.cli.test_watch import GONE, Broken

DATA = bytes(range(256)) * 10_000


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_bytes(DATA)
    return file


@pytest.fixture
def task_id(taskyard, file):
    """A held task with an artifact of three parts."""
    shown = taskyard("submit", "--agent", "ann", "--action", "fetch", "--hold", "--attach", f"notes.txt={file}")
    assert (shown.code, shown.err) == (0, "")
    return re.match("tsk_[0-9a-f]+", shown.out)[0]


def test_the_artifacts_of_a_task_are_listed(taskyard, task_id):
    shown = taskyard("artifacts", task_id)
    assert shown.out.splitlines()[0].split() == ["name", "type", "size", "attempt", "put", "sha256"]
    assert shown.out.splitlines()[1].split()[:4] == ["notes.txt", "text/plain", "2", "MiB"]
    (listed,) = json.loads(taskyard("artifacts", task_id, "--json").out)["artifacts"]
    assert listed["sha256"] == hashlib.sha256(DATA).hexdigest()


def test_one_is_saved_and_replaces_a_file_only_if_that_is_wanted(taskyard, task_id, tmp_path):
    saved = tmp_path / "saved"
    assert taskyard("artifacts", task_id, "notes.txt", "--save", str(saved)).code == 0
    assert saved.read_bytes() == DATA
    saved.write_text("mine")
    again = taskyard("artifacts", task_id, "notes.txt", "--save", str(saved))
    assert (again.code, saved.read_text()) == (1, "mine")
    assert "--force replaces it" in again.err
    assert taskyard("artifacts", task_id, "notes.txt", "--save", str(saved), "--force").code == 0
    assert saved.read_bytes() == DATA
    assert sorted(each.name for each in tmp_path.iterdir()) == ["notes.txt", "saved"]


def test_into_a_folder_it_goes_under_its_name(taskyard, task_id, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    assert taskyard("artifacts", task_id, "notes.txt", "--save", str(folder)).code == 0
    assert (folder / "notes.txt").read_bytes() == DATA
    nowhere = taskyard("artifacts", task_id, "notes.txt", "--save", f"{tmp_path}/none/notes.txt")
    assert (nowhere.code, nowhere.err) == (1, f"taskyard: {tmp_path}/none/notes.txt: no such file or directory\n")


def test_what_is_not_there_is_one_line(taskyard, task_id):
    assert taskyard("artifacts", task_id, "other").err == "taskyard: the task has no artifact other\n"
    assert taskyard("artifacts", "tsk_1").err == "taskyard: task not found\n"


# Broken streams


class Streams:
    """Replaces the stub: each reading gets the next scripted stream, and its offset is recorded."""

    def __init__(self, *scripts):
        self.offsets = []
        self._scripts = list(scripts)

    def __call__(self, _channel):
        return self

    def ReadArtifact(self, asked, **_):  # noqa: N802
        self.offsets.append(asked.offset)
        for step in self._scripts.pop(0):
            if isinstance(step, Exception):
                raise step
            yield HttpBody(data=step)


def read(monkeypatch, streams, data):
    monkeypatch.setattr(command, "ArtifactServiceStub", streams)
    monkeypatch.setattr(command, "AGAIN_AFTER_SECS", 0)
    artifact = artifact_pb2.Artifact(name="a", sha256=hashlib.sha256(data).hexdigest())
    got = []
    command._read("tsk_1", artifact, connection(server="127.0.0.1:1"), got.append)
    return b"".join(got)


def test_a_broken_reading_goes_on_where_it_was(monkeypatch):
    streams = Streams([b"one ", GONE], [GONE], [b"whole"])
    assert read(monkeypatch, streams, b"one whole") == b"one whole"
    assert streams.offsets == [0, 4, 4]


class Stray(Broken):
    def trailing_metadata(self):
        return trailing_metadata(NotOwner("other"), by_rest=False)


def test_a_reading_that_came_to_the_wrong_server_goes_to_another(monkeypatch):
    streams = Streams([Stray(grpc.StatusCode.UNAVAILABLE)], [b"it"])
    assert read(monkeypatch, streams, b"it") == b"it"


def test_a_reading_that_cannot_begin_or_is_refused_fails(monkeypatch):
    with pytest.raises(NoServer):
        read(monkeypatch, Streams([GONE]), b"")
    with pytest.raises(Failure):
        read(monkeypatch, Streams([b"x", Broken(grpc.StatusCode.NOT_FOUND)]), b"")


def test_other_bytes_than_the_hash_says_are_an_error(monkeypatch):
    with pytest.raises(Failure, match="other bytes than its hash says"):
        read(monkeypatch, Streams([b"x"]), b"y")
