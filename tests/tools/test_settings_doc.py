"""docs/operate/settings.md is right about each key: its variable, its default and its reload; and its examples work."""

import json
import os
import re
from pathlib import Path

import pytest

from taskyard_server.settings.config import ConfigError, Settings, by_key
from taskyard_server.settings.config_sources import load
from taskyard_server.settings.live_config import RELOADABLE
from taskyard_server.settings.setting_types import Section
from taskyard_server.settings.store_url import DOCUMENTED_DEFAULT
from tests.cases import every_case
from tests.environment import settings_in

PAGE = (Path(__file__).parents[2] / "docs/operate/settings.md").read_text()
ROWS = {
    cells[0].strip("`"): cells
    for line in PAGE.splitlines()
    if len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == 6 and cells[0].startswith("`")
}
# A value for each key whose default is none.
EXAMPLES = {
    "executor": "http://127.0.0.1:9222",
    "console.url": "https://yard.example/ui/",
    "webhooks.secret": "whsec_c2VjcmV0",
    "log.file": "/var/log/taskyard.log",
    "metricsToken": "0123456789abcdefghij",
    "auth.adminToken": "0123456789abcdefghij",
    "replicas.advertise": "127.0.0.1:50052",
    "replicas.listen": "127.0.0.1:50052",
    "store.artifacts": "s3://bucket/yard",
    "telemetry.endpoint": "http://127.0.0.1:4317",
    "telemetry.sampleRatio": "0.5",
}
# Those that depend on the user and the system.
OF_THE_SYSTEM = {"store.url": DOCUMENTED_DEFAULT, "replicas.name": "HOSTNAME"}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in settings_in(os.environ):
        monkeypatch.delenv(name)


def test_every_key_has_a_row():
    assert set(ROWS) == set(by_key(Settings()))


def test_every_field_has_a_description():
    fields = [
        (name, info) for model in (Settings, *Section.__subclasses__()) for name, info in model.model_fields.items()
    ]
    sections = {name for name, info in Settings.model_fields.items() if info.annotation in Section.__subclasses__()}
    assert {name for name, info in fields if not info.description} == sections


@every_case("key", ROWS)
def test_the_default_is_that_of_the_model(key):
    default = ROWS[key][2]
    if key in OF_THE_SYSTEM:
        assert default.strip("`") == json.dumps(OF_THE_SYSTEM[key])
        return
    assert by_key(Settings())[key] == (None if default == "none" else json.loads(default.strip("`")))


@every_case("key", ROWS)
def test_a_key_says_whether_it_reloads(key):
    assert ROWS[key][3] == ("reload" if key in RELOADABLE else "restart")


@every_case(("key", "name"), [(key, name.strip("`")) for key, cells in ROWS.items() for name in cells[4].split(", ")])
def test_the_variable_sets_the_key(monkeypatch, key, name):
    value = EXAMPLES.get(key, by_key(Settings())[key])
    with monkeypatch.context() as alone:
        alone.setenv(name, value if isinstance(value, str) else json.dumps(value))
        assert load(None, {}).sources == {key: "environment"}


def test_the_examples_of_files_are_valid(tmp_path):
    blocks = re.findall(r"```(json|toml)\n(.*?)```", PAGE, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["json", "toml"]
    for kind, text in blocks:
        file = tmp_path / f"taskyard.{kind}"
        file.write_text(text)
        assert load(file, {}).settings.scheduler.max_queue_size in (1000, 5000)


def test_the_examples_of_variables_are_valid(monkeypatch):
    examples = re.findall(r"`(TASKYARD_[A-Z_]+)=([^`]+)`", PAGE)
    assert len(examples) == 3
    for name, value in examples:
        monkeypatch.setenv(name, value.strip("'"))
    load(None, {})


def test_the_example_of_a_mistake_is_the_message_of_the_start(monkeypatch):
    name, message = re.findall(r"^taskyard: (\w+): (.*)$", PAGE, re.MULTILINE)[0]
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match=f"^{re.escape(f'{name}: {message}')}$"):
        load(None, {})
