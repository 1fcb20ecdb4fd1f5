"""Valid configuration files, and the message for each mistake (docs/operate/settings.md)."""

import errno
import json
import os
from pathlib import Path

import pytest

from taskyard_server.core.limits import Limits
from taskyard_server.settings.config import ConfigError, DaemonSettings, LogSettings, SchedulerSettings, by_key
from taskyard_server.settings.config_sources import load
from tests.cases import every_case

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


# Valid files


def test_the_documented_example_is_valid(settings):
    scheduler = settings(DOCUMENTED).scheduler
    assert scheduler.enabled
    assert scheduler.strategy == "fair-fifo"
    assert (scheduler.max_queue_size, scheduler.max_per_agent) == (1000, 100)
    assert (scheduler.max_inflight, scheduler.max_per_agent_inflight) == (20, 10)
    assert (scheduler.result_ttl_sec, scheduler.worker_count) == (300, 4)


def test_the_shortest_documented_example_is_valid(settings):
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
        "daemon.maxQueuedTriggers": 5,
        "daemon.maxSchedules": 10_000,
        "daemon.pollIntervalMs": 30_000,
        "daemon.maxJitterMs": 30_000,
        "daemon.jitterThreshold": 3,
        "daemon.heartbeatIntervalMs": 60_000,
        "daemon.orphanCheckIntervalMs": 300_000,
        "daemon.deadHeartbeatThreshold": 2,
    }


def test_toml_and_json_give_the_same_settings(settings):
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


def test_the_name_in_the_stats_sets_the_limit_in_flight(settings):
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
        "forgetHostsSecs": 30.5,
        "maxAgentFigures": 31,
        "idempotencySecs": 33.5,
        "maxBlockedTargets": 34,
    }
    daemon = {
        "orphanCheckIntervalMs": 23_500,
        "deadHeartbeatThreshold": 24,
        "maxConcurrent": 25,
        "maxSchedules": 29,
        "pollIntervalMs": 26_500,
        "maxJitterMs": 27_500,
        "jitterThreshold": 28,
        "maxQueuedTriggers": 32,
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
        forget_hosts_secs=30.5,
        max_agent_figures=31,
        idempotency_secs=33.5,
        max_queued_triggers=32,
        max_blocked_targets=34,
    )


def test_the_jitter_and_its_threshold_may_be_zero(settings):
    limits = settings('{"daemon": {"maxJitterMs": 0, "jitterThreshold": 0}}').limits()
    assert (limits.max_jitter_secs, limits.jitter_threshold) == (0, 0)


def test_no_log_file_is_the_default(settings):
    assert settings("{}").log.file is None
    assert settings('{"log": {"file": null}}').log.file is None


def test_the_path_of_the_log_file_may_begin_with_the_home_directory(settings, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert settings('{"log": {"file": "~/logs/taskyard.log"}}').log.file == Path("/home/ann/logs/taskyard.log")


# Mistakes


@every_case(
    ("content", "message"),
    [
        ({"nonsense": 1}, "nonsense: unknown key"),
        ({"processes": 2}, "processes: one process serves; several are replicas, as `make up-replicas` starts"),
        ({"scheduler": {"maxQueuesize": 1}}, "scheduler.maxQueuesize: unknown key"),
        ({"webhooks": {"nonsense": 1}}, "webhooks.nonsense: unknown key"),
        ({"scheduler": []}, "scheduler: input should be a valid dictionary"),
        ({"scheduler": {"maxQueueSize": "many"}}, "scheduler.maxQueueSize: input should be a valid integer"),
        ({"scheduler": {"maxQueueSize": 1.5}}, "scheduler.maxQueueSize: input should be a valid integer"),
        ({"scheduler": {"maxQueueSize": -1}}, "scheduler.maxQueueSize: input should be greater than 0, got -1"),
        ({"scheduler": {"maxQueueSize": 2**32}}, "scheduler.maxQueueSize: input should be less than 4294967296"),
        ({"scheduler": {"resultTTLSec": -300}}, "scheduler.resultTTLSec: input should be greater than 0, got -300"),
        ({"scheduler": {"leaseSecs": 3601}}, "scheduler.leaseSecs: input should be less than or equal to 3600"),
        ({"scheduler": {"workerCount": -1}}, "scheduler.workerCount: input should be greater than 0"),
        ({"scheduler": {"strategy": "lifo"}}, "scheduler.strategy: input should be 'fair-fifo', got 'lifo'"),
        ({"scheduler": {"enabled": "perhaps"}}, "scheduler.enabled: input should be a valid boolean"),
        ({"daemon": {"maxConcurrent": -1}}, "daemon.maxConcurrent: input should be greater than 0, got -1"),
        (
            {"daemon": {"pollIntervalMs": 1}},
            "daemon.pollIntervalMs: input should be greater than or equal to 1000, got 1",
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


def numbers():
    """The dotted key of each setting that is a number, in an object of the file."""
    for section, model in (("scheduler", SchedulerSettings), ("daemon", DaemonSettings), ("log", LogSettings)):
        for key, value in model().model_dump(by_alias=True).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield f"{section}.{key}", {section: {key: True}}
    yield "webhooks.workers", {"webhooks": {"workers": True}}
    yield "webhooks.maxPending", {"webhooks": {"maxPending": True}}
    yield "webhooks.timeoutSecs", {"webhooks": {"timeoutSecs": True}}
    yield "shutdownGracePeriodSeconds", {"shutdownGracePeriodSeconds": True}
    for key in ("maxAttempts", "firstDelayMs", "multiplier", "maxDelayMs"):
        yield f"scheduler.retryPolicies.click.{key}", {"scheduler": {"retryPolicies": {"click": {key: True}}}}
    for key in ("maxInflight", "perSecond", "burst"):
        yield f"scheduler.limits.site.{key}", {"scheduler": {"limits": {"site": {key: True}}}}
    yield "scheduler.agents.ann.weight", {"scheduler": {"agents": {"ann": {"weight": True}}}}


@every_case(("key", "content"), list(numbers()))
def test_a_boolean_is_not_a_number(settings, key, content):
    with pytest.raises(ConfigError, match=f"^{key}: must be a number, not a boolean"):
        settings(json.dumps(content))


@every_case(
    ("spellings", "key"),
    [
        (("maxPerAgentInflight", "maxPerAgentFlight"), "maxPerAgentInflight"),
        (("maxPerAgentInflight", "max_per_agent_inflight"), "maxPerAgentInflight"),
        (("resultTTLSec", "result_ttl_sec"), "resultTTLSec"),
        (("maxQueueSize", "max_queue_size"), "maxQueueSize"),
    ],
)
def test_two_spellings_of_one_key_are_refused(settings, spellings, key):
    with pytest.raises(ConfigError) as raised:
        settings(json.dumps({"scheduler": dict.fromkeys(spellings, 3)}))
    assert str(raised.value) == f"scheduler.{spellings[1]}: another name of {key}, which is set too"


@pytest.mark.parametrize(
    "text",
    [
        '{"auth": {"required": true}, "auth": {"required": false}}',
        '{"daemon": {}, "claimRules": [{"auth": 1, "auth": 2}]}',
    ],
)
def test_a_key_that_stands_twice_is_refused(settings, text):
    with pytest.raises(ConfigError, match=r'taskyard\.json: "auth" stands twice in one object$'):
        settings(text)


@every_case(
    ("content", "message"),
    [
        ({"sheduler": {}}, "sheduler: unknown key, did you mean scheduler?"),
        ({"scheduler": {"maxQueuSize": 1}}, "scheduler.maxQueuSize: unknown key, did you mean maxQueueSize?"),
        (
            {"scheduler": {"retryPolicies": {"click": {"attempts": 1}}}},
            "scheduler.retryPolicies.click.attempts: unknown key, did you mean maxAttempts?",
        ),
        (
            {"scheduler": {"retryPolicies": {"multiplier": {"attempts": 1}}}},
            "scheduler.retryPolicies.multiplier.attempts: unknown key, did you mean maxAttempts?",
        ),
        ({"webhooks": {"secrets": 1}}, "webhooks.secrets: unknown key, did you mean secret?"),
        ({"nonsense": 1}, "nonsense: unknown key"),
        (
            {"processes": 2},
            "processes: one process serves; several are replicas, as `make up-replicas` starts "
            "(docs/operate/scaling.md)",
        ),
    ],
)
def test_an_unknown_key_is_answered_with_the_closest_one(settings, content, message):
    with pytest.raises(ConfigError) as raised:
        settings(json.dumps(content))
    assert str(raised.value) == message


@every_case("key", ["grpc", "rest", "metrics"])
@every_case(
    "address", ["", "50051", ":50051", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "a b:1", "http://a:1", "a:123456"]
)
def test_an_address_is_host_and_port(settings, key, address):
    with pytest.raises(ConfigError, match=f"^{key}: string should match pattern"):
        settings(json.dumps({key: address}))


@every_case("key", ["grpc", "rest", "metrics"])
@every_case("port", [0, 65_536])
def test_an_address_has_a_port_that_clients_can_know(settings, key, port):
    with pytest.raises(ConfigError, match=f"^{key}: value error, the port must be from 1 to 65535"):
        settings(json.dumps({key: f"127.0.0.1:{port}"}))


def test_all_mistakes_are_reported_at_once_one_per_line(settings):
    wrong = {"nonsense": 1, "scheduler": {"maxQueueSize": -1, "maxInflight": "x"}, "grpc": "x"}
    with pytest.raises(ConfigError) as raised:
        settings(json.dumps(wrong))
    keys = {line.partition(":")[0] for line in str(raised.value).splitlines()}
    assert keys == {"nonsense", "scheduler.maxQueueSize", "scheduler.maxInflight", "grpc"}


@every_case(
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
def test_an_unreadable_file_is_named(settings, tmp_path, content, name):
    with pytest.raises(ConfigError) as raised:
        settings(content, name)
    assert str(raised.value).startswith(f"{tmp_path / name}: ")
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "missing.json", {})
    assert str(raised.value) == f"{tmp_path / 'missing.json'}: no such file or directory"


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(ConfigError, match="is a directory"):
        load(tmp_path, {})


def test_a_file_without_permission_is_named(tmp_path, monkeypatch):
    """The refusal is simulated, because root may read every file."""

    def refuse(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigError) as raised:
        load(tmp_path / "secret.json", {})
    assert str(raised.value) == f"{tmp_path / 'secret.json'}: permission denied"


def test_a_mistake_in_a_flag_names_its_key():
    with pytest.raises(ConfigError, match=r"^executor: input should be a valid URL"):
        load(None, {"executor": "nonsense"})


def test_a_mistake_in_an_address_repeats_no_password_of_it():
    with pytest.raises(ConfigError, match=r"^telemetry\.endpoint: must be") as raised:
        load(None, {"telemetry": {"endpoint": "http://me:hunter2@127.0.0.1:4317"}})
    assert "hunter2" not in str(raised.value)
