"""Where tasks are kept: `store.url` and its flag (docs/operate/durability.md)."""

import json
from pathlib import Path

import pytest

from taskyard_server.settings.config import ConfigError, Settings
from taskyard_server.settings.config_sources import load
from taskyard_server.settings.store_url import checked_store_url, shown_store_url, sqlite_path
from tests.cases import every_case


def refusal_of(url):
    with pytest.raises(ConfigError) as raised:
        load(None, {"store": {"url": url}})
    return str(raised.value)


def test_the_default_is_a_file_in_the_state_folder_of_the_user(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere/state")
    assert Settings().store.url == "sqlite:////somewhere/state/taskyard/yard.db"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/ann")
    assert Settings().store.url == "sqlite:////home/ann/.local/state/taskyard/yard.db"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/lib/taskyard/yard.db", "/var/lib/taskyard/yard.db"),
        ("sqlite:///~/yard.db", "/home/ann/yard.db"),
        ("sqlite:///yard.db", "/work folder/yard.db"),
        ("sqlite:///a/b%20c.db", "/work folder/a/b%20c.db"),
        ("memory://", None),
    ],
)
def test_a_url_names_one_file_wherever_it_is_read(monkeypatch, url, path):
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setattr("os.getcwd", lambda: "/work folder")
    kept = load(None, {"store": {"url": url}}).settings.store.url
    assert sqlite_path(kept) == (path and Path(path))
    monkeypatch.setattr("os.getcwd", lambda: "/elsewhere")
    assert checked_store_url(kept) == kept


@every_case(
    ("url", "problem"),
    [
        (
            "",
            "must be sqlite:///PATH (four slashes in all before an absolute path), postgresql://HOST/DATABASE or memory://",
        ),
        (
            "yard.db",
            "must be sqlite:///PATH (four slashes in all before an absolute path), postgresql://HOST/DATABASE or memory://",
        ),
        (
            "sqlite://yard.db",
            "must be sqlite:///PATH (four slashes in all before an absolute path), postgresql://HOST/DATABASE or memory://",
        ),
        (
            "mysql://host/yard",
            "must be sqlite:///PATH (four slashes in all before an absolute path), postgresql://HOST/DATABASE or memory://",
        ),
        ("memory://x", "must be memory://, with nothing after it"),
        ("memory:", "must be memory://, with nothing after it"),
        (
            "sqlite:///",
            "must name a file, as in sqlite:///~/.local/state/taskyard/yard.db",
        ),
        (
            "sqlite:////yards/a/",
            "must name a file; make one of a folder by `taskyard store copy sqlite:////yards/a/ sqlite:///FILE`",
        ),
        ("sqlite:///:memory:", "a yard that keeps nothing is memory://"),
        ("sqlite:///yard.db?mode=ro", "must be a path without ?, # and control characters after sqlite:///"),
        ("sqlite:///yard\n.db", "must be a path without ?, # and control characters after sqlite:///"),
        ("sqlite:///~nobody-of-this-name/yard.db", "no such home directory"),
    ],
)
def test_a_bad_url_is_one_line_that_names_the_key(url, problem):
    assert refusal_of(url) == f"store.url: {problem}"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://",
        "postgres://db/yard",
        "postgresql:///yard?host=/run/postgresql",
        "postgresql://ann:s%23cret@one,two:5433/yard?sslmode=verify-full",
        "postgresql://ann@[::1]:5432/yard",
    ],
)
def test_a_database_is_kept_as_it_is_given(url):
    assert load(None, {"store": {"url": url}}).settings.store.url == url


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql:db", "must begin with postgresql://, as in postgresql://USER@HOST/DATABASE?sslmode=verify-full"),
        ("postgresql://ann:s3c@ret@db/yard", "must have one @, before the host; write those of a password as %40"),
        (
            "postgresql://ann:s3#ret@db/y",
            "must be without #, spaces and control characters; write them as %23, %20, ...",
        ),
        ("postgresql://ann:s3cret@db:port/yard", "must have numbers of 1 to 65535 as ports"),
        ("postgresql://db/yard?sslmode", "must be as in postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full"),
    ],
)
def test_a_bad_database_is_one_line_without_its_password(url, problem):
    assert refusal_of(url) == f"store.url: {problem}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:s3cret@db:1/yard?sslmode=require", "postgresql://ann@db:1/yard?sslmode=require"),
        ("postgresql://ann@/yard?password=s3cret&host=/run/pg", "postgresql://ann@/yard?host=/run/pg"),
        ("postgresql://:s3cret@db/yard", "postgresql://@db/yard"),
        ("postgresql://db/yard?sslpassword=s3cret", "postgresql://db/yard"),
    ],
)
def test_no_password_is_shown(url, shown):
    assert shown_store_url(url) == shown
    settings = load(None, {"store": {"url": url}}).settings
    assert settings.model_dump(mode="json")["store"]["url"] == shown
    assert settings.store.url == url


def test_no_message_quotes_what_may_be_a_password(monkeypatch):
    monkeypatch.setenv("TASKYARD_STORE", '"postgresql://ann:s3cret@db/yard"')
    with pytest.raises(ConfigError) as raised:
        load(None, {})
    assert "s3cret" not in str(raised.value)


def test_the_variable_and_the_flag_come_before_the_file(settings, monkeypatch):
    file = json.dumps({"store": {"url": "sqlite:////of/the/file.db", "historyDays": 2}})
    assert settings(file).store.url == "sqlite:////of/the/file.db"
    monkeypatch.setenv("TASKYARD_STORE__URL", "memory://")
    assert (settings(file).store.url, settings(file).store.history_days) == ("memory://", 2)
    assert settings(file, store={"url": "sqlite:////of/a/flag.db"}).store.url == "sqlite:////of/a/flag.db"


@pytest.mark.parametrize(
    ("key", "value"),
    [("synchronous", "off"), ("patienceSecs", 0), ("minFreeBytes", -1), ("historyDays", -1), ("historyDays", True)],
)
def test_a_value_out_of_range_names_its_key(settings, key, value):
    with pytest.raises(ConfigError, match=rf"^store\.{key}: [^\n]*$"):
        settings(json.dumps({"store": {key: value}}))


def test_no_history_and_no_spare_space_can_be_asked_for(settings):
    store = settings('{"store": {"historyDays": 0, "minFreeBytes": 0}}').store
    assert (store.history_days, store.min_free_bytes) == (0, 0)
