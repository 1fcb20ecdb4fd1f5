"""`taskyard submit --attach` gives a task files before it is handed out, and says before what is wrong with them."""

import hashlib
import json
import re

import grpc
import pytest

from taskyard_server.cli import attachments
from taskyard_server.cli.connection import connection
from tests.cli.test_watch import GONE, Broken

DATA = bytes(range(256)) * 10_000
PART = 1_048_576
SUBMIT = ("submit", "--agent", "ann", "--action", "fetch")


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_bytes(DATA)
    return file


def test_a_file_is_attached_before_the_task_is_handed_out(taskyard, file):
    submitted = taskyard(*SUBMIT, "--json", "--attach", f"a.bin={file}", "--attach", f"b={file}").json
    assert submitted["state"] == "queued"
    task = taskyard("get", submitted["taskId"], "--json").json
    assert [each["name"] for each in task["artifacts"]] == ["a.bin", "b"]
    assert "hold" not in task


def test_a_task_that_is_to_be_held_is(taskyard, file):
    submitted = taskyard(*SUBMIT, "--json", "--hold", "--attach", f"a={file}").json
    assert submitted["state"] == "pending"
    task = taskyard("get", submitted["taskId"], "--json").json
    assert (task["hold"], task["artifacts"][0]["sha256"]) == (True, hashlib.sha256(DATA).hexdigest())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("a", "must be NAME=FILE, is a"),
        ("a=", "must be NAME=FILE, is a="),
        ("a=./none", "./none: no such file or directory"),
        ("a=/", "/: is a directory"),
        (".a=/dev/null", "name: must have 1 to 128 letters"),
    ],
)
def test_what_is_wrong_with_files_is_said_before_anything_is_submitted(taskyard, given, problem):
    attached = taskyard(*SUBMIT, "--attach", "b=/dev/null", "--attach", given)
    assert (attached.code, attached.err.count("\n")) == (2, 1)
    assert attached.err.startswith(f"taskyard: --attach: {problem}")
    assert taskyard("list", "--json").json["count"] == 0


def test_a_name_is_given_once(taskyard):
    assert taskyard(*SUBMIT, "--attach", "b=/dev/null", "--attach", "b=/").err == (
        "taskyard: --attach: b is given twice\n"
    )


def test_a_repeat_finds_the_task_with_its_files(taskyard, file):
    words = (*SUBMIT, "--idempotency-key", "one", "--attach", f"a={file}")
    first, again = taskyard(*words), taskyard(*words)
    assert (again.code, again.out.split()[:3]) == (0, first.out.split()[:3])


def test_a_repeat_goes_on_where_the_first_one_was(taskyard, file, monkeypatch):
    words = (*SUBMIT, "--idempotency-key", "one", "--attach", f"a={file}")
    with monkeypatch.context() as broken:
        broken.setattr(attachments, "ArtifactServiceStub", Parts(Broken(grpc.StatusCode.INTERNAL)))
        first = taskyard(*words)
    task_id = re.search("tsk_[0-9a-f]+", first.err)[0]
    assert (first.code, first.out) == (1, "")
    assert first.err.splitlines() == [f"taskyard: {task_id} stays held", "taskyard: over"]
    assert taskyard(*words).out.startswith(f"{task_id} is queued")
    assert json.loads(taskyard("get", task_id, "--json").out)["artifacts"][0]["name"] == "a"


# Broken uploads


class Lost(Broken):
    def details(self):
        return "offset: go on at 0"


class Parts:
    """Replaces the stub: each part meets the next error, if any is left, and its offset is recorded."""

    def __init__(self, *errors):
        self.offsets = []
        self._errors = list(errors)

    def __call__(self, _channel):
        return self

    def AttachArtifact(self, part, **_):  # noqa: N802
        self.offsets.append(int(part.offset))
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("errors", "offsets"),
    [
        ([None, GONE, GONE], [0, PART, PART, PART, 2 * PART]),
        ([None, None, Lost(grpc.StatusCode.INVALID_ARGUMENT)], [0, PART, 2 * PART, 0, PART, 2 * PART]),
    ],
    ids=["unavailable", "lost"],
)
def test_a_broken_upload_goes_on(monkeypatch, file, errors, offsets):
    parts = Parts(*errors)
    monkeypatch.setattr(attachments, "ArtifactServiceStub", parts)
    monkeypatch.setattr(attachments, "AGAIN_AFTER_SECS", 0)
    attachments.attach("tsk_1", {"a": file}, None, connection(server="127.0.0.1:1"))
    assert parts.offsets == offsets
