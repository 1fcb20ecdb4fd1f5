"""A broken file is logged and changes nothing; the message names the key (docs/rules.md, Reload)."""

import json
import re

import pytest

from taskyard_server.settings.config import ConfigError
from taskyard_server.settings.live_config import LiveConfig
from tests.cases import every_case

GOOD = {"scheduler": {"maxInflight": 7, "maxQueueSize": 8}}

# Contents with a mistake, and the message for each.
WRONG_KEYS = {
    "unknown key": ({"scheduler": {"maxQueuSize": 1}}, "scheduler.maxQueuSize: unknown key"),
    "unknown section": ({"sheduler": {}}, "sheduler: unknown key"),
    "wrong type": ({"scheduler": {"maxQueueSize": "many"}}, "scheduler.maxQueueSize: input should be a valid integer"),
    "null": ({"scheduler": {"maxQueueSize": None}}, "scheduler.maxQueueSize: input should be a valid integer"),
    "half a task": ({"scheduler": {"maxInflight": 1.5}}, "scheduler.maxInflight: input should be a valid integer"),
    "negative count": ({"scheduler": {"maxPerAgent": -1}}, "scheduler.maxPerAgent: input should be greater than 0"),
    "negative time": ({"scheduler": {"resultTTLSec": -0.5}}, "scheduler.resultTTLSec: input should be greater than 0"),
    "short lease": (
        {"scheduler": {"leaseSecs": 0.5}},
        "scheduler.leaseSecs: input should be greater than",
    ),
    "long lease": (
        {"scheduler": {"leaseSecs": 3601}},
        "scheduler.leaseSecs: input should be less than or equal",
    ),
    "other strategy": ({"scheduler": {"strategy": "lifo"}}, "scheduler.strategy: input should be 'fair-fifo'"),
    "no section": ({"scheduler": 5}, "scheduler: input should be a valid dictionary"),
    "no address": ({"grpc": "50051"}, "grpc: string should match pattern"),
    "no URL": ({"executor": "localhost"}, "executor: input should be a valid URL"),
    "wrong switch": (
        {"webhooks": {"allowPrivate": "perhaps"}},
        "webhooks.allowPrivate: input should be a valid bool",
    ),
}
WRONG_FILES = {
    "cut off": '{"scheduler": {"maxInflight": 1',
    "empty": "",
    "a list": "[]",
    "a word": "null",
    "not text": b"\xff\xfe\x00{",
}


def broken(content):
    return content if isinstance(content, (str, bytes)) else json.dumps(content)


@every_case(("content", "message"), WRONG_KEYS.values(), ids=list(WRONG_KEYS))
def test_a_mistake_names_its_key(config_file, content, message):
    live = config_file.start(GOOD)
    config_file.write(content)
    with pytest.raises(ConfigError, match="(?i)^" + re.escape(message)) as error:
        live.reload()
    assert "\n" not in str(error.value)


@every_case(("content", "message"), WRONG_KEYS.values(), ids=list(WRONG_KEYS))
def test_a_mistake_names_its_key_at_the_start_too(config_file, content, message):
    with pytest.raises(ConfigError, match="(?i)^" + re.escape(message)):
        config_file.start(content)


@every_case("content", WRONG_FILES.values(), ids=list(WRONG_FILES))
def test_a_file_that_cannot_be_read_as_a_configuration_is_named(config_file, content):
    live = config_file.start(GOOD)
    config_file.write(content)
    with pytest.raises(ConfigError, match="^" + re.escape(f"{config_file.file}: ")) as error:
        live.reload()
    assert "\n" not in str(error.value)


def test_a_missing_file_is_named(config_file):
    live = config_file.start(GOOD)
    config_file.file.unlink()
    with pytest.raises(ConfigError, match="^" + re.escape(f"{config_file.file}: no such file")):
        live.reload()


def test_a_broken_toml_file_is_named(tmp_path):
    file = tmp_path / "taskyard.toml"
    file.write_text("[scheduler\n")
    with pytest.raises(ConfigError, match="^" + re.escape(f"{file}: ")):
        LiveConfig(file, {})


@every_case(
    "content",
    [*WRONG_FILES.values(), *(content for content, _ in WRONG_KEYS.values())],
    ids=[*WRONG_FILES, *WRONG_KEYS],
)
def test_a_broken_file_changes_nothing_and_is_logged(config_file, logged, content):
    logged.clear()
    live = config_file.start(GOOD)
    settings, sources, loaded_at = live.settings, live.sources, live.loaded_at
    config_file.write(broken(content))
    with pytest.raises(ConfigError) as error:
        live.reload()
    assert live.settings is settings
    assert live.sources == sources
    assert live.loaded_at == loaded_at
    assert config_file.applied == []
    assert [(line["event"], line["log_level"], line["error"]) for line in logged] == [
        ("config_reload_failed", "error", str(error.value))
    ]


def test_one_wrong_key_keeps_the_others_from_changing(config_file):
    live = config_file.start(GOOD)
    config_file.write({"scheduler": {"maxInflight": 1, "maxQueueSize": -1}})
    live.try_reload()
    assert live.settings.scheduler.max_inflight == 7
    assert config_file.applied == []


def test_every_mistake_has_a_line(config_file):
    with pytest.raises(ConfigError) as error:
        config_file.start({"scheduler": {"maxQueuSize": 1, "maxInflight": -1}, "metrix": "x"})
    assert sorted(line.partition(":")[0] for line in str(error.value).splitlines()) == [
        "metrix",
        "scheduler.maxInflight",
        "scheduler.maxQueuSize",
    ]


def test_the_error_stays_visible_until_a_reload_works(config_file):
    live = config_file.start(GOOD)
    assert live.error is None
    config_file.write({"scheduler": {"maxInflight": -1}})
    live.try_reload()
    assert live.error is not None
    assert live.error.startswith("scheduler.maxInflight: ")
    config_file.write_scheduler(maxInflight=3)
    live.try_reload()
    assert live.error is None
    assert live.settings.scheduler.max_inflight == 3


def test_a_broken_file_does_not_stop_the_signal_handler_or_the_watcher(config_file, events):
    live = config_file.start(GOOD)
    config_file.write("{")
    live.try_reload()
    assert events() == ["config_reload_failed"]


def test_a_wrong_value_is_shown_but_a_secret_is_not(config_file):
    live = config_file.start()
    config_file.write(
        {"scheduler": {"maxInflight": "plenty"}, "webhooks": {"secret": "whsec_c2VjcmV0", "workers": "few"}}
    )
    with pytest.raises(ConfigError) as error:
        live.reload()
    assert "'plenty'" in str(error.value)
    assert "c2VjcmV0" not in str(error.value)
