"""`make lint` refuses changes of the protos and of REST that break users of the last release."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.gate("what `make lint` runs")

ROOT = Path(__file__).parents[2]
COPIED = ("proto", "buf.yaml", "tools", "gateway/openapi.json", "released")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """What the check reads: the protos and the description of now, and those of the releases."""
    for name in COPIED:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    return tmp_path


def generate(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["tools/generate.sh", *words],
        cwd=repository,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def change(repository: Path, name: str, old: str, new: str) -> None:
    file = repository / name
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


MESSAGE = "message GetTaskRequest {\n"
FIELD = MESSAGE + "  // The task. Required.\n  string task_id = 1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FIELD + ";\n", MESSAGE),
        (FIELD, FIELD.replace("= 1", "= 2")),
        (FIELD, FIELD.replace("string", "bytes")),
        (FIELD, FIELD.replace("task_id", "id")),
        (FIELD, FIELD + ' [json_name = "id"]'),
        ("rpc GetTask(GetTaskRequest)", "rpc ReadTask(GetTaskRequest)"),
    ],
)
def test_a_change_that_breaks_users_is_refused(repository: Path, old: str, new: str) -> None:
    change(repository, "proto/taskyard/v1/task.proto", old, new)
    done = generate(repository, "--breaking")
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
    change(repository, "gateway/openapi.json", old, new)
    done = generate(repository, "--breaking")
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
    change(repository, name, old, new)
    done = generate(repository, "--breaking")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing breaks users of " in done.stdout


def test_without_a_release_nothing_is_said_to_be_compatible(repository: Path) -> None:
    for kept in (repository / "released").iterdir():
        kept.unlink()
    done = generate(repository, "--breaking")
    assert done.returncode != 0
    assert "released/ holds no release to compare with" in done.stderr


def test_the_newest_release_by_number_is_what_counts(repository: Path) -> None:
    change(
        repository, "proto/taskyard/v1/task.proto", MESSAGE, f"{MESSAGE}  // Added.\n  optional string colour = 100;\n"
    )
    assert generate(repository, "--release", "0.10.0").returncode == 0
    change(repository, "proto/taskyard/v1/task.proto", "  // Added.\n  optional string colour = 100;\n", "")
    done = generate(repository, "--breaking")
    assert done.returncode != 0
    assert 'field "100" with name "colour" on message "GetTaskRequest" was deleted' in done.stdout


def test_what_is_released_cannot_be_replaced(repository: Path) -> None:
    kept = (repository / "released/0.2.0.binpb").read_bytes()
    done = generate(repository, "--release", "0.2.0")
    assert done.returncode != 0
    assert "released/ has 0.2.0 already" in done.stderr
    assert (repository / "released/0.2.0.binpb").read_bytes() == kept


def test_the_release_of_the_current_version_is_kept() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert (ROOT / f"released/{version}.binpb").is_file(), f"run tools/generate.sh --release {version}"
