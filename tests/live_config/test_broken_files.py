"""A broken file is logged and changes nothing; what is wrong names its key (scheduler-reference, ConfigWatcher)."""

import json
import re

import pytest

from taskyard_server.config import ConfigError
from taskyard_server.live_config import LiveConfig

GOOD = {"scheduler": {"maxInflight": 7, "maxQueueSize": 8}}

# What is wrong with a file, and how that is put.
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


@pytest.mark.parametrize(("content", "message"), WRONG_KEYS.values(), ids=list(WRONG_KEYS))
def test_what_is_wrong_names_its_key(bench, content, message):
    live = bench.start(GOOD)
    bench.write(content)
    with pytest.raises(ConfigError, match="(?i)^" + re.escape(message)) as error:
        live.reload()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("content", "message"), WRONG_KEYS.values(), ids=list(WRONG_KEYS))
def test_what_is_wrong_names_its_key_at_the_start_too(bench, content, message):
    with pytest.raises(ConfigError, match="(?i)^" + re.escape(message)):
        bench.start(content)


@pytest.mark.parametrize("content", WRONG_FILES.values(), ids=list(WRONG_FILES))
def test_a_file_that_cannot_be_read_as_a_configuration_is_named(bench, content):
    live = bench.start(GOOD)
    bench.write(content)
    with pytest.raises(ConfigError, match="^" + re.escape(f"{bench.file}: ")) as error:
        live.reload()
    assert "\n" not in str(error.value)


def test_a_file_that_is_gone_is_named(bench):
    live = bench.start(GOOD)
    bench.file.unlink()
    with pytest.raises(ConfigError, match="^" + re.escape(f"{bench.file}: no such file")):
        live.reload()


def test_a_broken_toml_file_is_named(tmp_path):
    file = tmp_path / "taskyard.toml"
    file.write_text("[scheduler\n")
    with pytest.raises(ConfigError, match="^" + re.escape(f"{file}: ")):
        LiveConfig(file, {})


@pytest.mark.parametrize(
    "content",
    [*WRONG_FILES.values(), *(content for content, _ in WRONG_KEYS.values())],
    ids=[*WRONG_FILES, *WRONG_KEYS],
)
def test_a_broken_file_changes_nothing_and_is_logged(bench, logged, content):
    live = bench.start(GOOD)
    settings, sources, loaded_at = live.settings, live.sources, live.loaded_at
    bench.write(broken(content))
    with pytest.raises(ConfigError) as error:
        live.reload()
    assert live.settings is settings
    assert live.sources == sources
    assert live.loaded_at == loaded_at
    assert bench.applied == []
    assert [(line["event"], line["log_level"], line["error"]) for line in logged] == [
        ("config_reload_failed", "error", str(error.value))
    ]


def test_one_wrong_key_keeps_the_others_from_changing(bench):
    live = bench.start(GOOD)
    bench.write({"scheduler": {"maxInflight": 1, "maxQueueSize": -1}})
    live.try_reload()
    assert live.settings.scheduler.max_inflight == 7
    assert bench.applied == []


def test_every_mistake_is_told_each_on_its_line(bench):
    with pytest.raises(ConfigError) as error:
        bench.start({"scheduler": {"maxQueuSize": 1, "maxInflight": -1}, "metrix": "x"})
    assert sorted(line.partition(":")[0] for line in str(error.value).splitlines()) == [
        "metrix",
        "scheduler.maxInflight",
        "scheduler.maxQueuSize",
    ]


def test_the_error_can_be_seen_until_a_reload_works(bench):
    live = bench.start(GOOD)
    assert live.error is None
    bench.write({"scheduler": {"maxInflight": -1}})
    live.try_reload()
    assert live.error is not None
    assert live.error.startswith("scheduler.maxInflight: ")
    bench.write_scheduler(maxInflight=3)
    live.try_reload()
    assert live.error is None
    assert live.settings.scheduler.max_inflight == 3


def test_a_signal_or_the_watcher_survive_a_broken_file(bench, events):
    live = bench.start(GOOD)
    bench.write("{")
    live.try_reload()
    assert events() == ["config_reload_failed"]


def test_a_wrong_value_is_shown_but_a_secret_is_not(bench):
    live = bench.start()
    bench.write({"scheduler": {"maxInflight": "plenty"}, "webhooks": {"secret": "whsec_c2VjcmV0", "workers": "few"}})
    with pytest.raises(ConfigError) as error:
        live.reload()
    assert "'plenty'" in str(error.value)
    assert "c2VjcmV0" not in str(error.value)
