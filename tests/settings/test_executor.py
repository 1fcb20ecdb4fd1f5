"""`executor`, `executorToken` and `tabs`: where tab actions go, with which token (docs/rules.md, Tab executor)."""

import json
import os

import pytest

from taskyard_server.settings.config import ConfigError, by_key
from taskyard_server.settings.config_sources import load
from taskyard_server.settings.live_config import LiveConfig
from tests.cases import every_case

TOKEN = "s3cr3t-t0ken"
MASK = "**********"

NOT_HEADER_VALUES = [
    "",
    " ",
    "s3cr3t t0ken",
    "s3cr3t\n",
    "s3cr3t\r\nx-evil: 1",
    "\ts3cr3t",
    "s3cr3t\x00",
    "s3cr\xe9t",
    "工",
]


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    """No setting comes from the environment in which the tests run."""
    for name in os.environ:
        if name.upper().startswith("TASKYARD_"):
            monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path):
    """Writes a configuration file with these keys; its path."""

    def write_file(**keys):
        file = tmp_path / "taskyard.json"
        file.write_text(json.dumps(keys))
        return file

    return write_file


@pytest.fixture
def settings(write):
    """Loads a file with these keys."""
    return lambda **keys: load(write(**keys), {}).settings


@pytest.fixture
def refusal(write):
    """The message for a file with these keys."""

    def refuse(**keys):
        with pytest.raises(ConfigError) as refused:
            load(write(**keys), {})
        return str(refused.value)

    return refuse


def shown(settings):
    """The settings as the server shows them."""
    return json.dumps(settings.model_dump(mode="json", by_alias=True)), str(by_key(settings)), repr(settings)


# The token of the executor


def test_without_a_token_none_is_set(settings):
    assert settings(executor="http://127.0.0.1:9222").executor_token is None


def test_the_file_can_set_the_token(settings):
    assert settings(executorToken=TOKEN).executor_token.get_secret_value() == TOKEN


def test_the_environment_overrides_the_token_of_the_file(write, monkeypatch):
    monkeypatch.setenv("TASKYARD_EXECUTOR_TOKEN", "other")
    loaded = load(write(executorToken=TOKEN), {})
    assert loaded.settings.executor_token.get_secret_value() == "other"
    assert loaded.sources["executorToken"] == "environment"


def test_any_visible_ascii_is_a_token(settings):
    token = "".join(map(chr, range(0x21, 0x7F)))
    assert settings(executorToken=token).executor_token.get_secret_value() == token


@every_case("token", NOT_HEADER_VALUES)
def test_a_token_that_no_header_can_carry_is_refused_without_being_shown(refusal, token):
    message = "must be visible ASCII characters, without spaces and line ends"
    assert refusal(executorToken=token) == f"executorToken: {message}"
    tabs = {"mine": {"url": "http://127.0.0.1:9222", "token": token}}
    assert refusal(tabs=tabs) == f"tabs.mine.token: {message}"


def test_a_line_end_in_the_token_of_the_environment_is_refused_without_being_shown(monkeypatch):
    monkeypatch.setenv("TASKYARD_EXECUTOR_TOKEN", f"{TOKEN}\n")
    with pytest.raises(ConfigError) as refused:
        load(None, {})
    assert str(refused.value).startswith("executor_token: must be visible ASCII characters")
    assert TOKEN not in str(refused.value)


def test_the_mask_of_a_token_is_refused(refusal):
    """So that the answer of `GET /admin/config` is not taken for a file with tokens."""
    assert refusal(executorToken=MASK) == "executorToken: must be the token, not the mask that is shown in its place"


@pytest.mark.parametrize("token", [5, True, [TOKEN], {"token": TOKEN}])
def test_a_token_that_is_not_text_is_refused_without_being_shown(refusal, token):
    message = refusal(executorToken=token)
    assert message == "executorToken: input should be a valid string"


def test_the_token_is_not_shown(settings):
    loaded = settings(executorToken=TOKEN, tabs={"mine": {"url": "http://127.0.0.1:9222", "token": TOKEN}})
    for text in shown(loaded):
        assert TOKEN not in text
        assert MASK in text


# Tabs


def test_a_tab_is_a_url_or_an_object_with_a_url_and_a_token(settings):
    tabs = settings(
        tabs={"a": "http://127.0.0.1:1", "b": {"url": "http://127.0.0.1:2"}, "c": {"url": "http://h:3", "token": TOKEN}}
    ).tabs
    found = {name: (str(tab.url), tab.token and tab.token.get_secret_value()) for name, tab in tabs.items()}
    assert found == {
        "a": ("http://127.0.0.1:1/", None),
        "b": ("http://127.0.0.1:2/", None),
        "c": ("http://h:3/", TOKEN),
    }


def test_the_environment_overrides_the_tabs_of_the_file_one_by_one(write, monkeypatch):
    file = write(tabs={"a": {"url": "http://h:1", "token": TOKEN}, "b": {"url": "http://h:2", "token": TOKEN}})
    monkeypatch.setenv("TASKYARD_TABS", '{"b": "http://h:3"}')
    tabs = load(file, {}).settings.tabs
    assert tabs["a"].token.get_secret_value() == TOKEN
    assert (str(tabs["b"].url), tabs["b"].token) == ("http://h:3/", None), "a token belongs to its URL"


def test_a_tab_without_a_token_is_shown_as_its_url(settings):
    loaded = settings(tabs={"a": {"url": "http://h:1"}, "b": {"url": "http://h:2", "token": TOKEN}})
    assert by_key(loaded)["tabs"] == {"a": "http://h:1/", "b": {"url": "http://h:2/", "token": MASK}}


@pytest.mark.parametrize(
    ("tabs", "message"),
    [
        ({"a": "nonsense"}, "tabs.a: input should be a valid URL"),
        ({"a": 5}, "tabs.a: URL input should be a string or URL"),
        ({"a": None}, "tabs.a: URL input should be a string or URL"),
        ({"a": {"url": "nonsense", "token": TOKEN}}, "tabs.a.url: input should be a valid URL"),
        ({"a": {"token": TOKEN}}, "tabs.a.url: "),
        ({"a": {"url": "http://h", "tokn": TOKEN}}, "tabs.a.tokn: unknown key"),
        ({"a": {"url": "http://h", "token": [TOKEN]}}, "tabs.a.token: input should be a valid string"),
        ({"a": [TOKEN]}, "tabs.a: "),
        ([TOKEN], "tabs: input should be a valid dictionary"),
        (TOKEN, "tabs: input should be a valid dictionary"),
    ],
)
def test_a_mistake_in_the_tabs_names_its_key_and_shows_no_token(refusal, tabs, message):
    told = refusal(tabs=tabs)
    assert told.startswith(message)
    assert TOKEN not in told
    assert "\n" not in told


# Reload


def test_a_changed_token_of_the_executor_reloads_and_those_of_tabs_hold_after_a_restart(write):
    tabs = {"a": {"url": "http://h:1", "token": TOKEN}}
    live = LiveConfig(write(executorToken=TOKEN, tabs=tabs), {})
    write(executorToken="other", tabs={"a": {"url": "http://h:1", "token": "other"}})
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == (["executorToken"], ["tabs"])
    assert live.settings.executor_token.get_secret_value() == "other"
    assert live.settings.tabs["a"].token.get_secret_value() == TOKEN


def test_an_unchanged_token_needs_no_restart(write):
    tabs = {"a": {"url": "http://h:1", "token": TOKEN}, "b": "http://h:2"}
    live = LiveConfig(write(executorToken=TOKEN, tabs=tabs), {})
    assert live.reload().needs_restart == []
