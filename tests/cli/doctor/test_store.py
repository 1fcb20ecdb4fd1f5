"""What the doctor says of a store in a file: it is looked at, and never changed."""

import asyncio
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from taskyard_server.cli.doctor import store as doctor_store
from taskyard_server.cli.doctor.files import admin_socket
from taskyard_server.cli.doctor.ports import ports
from taskyard_server.cli.doctor.protection import protection
from taskyard_server.cli.doctor.server import server
from taskyard_server.cli.doctor.store import store
from taskyard_server.store.sqlite.file import VERSION
from tests.cli.doctor.yards import READY, ill, only, told, yard
from tests.cli.served_store import served_store
from tests.store.small_yard import make_yard

LOCK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA locking_mode = EXCLUSIVE")
db.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    """The file of a store with rows."""
    asyncio.run(make_yard(tmp_path / "yard.db"))
    return tmp_path / "yard.db"


def of(path, **settings):
    return yard({"store": {"url": f"sqlite:///{path}", **settings}})


def content(folder):
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir()}


def change(path, statement):
    with sqlite3.connect(path) as db:
        db.execute(statement)
    db.close()


def test_a_sound_file_is_well_and_stays_as_it_was(path, tmp_path):
    before = content(tmp_path)
    (found, disk) = told(store, of(path))
    assert found[0] == disk[0] == "ok"
    assert found[1].endswith("last commit 2023-11-14 22:13:23 UTC; nobody has it open")
    assert content(tmp_path) == before


def test_a_file_that_is_not_there_is_still_to_be_made(tmp_path):
    found, _ = told(store, of(tmp_path / "new" / "yard.db"))
    assert found == ("ok", f"store: {tmp_path}/new/yard.db is not there yet: the first start makes it")
    assert not list(tmp_path.iterdir())


def test_a_file_of_a_newer_version_is_a_failure(path):
    change(path, f"PRAGMA user_version = {VERSION + 1}")
    found = only(store(of(path)))
    assert found.status == "failure"
    assert found.seen == f"{path} was written by a newer Taskyard (schema {VERSION + 1}, this one knows {VERSION})"
    assert found.todo == "start that version again, or restore a backup of before"


def test_a_file_of_an_older_version_is_a_warning(path):
    change(path, f"PRAGMA user_version = {VERSION - 1}")
    found = only(store(of(path)))
    assert (found.status, found.todo.startswith("make a backup before")) == ("warning", True)


def test_a_file_that_everybody_can_read_is_a_warning_if_it_is_a_database(path):
    path.chmod(0o644)
    assert only(protection(of(path))).todo == f"chmod o-rwx {path}"
    path.write_text("that of another program")
    assert ill(protection(of(path))) == []


@pytest.mark.parametrize("text", ["no database", "SQLite format 3\0 and then nothing of the kind"])
def test_something_else_is_a_failure(path, text):
    path.write_text(text)
    assert only(store(of(path))).seen == f"{path} is not a file of Taskyard"


def test_a_damaged_file_is_a_failure_and_one_whose_log_was_not_copied_is_not(path):
    whole = path.read_bytes()
    page = int.from_bytes(whole[16:18], "big")
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'meta'").fetchone()
    db.close()
    path.write_bytes(whole[: (root - 1) * page] + b"x" * page + whole[root * page :])
    found = only(store(of(path)))
    assert (found.status, "is damaged" in found.seen) == ("failure", True)
    path.with_name("yard.db-wal").write_bytes(b"pages")
    assert not ill(store(of(path)))


def test_a_folder_that_is_a_file_is_a_failure(path):
    found = only(store(of(path / "yard.db")))
    assert (found.status, found.seen) == ("failure", f"{path} is no folder")


def test_a_folder_and_a_file_that_this_user_may_not_write_are_failures():
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        asyncio.run(make_yard(place / "yard.db"))
        (place / "yard.db").chmod(0o400)
        place.chmod(0o777)
        was = os.geteuid()
        try:
            if was == 0:
                # root may write everywhere.
                os.seteuid(65_534)
                (place / "mine").mkdir()
            file = only(store(of(place / "yard.db")))
            place.chmod(0o500) if was else (place / "mine").chmod(0o500)
            inner = only(store(of((place if was else place / "mine") / "other.db")))
        finally:
            os.seteuid(was)
            place.chmod(0o700)
    assert (file.status, "cannot be read and written by user" in file.seen) == ("failure", True)
    assert (inner.status, "cannot be written by user" in inner.seen) == ("failure", True)


def test_a_commit_ahead_of_the_clock_is_a_failure(path):
    change(path, f"UPDATE meta SET at = {time.time() + 3600}")
    found = only(store(of(path)))
    assert (found.status, found.check) == ("failure", "clock")
    assert "--accept-clock" in found.todo


def test_a_disk_with_less_than_the_least_is_a_failure_and_with_little_more_a_warning(tmp_path):
    found = os.statvfs(tmp_path)
    free = found.f_bavail * found.f_frsize
    assert only(store(of(tmp_path / "yard.db", minFreeBytes=2 * free))).status == "failure"
    low = only(store(of(tmp_path / "yard.db", minFreeBytes=free // 2)))
    assert (low.status, low.check) == ("warning", "disk of the store")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_a_warning(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(doctor_store, "_file_system", lambda _: kind)
    found = only(store(of(tmp_path / "yard.db")))
    assert (found.status, found.seen) == ("warning", f"{tmp_path} is on a network file system, {kind}")


def test_the_file_system_is_that_of_the_nearest_mount():
    assert doctor_store._file_system(Path("/proc/self")) == "proc"


def test_a_process_that_has_the_file_open_is_named(path):
    with subprocess.Popen(
        [sys.executable, "-c", LOCK, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        process.stdout.readline()
        found = only(store(of(path)))
        process.stdin.close()
    assert found.status == "failure"
    assert f"process {process.pid} has it open" in found.seen


def test_memory_is_well():
    assert told(store, yard({})) == [("ok", "store: memory://: nothing is kept, all tasks end with the server")]


# Beside a server, which is this process


@pytest.fixture
async def served(tmp_path):
    """The file of a store that this process has open."""
    async with served_store(tmp_path / "yard.db"):
        yield tmp_path / "yard.db"


async def test_the_server_and_its_processes_are_known(served):
    on = of(served)
    assert (on.runs, on.server, os.getpid() in on.processes()) == (True, os.getpid(), True)
    (found, _) = told(store, on)
    assert (found[0], found[1].endswith("; the running server has it open")) == ("ok", True)
    assert told(admin_socket, on) == [
        ("ok", f"admin socket: {served}.admin/admin.sock is served by process {os.getpid()}")
    ]


async def test_a_server_that_listens_elsewhere_is_a_warning_that_says_where(served):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        own = f"127.0.0.1:{listener.getsockname()[1]}"
        on = of(served)
        found = [*ill(ports(on)), only(server(on))]
    assert {each.status for each in found} == {"warning"}
    assert all(own in each.seen for each in found)


async def test_a_server_that_does_not_answer_at_its_own_port_is_a_failure(served):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        settings = {"store": {"url": f"sqlite:///{served}"}, "grpc": address}
        found = only(server(yard(settings, address=address)))
    assert (found.status, "serves the admin socket, but no server answers" in found.seen) == ("failure", True)


def test_a_server_that_answers_while_nobody_listens_at_the_socket_is_that_of_another_store(path):
    on = yard({"store": {"url": f"sqlite:///{path}"}}, reply=READY)
    assert not on.runs
    assert told(admin_socket, on) == [
        ("ok", f"admin socket: nobody listens at {path}.admin/admin.sock: no server runs on this store")
    ]
