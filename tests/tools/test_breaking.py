"""What `make lint` holds the protos to: nobody who uses the last release is broken (README, What users may rely on)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("-c", "user.name=someone", "-c", "user.email=someone@example.com")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository with the protos as they are, released as v1."""
    for name in ("proto", "buf.yaml", "tools", "gateway/openapi.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    for words in (["init", "--quiet"], ["add", "."], [*NAMES, "commit", "--quiet", "-m", "v1"], ["tag", "v1"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def guard(copy: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["tools/generate.sh", "--breaking", "v1"]
    return subprocess.run(
        command, cwd=copy, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )


def change(copy: Path, name: str, old: str, new: str) -> None:
    file = copy / name
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    subprocess.run(["git", *NAMES, "commit", "--quiet", "-am", "a change"], cwd=copy, check=True)


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
def test_a_change_that_breaks_users_is_refused(copy: Path, old: str, new: str) -> None:
    change(copy, "proto/taskyard/v1/task.proto", old, new)
    done = guard(copy)
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
def test_what_rest_has_stays(copy: Path, old: str, new: str, gone: str) -> None:
    change(copy, "gateway/openapi.json", old, new)
    done = guard(copy)
    assert done.returncode != 0
    assert f"gone from REST: {gone}\n" in done.stdout


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("proto/taskyard/v1/task.proto", MESSAGE, f"{MESSAGE}  // Added.\n  optional string colour = 100;\n"),
        ("gateway/openapi.json", ' "paths": {', ' "paths": {\n  "/colours": {"get": {"responses": {"200": {}}}},'),
    ],
)
def test_an_addition_breaks_nobody(copy: Path, name: str, old: str, new: str) -> None:
    change(copy, name, old, new)
    done = guard(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing breaks users of v1." in done.stdout
