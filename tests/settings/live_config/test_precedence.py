"""Flags override the environment, and this overrides the file, also after reloads (docs/rules.md, Settings)."""

import pytest

from taskyard_server.settings.config import ConfigError
from taskyard_server.settings.live_config import LiveConfig


def test_the_environment_comes_before_the_file_also_after_a_reload(config_file, monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_INFLIGHT", "5")
    live = config_file.start({"scheduler": {"maxInflight": 1}})
    assert live.settings.scheduler.max_inflight == 5
    config_file.write_scheduler(maxInflight=2)
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [])
    assert live.settings.scheduler.max_inflight == 5


def test_a_flag_comes_before_the_environment_and_the_file_also_after_a_reload(config_file, monkeypatch):
    monkeypatch.setenv("TASKYARD_GRPC", "127.0.0.1:2")
    live = config_file.start({"grpc": "127.0.0.1:1"}, grpc="127.0.0.1:3")
    assert live.settings.grpc == "127.0.0.1:3"
    config_file.write({"grpc": "127.0.0.1:4"})
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [])
    assert live.settings.grpc == "127.0.0.1:3"


def test_the_file_sets_what_neither_environment_nor_flags_set(config_file, monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_INFLIGHT", "5")
    live = config_file.start({}, grpc="127.0.0.1:3")
    config_file.write_scheduler(maxInflight=2, maxQueueSize=9)
    assert live.reload().changed == ["scheduler.maxQueueSize"]
    assert (live.settings.scheduler.max_inflight, live.settings.scheduler.max_queue_size) == (5, 9)


def test_other_keys_of_a_section_come_from_the_file_where_the_environment_sets_one(config_file, monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_INFLIGHT", "5")
    live = config_file.start({"scheduler": {"maxPerAgent": 3}})
    assert (live.settings.scheduler.max_inflight, live.settings.scheduler.max_per_agent) == (5, 3)


@pytest.mark.parametrize(
    ("name", "value", "field", "expected"),
    [
        ("TASKYARD_SCHEDULER__MAX_QUEUE_SIZE", "5", "max_queue_size", 5),
        ("TASKYARD_SCHEDULER__MAX_PER_AGENT", "5", "max_per_agent", 5),
        ("TASKYARD_SCHEDULER__MAX_PER_AGENT_INFLIGHT", "5", "max_per_agent_inflight", 5),
        ("TASKYARD_SCHEDULER__RESULT_TTL_SEC", "5.5", "result_ttl_sec", 5.5),
        ("taskyard_scheduler__lease_secs", "5.5", "lease_secs", 5.5),
    ],
)
def test_the_environment_writes_keys_with_underscores(monkeypatch, name, value, field, expected):
    monkeypatch.setenv(name, value)
    assert getattr(LiveConfig(None, {}).settings.scheduler, field) == expected


def test_the_grace_period_has_the_name_of_the_spec_in_the_environment(monkeypatch):
    monkeypatch.setenv("SHUTDOWN_GRACE_PERIOD_SECONDS", "7")
    assert LiveConfig(None, {}).settings.shutdown_grace_period_seconds == 7


def test_the_cap_on_triggers_has_a_short_variable(config_file, monkeypatch):
    monkeypatch.setenv("TASKYARD_MAX_CONCURRENT", "7")
    live = config_file.start({"daemon": {"maxConcurrent": 1, "pollIntervalMs": 2_000}})
    assert live.settings.limits().max_concurrent == 7
    assert live.sources == {"daemon.maxConcurrent": "environment", "daemon.pollIntervalMs": "file"}
    config_file.write({"daemon": {"maxConcurrent": 2, "pollIntervalMs": 2_000}})
    assert live.reload().changed == []
    assert live.settings.daemon.max_concurrent == 7


@pytest.mark.parametrize(
    ("name", "value"),
    [("TASKYARD_DAEMON__MAX_CONCURRENT", "3"), ("TASKYARD_DAEMON", '{"maxConcurrent": 3}')],
)
def test_the_variable_that_names_the_section_comes_before_the_short_one(monkeypatch, name, value):
    monkeypatch.setenv("TASKYARD_MAX_CONCURRENT", "7")
    monkeypatch.setenv(name, value)
    live = LiveConfig(None, {})
    assert live.settings.daemon.max_concurrent == 3
    assert live.sources == {"daemon.maxConcurrent": "environment"}


def test_the_short_variable_leaves_the_other_keys_of_the_environment_alone(monkeypatch):
    monkeypatch.setenv("TASKYARD_MAX_CONCURRENT", "7")
    monkeypatch.setenv("TASKYARD_DAEMON__JITTER_THRESHOLD", "0")
    monkeypatch.setenv("TASKYARD_WEBHOOKS__SECRET", "whsec_c2VjcmV0")
    live = LiveConfig(None, {})
    assert (live.settings.daemon.max_concurrent, live.settings.daemon.jitter_threshold) == (7, 0)
    assert live.settings.webhooks.secret.get_secret_value() == "whsec_c2VjcmV0"
    assert set(live.sources) == {"daemon.maxConcurrent", "daemon.jitterThreshold", "webhooks.secret"}


@pytest.mark.parametrize("value", ["many", "0", "-1", "1.5", "", "4294967296"])
def test_a_wrong_cap_is_one_line_that_names_its_variable(monkeypatch, value):
    monkeypatch.setenv("TASKYARD_MAX_CONCURRENT", value)
    with pytest.raises(ConfigError, match=r"^TASKYARD_MAX_CONCURRENT: [^\n]*$"):
        LiveConfig(None, {})


def test_the_short_name_is_not_a_key_of_the_file(config_file):
    with pytest.raises(ConfigError, match=r"^max_concurrent: unknown key$"):
        config_file.start({"max_concurrent": 3})


def test_the_source_of_each_setting_is_known(config_file, monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_INFLIGHT", "5")
    live = config_file.start(
        {"scheduler": {"maxInflight": 1, "maxQueueSize": 2}, "rest": "127.0.0.1:1"}, rest="127.0.0.1:2"
    )
    assert live.sources == {
        "scheduler.maxInflight": "environment",
        "scheduler.maxQueueSize": "file",
        "rest": "flag",
    }


def test_a_key_that_a_reload_adds_comes_from_the_file(config_file):
    live = config_file.start()
    assert live.sources == {}
    config_file.write_scheduler(maxQueueSize=2)
    live.reload()
    assert live.sources == {"scheduler.maxQueueSize": "file"}


def test_a_mistake_in_the_environment_names_its_key(monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_INFLIGHT", "many")
    with pytest.raises(ConfigError, match=r"^scheduler\.max_?[iI]nflight: .*'many'$"):
        LiveConfig(None, {})


def test_a_mistake_in_a_flag_names_its_key():
    with pytest.raises(ConfigError, match=r"^grpc: "):
        LiveConfig(None, {"grpc": "50051"})
