"""`make lint` refuses changes of the protos and of REST that break users of the last release."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("-c", "user.name=someone", "-c", "user.email=someone@example.com")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the current protos, released as v1."""
    for name in ("proto", "buf.yaml", "tools", "gateway/openapi.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    for words in (["init", "--quiet"], ["add", "."], [*NAMES, "commit", "--quiet", "-m", "v1"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def run_breaking_check(repository: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["tools/generate.sh", "--breaking", "v1"]
    return subprocess.run(
        command, cwd=repository, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


def commit_change(repository: Path, name: str, old: str, new: str) -> None:
    file = repository / name
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    subprocess.run(["git", *NAMES, "commit", "--quiet", "-am", "a change"], cwd=repository, check=True)


MESSAGE = "message GetTaskRequest {\n"
FIELD = MESSAGE + "  // The task. Required.\n  string task_id = 1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FIELD, FIELD.replace("= 1", "= 2")),
        (FIELD, FIELD.replace("string", "bytes")),
        (FIELD, FIELD.replace("task_id", "id")),
        (FIELD, FIELD + ' [json_name = "id"]'),
        ("rpc GetTask(GetTaskRequest)", "rpc ReadTask(GetTaskRequest)"),
    ],
)
def test_a_change_that_breaks_users_is_refused(repository: Path, old: str, new: str) -> None:
    commit_change(repository, "proto/taskyard/v1/task.proto", old, new)
    done = run_breaking_check(repository)
    assert done.returncode != 0
    assert "proto/taskyard/v1/task.proto" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ('"/tasks": {', '"/v1/tasks": {', "GET /tasks"),
        ('"/scheduler/stats": {\n   "get"', '"/scheduler/stats": {\n   "post"', "GET /scheduler/stats"),
        ('"name": "timeoutMs"', '"name": "timeout"', "GET /tasks/{taskId}:wait: parameter timeoutMs"),
    ],
)
def test_a_change_that_removes_something_from_rest_is_refused(repository: Path, old: str, new: str, gone: str) -> None:
    commit_change(repository, "gateway/openapi.json", old, new)
    done = run_breaking_check(repository)
    assert done.returncode != 0
    assert f"gone from REST: {gone}\n" in done.stdout


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("proto/taskyard/v1/task.proto", MESSAGE, f"{MESSAGE}  // Added.\n  optional string colour = 100;\n"),
        ("gateway/openapi.json", ' "paths": {', ' "paths": {\n  "/colours": {"get": {"responses": {"200": {}}}},'),
    ],
)
def test_an_addition_is_accepted(repository: Path, name: str, old: str, new: str) -> None:
    commit_change(repository, name, old, new)
    done = run_breaking_check(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing breaks users of v1." in done.stdout
