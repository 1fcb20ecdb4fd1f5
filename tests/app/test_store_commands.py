"""`taskyard store` beside a running `taskyard up`, its metrics and its figures.

See docs/operate/durability.md, The commands.
"""

import asyncio
import json
import signal
import sys

import pytest

from taskyard.v1 import stats_pb2
from taskyard_server.net.admin_address import is_served, socket_path
from tests.environment import without_settings


@pytest.fixture
async def server(up, tmp_path):
    """A server on a store of its own."""
    return await up({}, TASKYARD_STORE__URL=f"sqlite:///{tmp_path}/yard.db")


@pytest.fixture
def command(tmp_path):
    """Runs `taskyard store` on the same store. Returns exit code, output and errors."""

    async def run(*words):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "taskyard_server.cli.main", "store", *words),
            env=without_settings() | {"TASKYARD_STORE__URL": f"sqlite:///{tmp_path}/yard.db"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        printed, errors = await process.communicate()
        return process.returncode, printed.decode(), errors.decode()

    return run


async def test_a_backup_of_a_live_server_holds_what_was_acknowledged(server, command, tmp_path):
    await server.submit()
    assert await command("check") == (0, "Nothing is wrong.\n", "")
    code, _, errors = await command("backup", str(tmp_path / "backup.db"))
    assert (code, errors) == (0, "")
    code, printed, _ = await command("stats", "--store", f"sqlite:///{tmp_path}/backup.db", "--json")
    assert json.loads(printed)["rows"]["tasks"] == 1


async def test_the_store_shows_in_metrics_and_statistics(server, tmp_path):
    await server.submit()
    metrics = await server.metrics()
    commits = next(line for line in metrics.splitlines() if line.startswith("taskyard_store_commits_total "))
    assert float(commits.split()[1]) >= 1
    store = (await server.stats.GetStats(stats_pb2.GetStatsRequest())).store
    assert store.url == f"sqlite:///{tmp_path}/yard.db"
    assert store.used_bytes > 0 < store.free_bytes


@pytest.mark.usefixtures("server")
async def test_a_second_server_leaves_the_socket_of_the_first_alone(command, refused, tmp_path):
    refusal = await asyncio.to_thread(refused, None, "--store", f"sqlite:///{tmp_path}/yard.db")
    assert refusal.exit_code == 1
    assert [str(tmp_path / "yard.db") in line for line in refusal.errors] == [True]
    assert is_served(socket_path(tmp_path / "yard.db"))
    assert (await command("check"))[0] == 0


async def test_the_socket_goes_with_the_server_and_the_commands_go_on(server, command, tmp_path):
    server.signal(signal.SIGTERM)
    assert await server.exited() == 0
    assert not socket_path(tmp_path / "yard.db").exists()
    assert (await command("check"))[0] == 0


async def test_a_socket_that_a_killed_server_left_is_taken_by_the_next(up, server, command, tmp_path):
    server.signal(signal.SIGKILL)
    await server.process.wait()
    assert socket_path(tmp_path / "yard.db").exists()
    await up({}, TASKYARD_STORE__URL=f"sqlite:///{tmp_path}/yard.db")
    assert is_served(socket_path(tmp_path / "yard.db"))
    assert (await command("check"))[0] == 0
