"""The admin socket and its store service: who may enter, checks, backups, figures (docs/operate/durability.md)."""

import os
import socket
import stat
from pathlib import Path

import grpc
import pytest

from taskyard.v1 import store_pb2 as pb
from taskyard.v1.store_pb2_grpc import StoreServiceStub
from taskyard_server.app.admin_socket import AdminSocket
from taskyard_server.net.admin_address import MAX_PATH_BYTES, address_of, is_served, socket_of, socket_path
from taskyard_server.services.store import StoreService
from taskyard_server.services.tokens import TokenService
from taskyard_server.settings.config import Settings
from taskyard_server.store.sqlite.store import SqliteStore
from tests.store.small_yard import AT, COMMITS, ROWS, group, make_yard


@pytest.fixture
async def store(tmp_path):
    """An open store with rows."""
    await make_yard(tmp_path / "yard.db")
    opened = SqliteStore(str(tmp_path / "yard.db"), ballast_bytes=0)
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def admin(store, tmp_path):
    """The open admin socket of the store."""
    opened = AdminSocket(socket_path(tmp_path / "yard.db"), StoreService(store), TokenService(None, None))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def stub(admin):
    async with grpc.aio.insecure_channel(address_of(admin.path)) as channel:
        yield StoreServiceStub(channel)


async def refusal_of(call):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code(), refused.value.details()


# The service


async def test_a_sound_store_has_no_problems(stub):
    assert list((await stub.CheckStore(pb.CheckStoreRequest())).problems) == []


async def test_a_backup_holds_what_was_committed_before_it(stub, store, tmp_path):
    path = tmp_path / "backup.db"
    answer = await stub.BackupStore(pb.BackupStoreRequest(path=str(path)))
    assert answer.bytes == path.stat().st_size > 0
    await store.commit(group(COMMITS + 1))
    copy = SqliteStore(str(path), ballast_bytes=0)
    assert (await copy.open()).number == COMMITS
    assert (await copy.stats()).rows == ROWS
    await copy.close()


async def test_a_backup_replaces_no_file(stub, tmp_path):
    path = tmp_path / "backup.db"
    path.write_text("precious")
    code, text = await refusal_of(stub.BackupStore(pb.BackupStoreRequest(path=str(path))))
    assert (code, path.read_text()) == (grpc.StatusCode.FAILED_PRECONDITION, "precious")
    assert text.startswith(f"{path} ")


@pytest.mark.parametrize("path", ["", "backup.db", "../backup.db"])
async def test_the_path_of_a_backup_must_be_absolute(stub, path):
    code, text = await refusal_of(stub.BackupStore(pb.BackupStoreRequest(path=path)))
    assert (code, text) == (grpc.StatusCode.INVALID_ARGUMENT, "path: must be absolute")


async def test_the_figures_are_those_of_the_store(stub, store):
    answer = await stub.GetStoreStats(pb.GetStoreStatsRequest())
    assert dict(answer.rows) == ROWS
    assert (answer.url, answer.commit_number, answer.epoch) == (store.url, COMMITS, 0)
    assert answer.committed_at.seconds == AT + COMMITS
    assert answer.used_bytes > 0 < answer.free_bytes
    assert answer.format_version > 0


# The socket


async def test_only_its_user_can_reach_the_socket(admin):
    assert stat.S_IMODE(admin.path.parent.stat().st_mode) == 0o700


async def test_a_folder_that_others_may_enter_is_closed_to_them(store, tmp_path):
    path = socket_path(tmp_path / "yard.db")
    path.parent.mkdir(0o755)
    admin = AdminSocket(path, StoreService(store), TokenService(None, None))
    await admin.open()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await admin.close()


async def test_the_socket_is_gone_after_the_server(admin):
    assert is_served(admin.path)
    await admin.close()
    assert not is_served(admin.path)
    assert not admin.path.exists()


async def test_a_socket_that_a_killed_server_left_behind_is_taken(store, tmp_path):
    path = socket_path(tmp_path / "yard.db")
    path.parent.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    assert not is_served(path)
    admin = AdminSocket(path, StoreService(store), TokenService(None, None))
    await admin.open()
    assert is_served(path)
    await admin.close()


async def test_a_server_without_its_socket_goes_on(store, tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    admin = AdminSocket(blocked / "admin.sock", StoreService(store), TokenService(None, None))
    await admin.open()
    await admin.close()


# Where it is


def test_the_socket_lies_beside_the_store(tmp_path):
    assert socket_path(tmp_path / "yard.db") == tmp_path / "yard.db.admin" / "admin.sock"


def test_every_name_of_a_file_leads_to_one_socket(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = [tmp_path / "yard.db", tmp_path / "link" / "yard.db", tmp_path / "link" / ".." / tmp_path.name / "yard.db"]
    assert len({socket_path(name) for name in names}) == 1


@pytest.mark.parametrize("name", ["a" * 120, "with space", "percent%20", "ünicode"])
def test_a_path_that_is_no_address_leads_to_the_run_folder(tmp_path, monkeypatch, name):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    paths = {socket_path(tmp_path / name / file) for file in ("yard.db", "other.db")}
    assert len(paths) == 2
    for path in paths:
        assert path.parents[1] == Path("/run/user/7/taskyard")
        assert len(os.fsencode(path)) <= MAX_PATH_BYTES


def test_with_a_database_each_replica_has_a_socket_of_its_own_in_the_state_folder(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/home/ann/state")
    named = [("one", "postgresql://db/yard"), ("two", "postgresql://db/yard"), ("one", "postgresql://db/other")]
    paths = {socket_of(settings_of(name, url)) for name, url in named}
    assert len(paths) == 3
    assert {path.parents[1] for path in paths} == {Path("/home/ann/state/taskyard/replicas")}
    with_password = settings_of("one", "postgresql://:secret@db/yard")
    assert socket_of(with_password) == socket_of(settings_of("one", "postgresql://@db/yard"))


async def test_a_socket_at_which_another_server_listens_is_left_to_it(admin, store):
    second = AdminSocket(admin.path, StoreService(store), TokenService(None, None))
    await second.open()
    await second.close()
    assert is_served(admin.path)


def settings_of(name, url):
    return Settings.model_validate({"store": {"url": url}, "replicas": {"name": name}})
