"""`taskyard up --log-file` writes the same lines as the console, or ends with one line if it cannot."""

import json
import signal

import pytest

from taskyard.v1 import admin_pb2


async def test_the_file_has_all_lines_of_the_console(up, tmp_path):
    path = tmp_path / "logs" / "taskyard.log"
    server = await up(None, "--log-file", str(path))
    task_id = await server.submit()
    await server.logged("task_done", task_id=task_id)
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    assert [json.loads(line) for line in path.read_text().splitlines()] == server.lines
    assert "stopped" in server.events("stopped")


async def test_the_file_is_a_setting_like_any_other_and_holds_no_secret(up, tmp_path):
    path = tmp_path / "taskyard.log"
    settings = {"log": {"file": str(path), "backups": 2}, "webhooks": {"secret": "whsec_c2VjcmV0"}}
    server = await up(settings, TASKYARD_LOG__MAX_BYTES="70000")
    answer = await server.admin.GetConfig(admin_pb2.GetConfigRequest())
    assert dict(answer.config["log"]) == {"file": str(path), "maxBytes": 70_000, "backups": 2}
    assert (answer.sources["log.file"], answer.sources["log.maxBytes"]) == ("file", "environment")
    (tmp_path / "taskyard.json").write_text(json.dumps({"log": {"file": "elsewhere.log"}, "webhooks": {}}))
    reload = await server.admin.ReloadConfig(admin_pb2.ReloadConfigRequest())
    assert {"log.file", "log.backups"} <= set(reload.needs_restart)
    await server.logged("config_reloaded")
    assert "config_reloaded" in path.read_text()
    assert "c2VjcmV0" not in path.read_text()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a/b/taskyard.log", "no such file or directory"), ("", "not a regular file"), ("file/x", "not a directory")],
)
def test_a_file_that_cannot_be_written_is_one_line_and_exit_code_1(refused, tmp_path, name, reason):
    (tmp_path / "file").touch()
    refusal = refused(None, "--log-file", str(tmp_path / name))
    assert refusal.exit_code == 1
    assert refusal.errors == [f"cannot write the log to {tmp_path / name}: {reason}"]
    assert refusal.others == []
