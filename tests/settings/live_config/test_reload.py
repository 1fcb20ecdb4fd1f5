"""What a reload changes, keeps and reports (docs/rules.md, Reload)."""

import pytest

from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.limits import DEFAULTS
from taskyard_server.settings.config import ConfigError, by_key
from taskyard_server.settings.live_config import AUTH, RELOADABLE, SECRETS, LiveConfig
from tests.cases import every_case

RETRY = {
    "maxAttempts": 3,
    "firstDelayMs": 100,
    "multiplier": 1.5,
    "maxDelayMs": 5_000,
    "nonRetryableCodes": ["auth"],
}

# Every key that can change while the server runs, with its default and another value.
KEYS = {
    "scheduler.maxQueueSize": (1000, 5),
    "scheduler.maxPerAgent": (100, 6),
    "scheduler.maxInflight": (20, 7),
    "scheduler.maxPerAgentInflight": (10, 8),
    "scheduler.resultTTLSec": (300, 9.5),
    "scheduler.maxRetainedTasks": (200_000, 11),
    "scheduler.maxOutputBytes": (8_388_608, 1_000_000),
    "scheduler.maxNamespaceOutputBytes": (10_737_418_240, 1_000_000),
    "scheduler.maxArtifactBytes": (1_073_741_824, 1_000_000),
    "scheduler.maxNamespaceArtifactBytes": (107_374_182_400, 1_000_000),
    "scheduler.defaultDeadlineSec": (60, 12.5),
    "scheduler.leaseSecs": (60, 13.5),
    "scheduler.maxDeliveries": (5, 14),
    "scheduler.heartbeatTimeoutSecs": (60, 15.5),
    "scheduler.watcherIntervalSec": (30, 16.5),
    "scheduler.reconnectGraceSecs": (5, 17.5),
    "scheduler.startTimeoutSecs": (10, 18.5),
    "scheduler.forgetHostsSecs": (86_400, 27.5),
    "scheduler.maxAgentFigures": (10_000, 28),
    "scheduler.idempotencySecs": (0, 8.5),
    "scheduler.retryPolicies": ({}, {"click": RETRY}),
    "scheduler.limits": ({}, {"site:*": {"maxInflight": 3, "perSecond": 5.5, "burst": 10}}),
    "scheduler.agents": ({}, {"team-a/*": {"weight": 3}}),
    "scheduler.targets": ({}, {"shop-*": {"onFailure": "continue"}}),
    "scheduler.maxBlockedTargets": (10_000, 30),
    "scheduler.pools": (
        {},
        {"gpu": {"labels": {"zone": "a"}, "capabilities": ["gpu"], "project": "shop", "actions": ["crawl"]}},
    ),
    "scheduler.noHostNoticeSecs": (5, 31.5),
    "daemon.heartbeatIntervalMs": (60_000, 19_000),
    "daemon.orphanCheckIntervalMs": (300_000, 20_000),
    "daemon.deadHeartbeatThreshold": (2, 21),
    "daemon.maxConcurrent": (5, 22),
    "daemon.maxSchedules": (10_000, 26),
    "daemon.maxQueuedTriggers": (5, 29),
    "daemon.pollIntervalMs": (30_000, 23_000),
    "daemon.maxJitterMs": (30_000, 0),
    "daemon.jitterThreshold": (3, 0),
}
# The limit of the core that each key sets.
LIMITS = {
    "scheduler.maxQueueSize": "max_queue_size",
    "scheduler.maxPerAgent": "max_per_agent",
    "scheduler.maxInflight": "max_inflight",
    "scheduler.maxPerAgentInflight": "max_per_agent_inflight",
    "scheduler.resultTTLSec": "result_ttl_secs",
    "scheduler.maxRetainedTasks": "max_retained_tasks",
    "scheduler.defaultDeadlineSec": "default_deadline_secs",
    "scheduler.leaseSecs": "lease_secs",
    "scheduler.maxDeliveries": "max_deliveries",
    "scheduler.heartbeatTimeoutSecs": "heartbeat_timeout_secs",
    "scheduler.reconnectGraceSecs": "reconnect_grace_secs",
    "scheduler.startTimeoutSecs": "start_timeout_secs",
    "scheduler.forgetHostsSecs": "forget_hosts_secs",
    "scheduler.maxAgentFigures": "max_agent_figures",
    "scheduler.maxBlockedTargets": "max_blocked_targets",
    "scheduler.noHostNoticeSecs": "no_host_notice_secs",
    "scheduler.idempotencySecs": "idempotency_secs",
    "daemon.deadHeartbeatThreshold": "dead_heartbeat_threshold",
    "daemon.maxConcurrent": "max_concurrent",
    "daemon.maxQueuedTriggers": "max_queued_triggers",
    "daemon.maxSchedules": "max_schedules",
    "daemon.jitterThreshold": "jitter_threshold",
}
# Keys that need a restart, with a value that is not their default.
AFTER_RESTART = {
    "refuseUnknownFields": True,
    "executorTabActions": ["click"],
    "executorHandoffRetrySecs": 0.5,
    "executorHandoffMaxRetrySecs": 0.5,
    "metricsMaxNames": 20,
    "telemetry.endpoint": "http://127.0.0.1:4317/",
    "telemetry.sampleRatio": 0.5,
    "scheduler.enabled": False,
    "scheduler.workerCount": 9,
    "scheduler.maxBatchSize": 7,
    "scheduler.maxPayloadBytes": 1024,
    "store.url": "sqlite:////elsewhere/yard.db",
    "store.artifacts": "s3://elsewhere/yard",
    "store.synchronous": "normal",
    "store.patienceSecs": 2.5,
    "store.failoverSecs": 20.5,
    "store.minFreeBytes": 1_000_000,
    "store.historyDays": 1.5,
    "webhooks.allowPrivate": True,
    "webhooks.workers": 3,
    "webhooks.maxPending": 4,
    "webhooks.timeoutSecs": 1.5,
    "log.file": "/elsewhere/taskyard.log",
    "log.maxBytes": 100_000,
    "log.backups": 2,
    "console.enabled": False,
    "console.url": "https://yard.example/ui/",
    "cors.origins": ["https://app.example"],
    "cors.hosts": ["yard.example"],
    "auth.required": True,
    "tls.cert": "/elsewhere/cert.pem",
    "tls.key": "/elsewhere/key.pem",
    "tls.clientCa": "/elsewhere/ca.pem",
    "gatewayTls.cert": "/elsewhere/cert.pem",
    "gatewayTls.key": "/elsewhere/key.pem",
    "gatewayTls.clientCa": "/elsewhere/ca.pem",
    "replicas.name": "east",
    "replicas.advertise": "127.0.0.1:6",
    "replicas.listen": "127.0.0.1:7",
    "replicas.cert": "/elsewhere/east.pem",
    "replicas.key": "/elsewhere/east.key",
    "replicas.ca": "/elsewhere/ca.pem",
    "audit.file": "/elsewhere/audit.log",
    "audit.maxBytes": 100_000,
    "audit.backups": 3,
    "grpc": "127.0.0.1:1",
    "rest": "127.0.0.1:2",
    "metrics": "127.0.0.1:3",
    "gateway": False,
    "executor": "http://127.0.0.1:4/",
    "executorToken": "t0ken",
    "executorCa": "/elsewhere/ca.pem",
    "executorCert": "/elsewhere/cert.pem",
    "executorKey": "/elsewhere/key.pem",
    "metricsToken": "0123456789abcdefghijk",
    "webhooks.secret": "whsec_AAAA",
    "tabs": {"t1": "http://127.0.0.1:5/"},
    "shutdownGracePeriodSeconds": 6.5,
}


def in_file(key, value):
    """The content of a file that sets this dotted key only."""
    section, _, name = key.rpartition(".")
    return {section: {name: value}} if section else {name: value}


def test_the_reloadable_keys_are_the_documented_ones():
    # Those of `AUTH` are in test_reload_auth.py: they reload where authentication is on.
    assert set(KEYS) == RELOADABLE - AUTH - SECRETS


@every_case("key", KEYS)
def test_a_changed_key_is_applied(config_file, key):
    live = config_file.start()
    before, after = KEYS[key]
    config_file.write(in_file(key, after))
    reload = live.reload()
    assert reload.changed == [key]
    assert reload.needs_restart == []
    (applied,) = config_file.applied
    assert applied is live.settings
    assert by_key(applied)[key] == after
    if key in LIMITS:
        assert getattr(applied.limits(), LIMITS[key]) == after != before


@every_case("key", KEYS)
def test_a_changed_key_changes_no_other(config_file, key):
    live = config_file.start()
    before = by_key(live.settings)
    config_file.write(in_file(key, KEYS[key][1]))
    live.reload()
    assert {name for name, value in by_key(live.settings).items() if value != before[name]} == {key}


@every_case("key", KEYS)
def test_a_change_is_logged_with_its_old_and_new_value(config_file, logged, key):
    logged.clear()
    before, after = KEYS[key]
    live = config_file.start()
    config_file.write(in_file(key, after))
    live.reload()
    (line,) = logged
    assert (line["event"], line["log_level"]) == ("config_reloaded", "info")
    assert line["changed"] == {key: {"old": before, "new": after}}
    assert line["needs_restart"] == []


def test_the_next_reload_is_logged_against_the_one_before(config_file, logged):
    live = config_file.start({"scheduler": {"maxInflight": 1}})
    for size in (2, 3):
        config_file.write_scheduler(maxInflight=size)
        live.reload()
    assert [line["changed"]["scheduler.maxInflight"] for line in logged] == [{"old": 1, "new": 2}, {"old": 2, "new": 3}]


def test_several_changes_are_sorted_by_key(config_file):
    live = config_file.start()
    config_file.write_scheduler(maxQueueSize=5, leaseSecs=6, maxInflight=7)
    assert live.reload().changed == ["scheduler.leaseSecs", "scheduler.maxInflight", "scheduler.maxQueueSize"]


def test_the_name_in_the_stats_sets_the_limit_per_agent(config_file):
    live = config_file.start()
    config_file.write_scheduler(maxPerAgentFlight=3)
    assert live.reload().changed == ["scheduler.maxPerAgentInflight"]
    assert config_file.applied[0].limits().max_per_agent_inflight == 3


def test_a_reload_without_a_change_changes_and_logs_nothing(config_file, events):
    live = config_file.start({"scheduler": {"maxQueueSize": 5}})
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [])
    assert events() == []


def test_a_reload_records_when_the_file_was_read(config_file, monkeypatch):
    monkeypatch.setattr("taskyard_server.settings.live_config.time.time", lambda: 1000.0)
    live = config_file.start()
    assert live.loaded_at == 1000.0
    monkeypatch.setattr("taskyard_server.settings.live_config.time.time", lambda: 2000.0)
    live.reload()
    assert live.loaded_at == 2000.0


# Kept values


# Keys for which zero is a value.
ZERO_COUNTS = {
    "scheduler.reconnectGraceSecs",
    "scheduler.idempotencySecs",
    "daemon.maxJitterMs",
    "daemon.jitterThreshold",
}
ZERO_KEEPS = {
    key: value for key, (_, value) in KEYS.items() if isinstance(value, int | float) and key not in ZERO_COUNTS
} | {"scheduler.maxPerAgentFlight": 42, "scheduler.workerCount": 43, "scheduler.maxBatchSize": 44}


@every_case("key", ZERO_KEEPS)
@every_case("zero", [0, 0.0])
def test_a_zero_keeps_the_value(config_file, key, zero):
    live = config_file.start(in_file(key, ZERO_KEEPS[key]))
    before = live.settings
    config_file.write(in_file(key, zero))
    reload = live.reload()
    assert reload.changed == []
    assert live.settings == before
    assert ZERO_KEEPS[key] in by_key(live.settings).values()


@every_case("key", sorted(ZERO_COUNTS))
def test_a_zero_is_taken_where_it_is_a_value(config_file, key):
    live = config_file.start(in_file(key, 1))
    config_file.write(in_file(key, 0))
    assert live.reload().changed == [key]
    assert by_key(live.settings)[key] == 0


def test_a_zero_keeps_the_value_while_another_key_changes(config_file):
    live = config_file.start({"scheduler": {"maxQueueSize": 42, "maxPerAgent": 43}})
    config_file.write_scheduler(maxQueueSize=0, maxPerAgent=1)
    assert live.reload().changed == ["scheduler.maxPerAgent"]
    assert (live.settings.scheduler.max_queue_size, live.settings.scheduler.max_per_agent) == (42, 1)


def test_a_zero_keeps_the_default_at_the_start(config_file):
    live = config_file.start({"scheduler": {"maxQueueSize": 0, "resultTTLSec": 0}, "daemon": {"maxConcurrent": 0}})
    assert live.settings.limits() == DEFAULTS
    assert live.sources == {}


@every_case("key", KEYS)
def test_a_key_that_is_removed_from_the_file_keeps_its_value(config_file, key):
    after = KEYS[key][1]
    live = config_file.start(in_file(key, after))
    config_file.write({})
    assert live.reload().changed == []
    assert by_key(live.settings)[key] == after


def test_later_reloads_keep_what_an_earlier_one_set(config_file):
    live = config_file.start()
    config_file.write_scheduler(maxInflight=3)
    live.reload()
    config_file.write_scheduler(maxQueueSize=4)
    live.reload()
    assert (live.settings.scheduler.max_inflight, live.settings.scheduler.max_queue_size) == (3, 4)


# Keys that need a restart


@every_case("key", AFTER_RESTART)
def test_a_key_that_needs_a_restart_is_named(config_file, logged, key):
    logged.clear()
    live = config_file.start()
    config_file.write(in_file(key, AFTER_RESTART[key]))
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [key])
    assert [(line["event"], line["needs_restart"]) for line in logged] == [("config_reloaded", [key])]


def test_every_key_either_reloads_or_needs_a_restart(config_file):
    known = set(by_key(config_file.start().settings))
    # It has one value only.
    assert known - RELOADABLE - set(AFTER_RESTART) <= {"scheduler.strategy"}


def test_a_key_that_needs_a_restart_is_named_until_it_has_its_old_value(config_file):
    live = config_file.start({"scheduler": {"workerCount": 4}})
    config_file.write_scheduler(workerCount=9)
    assert live.reload().needs_restart == ["scheduler.workerCount"]
    assert live.reload().needs_restart == ["scheduler.workerCount"]
    config_file.write_scheduler(workerCount=4)
    assert live.reload().needs_restart == []


def test_a_key_that_needs_a_restart_does_not_stop_the_others(config_file):
    live = config_file.start()
    config_file.write({"grpc": "127.0.0.1:1", "scheduler": {"maxInflight": 3}})
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == (["scheduler.maxInflight"], ["grpc"])
    assert config_file.applied[0].scheduler.max_inflight == 3


def test_without_a_file_a_reload_changes_nothing():
    live = LiveConfig(None, {"grpc": "127.0.0.1:1"})
    before = live.settings
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == ([], [])
    assert live.settings == before


def test_a_toml_file_is_reloaded_too(tmp_path):
    file = tmp_path / "taskyard.toml"
    file.write_text("[scheduler]\nmaxInflight = 3\n")
    live = LiveConfig(file, {})
    file.write_text('grpc = "127.0.0.1:1"\n[scheduler]\nmaxInflight = 4\nmaxQueueSize = 0\n')
    reload = live.reload()
    assert (reload.changed, reload.needs_restart) == (["scheduler.maxInflight"], ["grpc"])
    assert live.settings.scheduler.max_queue_size == 1000


# Retry policies by action


def test_a_retry_policy_has_defaults_for_missing_keys(config_file):
    live = config_file.start({"scheduler": {"retryPolicies": {"click": {"maxAttempts": 3}, "type": RETRY}}})
    assert live.settings.retry_policies() == {
        "click": RetryPolicy(max_attempts=3),
        "type": RetryPolicy(3, 0.1, 1.5, 5.0, frozenset({"auth"})),
    }


def test_a_reload_replaces_all_retry_policies(config_file):
    live = config_file.start({"scheduler": {"retryPolicies": {"click": RETRY}}})
    config_file.write({"scheduler": {"retryPolicies": {"type": {}}}})
    live.reload()
    assert live.settings.retry_policies() == {"type": RetryPolicy()}


@every_case(
    ("policy", "problem"),
    [
        ({"attempts": 3}, "scheduler.retryPolicies.click.attempts: unknown key"),
        ({"maxAttempts": 0}, "scheduler.retryPolicies.click.maxAttempts: "),
        ({"multiplier": 0.5}, "scheduler.retryPolicies.click.multiplier: "),
        ({"firstDelayMs": -1}, "scheduler.retryPolicies.click.firstDelayMs: "),
        ({"maxDelayMs": 2**32}, "scheduler.retryPolicies.click.maxDelayMs: "),
        ({"nonRetryableCodes": [""]}, "scheduler.retryPolicies.click.nonRetryableCodes.0: "),
    ],
)
def test_a_wrong_retry_policy_is_refused_by_its_key(config_file, policy, problem):
    live = config_file.start()
    config_file.write({"scheduler": {"retryPolicies": {"click": policy}}})
    with pytest.raises(ConfigError) as refused:
        live.reload()
    assert str(refused.value).startswith(problem)
    assert live.settings.retry_policies() == {}
