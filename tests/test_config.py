"""The configuration at the start: a file, then the environment, then flags (scheduler-reference, Scheduler Config)."""

import errno
import json
import os
from pathlib import Path

import pytest

from taskyard_server.config import ConfigError, by_key, load
from taskyard_server.core.limits import Limits

DOCUMENTED = """
{
  "scheduler": {
    "enabled": true,
    "strategy": "fair-fifo",
    "maxQueueSize": 1000,
    "maxPerAgent": 100,
    "maxInflight": 20,
    "maxPerAgentInflight": 10,
    "resultTTLSec": 300,
    "workerCount": 4
  }
}
"""


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    """No setting comes from the environment of whoever runs the tests."""
    for name in os.environ:
        if name.upper().startswith("TASKYARD_") or name.upper() == "SHUTDOWN_GRACE_PERIOD_SECONDS":
            monkeypatch.delenv(name)


@pytest.fixture
def settings(tmp_path):
    """Loads a file of this content and name beside flags; the settings in force."""

    def load_file(content, name="taskyard.json", **flags):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load(file, flags).settings

    return load_file


# What is valid


def test_the_documented_example_is_valid_as_it_stands(settings):
    scheduler = settings(DOCUMENTED).scheduler
    assert scheduler.enabled
    assert scheduler.strategy == "fair-fifo"
    assert (scheduler.max_queue_size, scheduler.max_per_agent) == (1000, 100)
    assert (scheduler.max_inflight, scheduler.max_per_agent_inflight) == (20, 10)
    assert (scheduler.result_ttl_sec, scheduler.worker_count) == (300, 4)


def test_the_first_documented_example_is_valid_too(settings):
    assert settings('{"scheduler": {"enabled": true}}') == load(None, {}).settings


def test_the_defaults_are_the_documented_ones():
    shown = by_key(load(None, {}).settings)
    documented = {f"scheduler.{key}": value for key, value in json.loads(DOCUMENTED)["scheduler"].items()}
    assert {key: shown[key] for key in documented} == documented
    assert {key: shown[f"scheduler.{key}"] for key in ("defaultDeadlineSec", "maxBatchSize", "watcherIntervalSec")} == {
        "defaultDeadlineSec": 60,
        "maxBatchSize": 50,
        "watcherIntervalSec": 30,
    }
    assert (shown["grpc"], shown["rest"]) == ("127.0.0.1:50051", "127.0.0.1:9867")
    assert shown["metrics"] == "127.0.0.1:9464"
    assert shown["shutdownGracePeriodSeconds"] == 300
    assert {key: value for key, value in shown.items() if key.startswith("daemon.")} == {
        "daemon.maxConcurrent": 5,
        "daemon.maxSchedules": 10_000,
        "daemon.pollIntervalMs": 30_000,
        "daemon.maxJitterMs": 30_000,
        "daemon.jitterThreshold": 3,
        "daemon.heartbeatIntervalMs": 60_000,
        "daemon.orphanCheckIntervalMs": 300_000,
        "daemon.deadHeartbeatThreshold": 2,
    }


def test_the_core_has_the_same_defaults_as_the_configuration():
    assert load(None, {}).settings.limits() == Limits()


def test_toml_says_the_same_as_json(settings):
    toml = """
    grpc = "127.0.0.1:1"
    executor = "http://127.0.0.1:9222"
    [scheduler]
    maxInflight = 7
    resultTTLSec = 1.5
    [tabs]
    mine = "http://127.0.0.1:9333"
    """
    as_json = {
        "grpc": "127.0.0.1:1",
        "executor": "http://127.0.0.1:9222",
        "scheduler": {"maxInflight": 7, "resultTTLSec": 1.5},
        "tabs": {"mine": "http://127.0.0.1:9333"},
    }
    assert settings(toml, "taskyard.toml") == settings(json.dumps(as_json))


def test_the_name_that_the_stats_print_is_taken_for_the_limit_in_flight(settings):
    assert settings('{"scheduler": {"maxPerAgentFlight": 3}}').scheduler.max_per_agent_inflight == 3


def test_the_scheduler_can_be_switched_off(settings):
    assert not settings('{"scheduler": {"enabled": false}}').scheduler.enabled


def test_every_limit_of_the_file_reaches_the_core(settings):
    keys = {
        "maxQueueSize": 11,
        "maxPerAgent": 12,
        "maxInflight": 13,
        "maxPerAgentInflight": 14,
        "resultTTLSec": 15.5,
        "maxRetainedTasks": 16,
        "defaultDeadlineSec": 17.5,
        "leaseSecs": 18.5,
        "maxDeliveries": 19,
        "heartbeatTimeoutSecs": 20.5,
        "reconnectGraceSecs": 21.5,
        "startTimeoutSecs": 22.5,
    }
    daemon = {
        "orphanCheckIntervalMs": 23_500,
        "deadHeartbeatThreshold": 24,
        "maxConcurrent": 25,
        "maxSchedules": 29,
        "pollIntervalMs": 26_500,
        "maxJitterMs": 27_500,
        "jitterThreshold": 28,
    }
    assert settings(json.dumps({"scheduler": keys, "daemon": daemon})).limits() == Limits(
        max_queue_size=11,
        max_per_agent=12,
        max_inflight=13,
        max_per_agent_inflight=14,
        result_ttl_secs=15.5,
        max_retained_tasks=16,
        default_deadline_secs=17.5,
        lease_secs=18.5,
        max_deliveries=19,
        heartbeat_timeout_secs=20.5,
        reconnect_grace_secs=21.5,
        start_timeout_secs=22.5,
        orphan_check_secs=23.5,
        dead_heartbeat_threshold=24,
        max_concurrent=25,
        max_schedules=29,
        poll_secs=26.5,
        max_jitter_secs=27.5,
        jitter_threshold=28,
    )


def test_triggers_may_be_spread_over_no_time_and_from_the_first_on(settings):
    limits = settings('{"daemon": {"maxJitterMs": 0, "jitterThreshold": 0}}').limits()
    assert (limits.max_jitter_secs, limits.jitter_threshold) == (0, 0)


def test_the_log_goes_to_no_file_unless_one_is_named(settings):
    assert settings("{}").log.file is None
    assert settings('{"log": {"file": null}}').log.file is None


def test_a_log_file_may_be_named_from_home(settings, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert settings('{"log": {"file": "~/logs/taskyard.log"}}').log.file == Path("/home/ann/logs/taskyard.log")


# Precedence


def test_flags_come_before_the_environment_and_that_before_the_file(settings, monkeypatch):
    file = '{"grpc": "127.0.0.1:1", "rest": "127.0.0.1:1", "metrics": "127.0.0.1:1"}'
    monkeypatch.setenv("TASKYARD_GRPC", "127.0.0.1:2")
    monkeypatch.setenv("TASKYARD_REST", "127.0.0.1:2")
    loaded = settings(file, grpc="127.0.0.1:3")
    assert (loaded.grpc, loaded.rest, loaded.metrics) == ("127.0.0.1:3", "127.0.0.1:2", "127.0.0.1:1")


def test_within_a_section_each_key_goes_by_itself(settings, monkeypatch):
    file = '{"scheduler": {"maxQueueSize": 1, "maxPerAgent": 1, "maxInflight": 1}}'
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_QUEUE_SIZE", "2")
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_PER_AGENT", "2")
    scheduler = settings(file, scheduler={"maxQueueSize": 3}).scheduler
    assert (scheduler.max_queue_size, scheduler.max_per_agent, scheduler.max_inflight) == (3, 2, 1)
    assert scheduler.worker_count == 4


def test_a_flag_can_set_what_the_default_is(settings):
    assert settings('{"gateway": false}', gateway=True).gateway


def test_sections_of_the_environment_may_be_json(monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER", '{"maxInflight": 7}')
    monkeypatch.setenv("TASKYARD_TABS", '{"mine": "http://127.0.0.1:9333"}')
    loaded = load(None, {}).settings
    assert loaded.scheduler.max_inflight == 7
    assert str(loaded.tabs["mine"].url) == "http://127.0.0.1:9333/"


def test_the_variables_of_the_command_line_are_no_settings(monkeypatch):
    before = load(None, {})
    monkeypatch.setenv("TASKYARD_SERVER", "127.0.0.1:1")
    monkeypatch.setenv("TASKYARD_NAMESPACE", "red")
    assert load(None, {}) == before


# What is refused


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"nonsense": 1}, "nonsense: unknown key"),
        ({"scheduler": {"maxQueuesize": 1}}, "scheduler.maxQueuesize: unknown key"),
        ({"webhooks": {"nonsense": 1}}, "webhooks.nonsense: unknown key"),
        ({"scheduler": []}, "scheduler: input should be a valid dictionary"),
        ({"scheduler": {"maxQueueSize": "many"}}, "scheduler.maxQueueSize: input should be a valid integer"),
        ({"scheduler": {"maxQueueSize": 1.5}}, "scheduler.maxQueueSize: input should be a valid integer"),
        ({"scheduler": {"maxQueueSize": -1}}, "scheduler.maxQueueSize: input should be greater than 0, got -1"),
        ({"scheduler": {"maxQueueSize": 2**32}}, "scheduler.maxQueueSize: input should be less than 4294967296"),
        ({"scheduler": {"resultTTLSec": -300}}, "scheduler.resultTTLSec: input should be greater than 0, got -300"),
        ({"scheduler": {"leaseSecs": 3601}}, "scheduler.leaseSecs: input should be less than or equal to 3600"),
        ({"scheduler": {"workerCount": 0}}, "scheduler.workerCount: input should be greater than 0"),
        ({"scheduler": {"strategy": "lifo"}}, "scheduler.strategy: input should be 'fair-fifo', got 'lifo'"),
        ({"scheduler": {"enabled": "perhaps"}}, "scheduler.enabled: input should be a valid boolean"),
        ({"daemon": {"maxConcurrent": 0}}, "daemon.maxConcurrent: input should be greater than 0, got 0"),
        (
            {"daemon": {"pollIntervalMs": 0}},
            "daemon.pollIntervalMs: input should be greater than or equal to 1000, got 0",
        ),
        ({"daemon": {"maxJitterMs": -1}}, "daemon.maxJitterMs: input should be greater than or equal to 0, got -1"),
        ({"daemon": {"jitterThreshold": -1}}, "daemon.jitterThreshold: input should be greater than or equal to 0"),
        ({"log": {"maxBytes": 65_535}}, "log.maxBytes: input should be greater than or equal to 65536, got 65535"),
        ({"log": {"backups": 0}}, "log.backups: input should be greater than or equal to 1, got 0"),
        ({"log": {"file": "~nobody-of-this-name/x"}}, "log.file: value error, no such home directory"),
        ({"executor": "127.0.0.1:9222"}, "executor: input should be a valid URL"),
        ({"executor": "ftp://127.0.0.1"}, "executor: URL scheme should be 'http' or 'https'"),
        ({"tabs": {"mine": "nonsense"}}, "tabs.mine: input should be a valid URL"),
    ],
)
def test_a_mistake_is_one_line_that_names_its_key(settings, content, message):
    with pytest.raises(ConfigError) as raised:
        settings(json.dumps(content))
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("key", ["grpc", "rest", "metrics"])
@pytest.mark.parametrize(
    "address", ["", "50051", ":50051", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "a b:1", "http://a:1", "a:123456"]
)
def test_an_address_is_host_and_port(settings, key, address):
    with pytest.raises(ConfigError, match=f"^{key}: string should match pattern"):
        settings(json.dumps({key: address}))


@pytest.mark.parametrize("key", ["grpc", "rest", "metrics"])
@pytest.mark.parametrize("port", [0, 65_536])
def test_an_address_has_a_port_that_others_can_know(settings, key, port):
    with pytest.raises(ConfigError, match=f"^{key}: value error, the port must be from 1 to 65535"):
        settings(json.dumps({key: f"127.0.0.1:{port}"}))


def test_all_mistakes_are_told_at_once_a_line_each(settings):
    wrong = {"nonsense": 1, "scheduler": {"maxQueueSize": -1, "maxInflight": "x"}, "grpc": "x"}
    with pytest.raises(ConfigError) as raised:
        settings(json.dumps(wrong))
    keys = {line.partition(":")[0] for line in str(raised.value).splitlines()}
    assert keys == {"nonsense", "scheduler.maxQueueSize", "scheduler.maxInflight", "grpc"}


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('{"scheduler": {', "cut.json"),
        ("", "empty.json"),
        ("[]", "list.json"),
        ("{'a': 1}", "quotes.json"),
        (b"\xff\xfe{}", "bytes.json"),
        ("[scheduler", "cut.toml"),
        ("a = 1\na = 2", "twice.toml"),
        ("scheduler: {}", "taskyard.yaml"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(settings, tmp_path, content, name):
    with pytest.raises(ConfigError) as raised:
        settings(content, name)
    assert str(raised.value).startswith(f"{tmp_path / name}: ")
    assert "\n" not in str(raised.value)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "missing.json", {})
    assert str(raised.value) == f"{tmp_path / 'missing.json'}: no such file or directory"


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        load(tmp_path, {})


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
    """The refusal is made up, since root may read every file."""

    def refuse(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "secret.json", {})
    assert str(raised.value) == f"{tmp_path / 'secret.json'}: permission denied"


def test_a_mistake_in_the_environment_names_its_key(monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_QUEUE_SIZE", "many")
    with pytest.raises(ConfigError, match=r"^scheduler\.max"):
        load(None, {})


def test_a_mistake_in_a_flag_names_its_key():
    with pytest.raises(ConfigError, match=r"^executor: input should be a valid URL"):
        load(None, {"executor": "nonsense"})
