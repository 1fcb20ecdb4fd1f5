"""`taskyard store`: with and without a server on the store (docs/operate/durability.md)."""

import asyncio
import json
import sqlite3
import sys

import pytest

from taskyard_server.store.port import EPOCH_JUMP
from tests.cli.served_store import served_store
from tests.environment import without_settings
from tests.store.small_yard import COMMITS, ROWS, group, make_yard

pytestmark = pytest.mark.usefixtures("clean")
SOUND = "Nothing is wrong.\n"


@pytest.fixture
def clean(monkeypatch):
    for name, value in without_settings().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def path(tmp_path):
    """The file of a store with rows."""
    asyncio.run(make_yard(tmp_path / "yard.db"))
    return tmp_path / "yard.db"


@pytest.fixture
def store(anywhere, path):
    """Runs a command on the store, which no server has open."""
    return lambda *words: anywhere("store", *words, "--store", f"sqlite:///{path}")


def damage(path):
    """Take the namespaces out, which the other rows need."""
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM namespaces")
    db.close()


# Without a server


def test_a_sound_store_passes_the_check(store):
    assert (store("check").out, store("check").code) == (SOUND, 0)
    assert store("check", "--json").json == {"problems": []}


def test_the_check_shows_each_problem_and_fails(store, path):
    damage(path)
    found = store("check", "--json")
    assert found.code == 1
    assert found.json["problems"]
    assert store("check").out.splitlines() == found.json["problems"]
    assert found.err == f"taskyard: {len(found.json['problems'])} problems were found\n"


def test_the_figures_are_shown(store):
    figures = store("stats", "--json").json
    assert figures["rows"] == ROWS
    assert (figures["commitNumber"], figures["epoch"]) == (COMMITS, 0)
    lines = store("stats").out
    assert "committed at" in lines
    assert "6 rows" in lines


def test_a_backup_is_restored_in_a_new_epoch(anywhere, store, tmp_path):
    assert store("backup", str(tmp_path / "backup.db")).code == 0
    other = ("--store", f"sqlite:///{tmp_path}/other/yard.db")
    restored = anywhere("store", "restore", str(tmp_path / "backup.db"), *other, "--json").json
    assert restored == {"path": f"{tmp_path}/other/yard.db", "committedAt": "2023-11-14T22:13:23Z", "epoch": 1}
    figures = anywhere("store", "stats", *other, "--json").json
    assert (figures["rows"], figures["epoch"]) == (ROWS, 1)
    assert figures["commitNumber"] == COMMITS + EPOCH_JUMP


def test_a_store_that_is_there_is_replaced_only_where_that_is_said(store, path, tmp_path):
    store("backup", str(tmp_path / "backup.db"))
    damage(path)
    refused = store("restore", str(tmp_path / "backup.db"))
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert store("check").code == 1
    restored = store("restore", str(tmp_path / "backup.db"), "--replace", "--json").json
    assert store("check").out == SOUND
    assert sqlite3.connect(restored["setAside"]).execute("SELECT count(*) FROM tasks").fetchone() == (ROWS["tasks"],)


def test_a_copy_holds_all_rows(anywhere, store, path, tmp_path):
    copy = f"sqlite:///{tmp_path}/copy.db"
    assert anywhere("store", "copy", f"sqlite:///{path}", copy, "--json").json["rows"] == ROWS
    assert anywhere("store", "check", "--store", copy).out == SOUND
    assert store("check").out == SOUND
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.db", "yard.db"]


def test_a_copy_replaces_no_file(anywhere, path, tmp_path):
    (tmp_path / "copy.db").write_text("precious")
    refused = anywhere("store", "copy", f"sqlite:///{path}", f"sqlite:///{tmp_path}/copy.db")
    assert (refused.code, refused.err) == (1, f"taskyard: {tmp_path}/copy.db exists\n")
    assert (tmp_path / "copy.db").read_text() == "precious"


def test_a_copy_that_fails_leaves_nothing(anywhere, path, tmp_path):
    path.write_bytes(b"SQLite format 3\0 and then nothing of the kind")
    assert anywhere("store", "copy", f"sqlite:///{path}", f"sqlite:///{tmp_path}/copy.db").code == 1
    assert not list(tmp_path.glob("copy.db*"))


@pytest.mark.parametrize("words", [("check",), ("stats",), ("backup", "x.db")])
def test_a_store_that_is_not_there_is_not_made(anywhere, tmp_path, words):
    failed = anywhere("store", *words, "--store", f"sqlite:///{tmp_path}/none.db")
    assert (failed.code, failed.err) == (1, f"taskyard: no store at {tmp_path}/none.db\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("check",), ("stats",), ("backup", "x.db"), ("restore", "x.db")])
def test_a_yard_that_keeps_nothing_has_no_store(anywhere, monkeypatch, words):
    monkeypatch.setenv("TASKYARD_STORE__URL", "memory://")
    failed = anywhere("store", *words)
    assert (failed.code, failed.err) == (1, "taskyard: store.url: memory:// keeps nothing\n")


def test_the_store_of_the_settings_is_meant(anywhere, path, tmp_path, monkeypatch):
    monkeypatch.setenv("TASKYARD_STORE__URL", f"sqlite:///{path}")
    assert anywhere("store", "check").out == SOUND
    monkeypatch.delenv("TASKYARD_STORE__URL")
    file = tmp_path / "taskyard.json"
    file.write_text(json.dumps({"store": {"url": f"sqlite:///{path}"}}))
    assert anywhere("store", "check", "--config", str(file)).out == SOUND


def test_urls_of_a_copy_are_named_by_their_place(anywhere, path):
    assert anywhere("store", "copy", "x", f"sqlite:///{path}").err.startswith("taskyard: FROM: must be ")
    assert anywhere("store", "copy", f"sqlite:///{path}", "memory://").err == "taskyard: TO: memory:// keeps nothing\n"


# Beside a server


@pytest.fixture
async def live(tmp_path):
    """Runs a command as a process, beside a server on the store."""

    async def run(*words):
        command = [sys.executable, "-m", "taskyard_server.cli.main", "store", *words]
        environment = without_settings() | {"TASKYARD_STORE__URL": f"sqlite:///{tmp_path}/yard.db"}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        printed, errors = await process.communicate()
        return process.returncode, printed.decode(), errors.decode()

    async with served_store(tmp_path / "yard.db") as run.store:
        yield run


async def test_a_live_store_is_checked_backed_up_and_shown(live, tmp_path):
    assert await live("check") == (0, SOUND, "")
    code, printed, _ = await live("stats", "--json")
    assert (code, json.loads(printed)["rows"]) == (0, ROWS)
    code, printed, _ = await live("backup", "here.db", "--json")
    assert json.loads(printed) == {"path": f"{tmp_path}/here.db", "bytes": (tmp_path / "here.db").stat().st_size}
    await live.store.commit(group(COMMITS + 1))
    code, printed, errors = await live("backup", "here.db")
    assert (code, printed) == (1, "")
    assert errors.startswith(f"taskyard: {tmp_path}/here.db ")


async def test_a_live_store_is_neither_restored_nor_copied(live, tmp_path):
    await live("backup", "backup.db")
    code, _, errors = await live("restore", "backup.db", "--replace")
    assert (code, errors) == (1, f"taskyard: a server runs on {tmp_path}/yard.db; stop it first\n")
    code, _, errors = await live("copy", f"sqlite:///{tmp_path}/yard.db", "sqlite:///copy.db")
    assert (code, errors) == (1, f"taskyard: a server runs on {tmp_path}/yard.db; stop it first\n")
    assert not list(tmp_path.glob("copy.db*"))
    assert await live("check") == (0, SOUND, "")
