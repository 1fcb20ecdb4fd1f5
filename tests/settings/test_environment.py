"""Settings in environment variables, and the order of file, environment and flags (docs/operate/settings.md)."""

import re
from pathlib import Path

import pytest

from taskyard_server.settings.config import ConfigError
from taskyard_server.settings.config_sources import OTHERS_VARIABLES, load

ROOT = Path(__file__).parents[2]

# Precedence


def test_flags_come_before_the_environment_and_that_before_the_file(settings, monkeypatch):
    file = '{"grpc": "127.0.0.1:1", "rest": "127.0.0.1:1", "metrics": "127.0.0.1:1"}'
    monkeypatch.setenv("TASKYARD_GRPC", "127.0.0.1:2")
    monkeypatch.setenv("TASKYARD_REST", "127.0.0.1:2")
    loaded = settings(file, grpc="127.0.0.1:3")
    assert (loaded.grpc, loaded.rest, loaded.metrics) == ("127.0.0.1:3", "127.0.0.1:2", "127.0.0.1:1")


def test_precedence_holds_for_each_key_of_a_section(settings, monkeypatch):
    file = '{"scheduler": {"maxQueueSize": 1, "maxPerAgent": 1, "maxInflight": 1}}'
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_QUEUE_SIZE", "2")
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_PER_AGENT", "2")
    scheduler = settings(file, scheduler={"maxQueueSize": 3}).scheduler
    assert (scheduler.max_queue_size, scheduler.max_per_agent, scheduler.max_inflight) == (3, 2, 1)
    assert scheduler.worker_count == 4


def test_a_flag_can_set_the_default_value(settings):
    assert settings('{"gateway": false}', gateway=True).gateway


def test_sections_of_the_environment_may_be_json(monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER", '{"maxInflight": 7}')
    monkeypatch.setenv("TASKYARD_TABS", '{"mine": "http://127.0.0.1:9333"}')
    loaded = load(None, {}).settings
    assert loaded.scheduler.max_inflight == 7
    assert str(loaded.tabs["mine"].url) == "http://127.0.0.1:9333/"


def test_the_variables_of_the_command_line_are_not_settings(monkeypatch):
    before = load(None, {})
    monkeypatch.setenv("TASKYARD_SERVER", "127.0.0.1:1")
    monkeypatch.setenv("TASKYARD_NAMESPACE", "red")
    assert load(None, {}) == before


def test_a_mistake_in_the_environment_names_its_key(monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_QUEUE_SIZE", "many")
    with pytest.raises(ConfigError, match=r"^scheduler\.max"):
        load(None, {})


@pytest.mark.parametrize("name", ["TASKYARD_SCHEDULER", "TASKYARD_CORS__ORIGINS", "TASKYARD_TABS"])
@pytest.mark.parametrize("value", ["https://app.example", "{", ""])
def test_a_variable_for_a_list_or_an_object_must_be_json(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as raised:
        load(None, {})
    assert str(raised.value) == f"{name}: must be JSON"


def test_a_name_of_a_variable_of_json_stands_once(monkeypatch):
    monkeypatch.setenv("TASKYARD_AUTH", '{"required": true, "required": false}')
    with pytest.raises(ConfigError) as raised:
        load(None, {})
    assert str(raised.value) == 'TASKYARD_AUTH: "required" stands twice in one object'


# Short names


@pytest.mark.parametrize("name", ["TASKYARD_MAX_CONCURRENT", "GENIE_MAX_CONCURRENT", "genie_max_concurrent"])
def test_the_cap_on_triggers_has_short_variables(monkeypatch, name):
    monkeypatch.setenv(name, "7")
    loaded = load(None, {})
    assert loaded.settings.limits().max_concurrent == 7
    assert loaded.sources == {"daemon.maxConcurrent": "environment"}


def test_the_variable_that_names_the_section_overrides_both_short_ones(monkeypatch):
    monkeypatch.setenv("GENIE_MAX_CONCURRENT", "1")
    monkeypatch.setenv("TASKYARD_MAX_CONCURRENT", "2")
    assert load(None, {}).settings.daemon.max_concurrent == 2
    monkeypatch.setenv("TASKYARD_DAEMON__MAX_CONCURRENT", "3")
    assert load(None, {}).settings.daemon.max_concurrent == 3


@pytest.mark.parametrize("value", ["many", "0", "-1", "1.5", "", "4294967296"])
def test_a_wrong_value_of_the_documented_variable_names_it(monkeypatch, value):
    monkeypatch.setenv("GENIE_MAX_CONCURRENT", value)
    with pytest.raises(ConfigError, match=r"^GENIE_MAX_CONCURRENT: [^\n]*$"):
        load(None, {})


@pytest.mark.parametrize("name", ["SHUTDOWN_GRACE_PERIOD_SECONDS", "TASKYARD_SHUTDOWN_GRACE_PERIOD_SECONDS"])
def test_the_grace_period_may_be_given_with_and_without_our_prefix(monkeypatch, name):
    monkeypatch.setenv(name, "7.5")
    assert load(None, {}).settings.shutdown_grace_period_seconds == 7.5


# Unknown variables


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("TASKYARD_GRCP", "TASKYARD_GRPC"),
        ("TASKYARD_MAX_QUEUE_SIZE", "TASKYARD_SCHEDULER__MAX_QUEUE_SIZE"),
        ("TASKYARD_SCHEDULER_MAX_QUEUE_SIZE", "TASKYARD_SCHEDULER__MAX_QUEUE_SIZE"),
        ("TASKYARD_SCHEDULER__MAX_QUEU_SIZE", "TASKYARD_SCHEDULER__MAX_QUEUE_SIZE"),
        ("TASKYARD_SCHEDULER__MAXQUEUESIZE", "TASKYARD_SCHEDULER__MAX_QUEUE_SIZE"),
        ("TASKYARD_SCHEDULER__MAX_PER_AGENT_FLIGHT", "TASKYARD_SCHEDULER__MAX_PER_AGENT_INFLIGHT"),
        ("TASKYARD_GENIE_MAX_CONCURRENT", "GENIE_MAX_CONCURRENT"),
        ("TASKYARD_SHUTDOWN_GRACE_PERIOD", "SHUTDOWN_GRACE_PERIOD_SECONDS"),
        ("TASKYARD_SCHEDULER__MAX_INFLIGHT__X", "TASKYARD_SCHEDULER__MAX_INFLIGHT"),
        ("TASKYARD_METRICS_PORT", "TASKYARD_METRICS"),
        ("taskyard_grcp", "TASKYARD_GRPC"),
    ],
)
def test_an_unknown_variable_is_refused_with_the_closest_one(monkeypatch, name, closest):
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError) as raised:
        load(None, {})
    assert str(raised.value) == f"{name}: unknown variable, did you mean {closest}?"


@pytest.mark.parametrize("name", ["TASKYARD_", "TASKYARD_QQ"])
def test_an_unknown_variable_without_a_close_name_is_refused(monkeypatch, name):
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match=f"^{name}: unknown variable$"):
        load(None, {})


def test_every_unknown_variable_has_a_line(monkeypatch):
    for name in ("TASKYARD_A", "TASKYARD_B"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError) as raised:
        load(None, {})
    assert [line.partition(":")[0] for line in str(raised.value).splitlines()] == ["TASKYARD_A", "TASKYARD_B"]


def test_variables_without_our_prefix_are_ignored(monkeypatch):
    before = load(None, {})
    monkeypatch.setenv("TASKYARDS", "1")
    monkeypatch.setenv("GENIE_HOME", "1")
    assert load(None, {}) == before


def test_variables_of_kubernetes_service_links_are_ignored(monkeypatch):
    before = load(None, {})
    for service in ("TASKYARD", "TASKYARD_GRPC"):
        monkeypatch.setenv(f"{service}_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv(f"{service}_SERVICE_PORT", "50051")
        monkeypatch.setenv(f"{service}_SERVICE_PORT_METRICS", "9464")
        monkeypatch.setenv(f"{service}_PORT", "tcp://10.0.0.1:50051")
        monkeypatch.setenv(f"{service}_PORT_50051_TCP", "tcp://10.0.0.1:50051")
        monkeypatch.setenv(f"{service}_PORT_50051_TCP_PROTO", "tcp")
        monkeypatch.setenv(f"{service}_PORT_50051_TCP_PORT", "50051")
        monkeypatch.setenv(f"{service}_PORT_50051_TCP_ADDR", "10.0.0.1")
    assert load(None, {}) == before


def test_variables_of_other_parts_of_taskyard_are_ignored(monkeypatch):
    before = load(None, {})
    for name in OTHERS_VARIABLES:
        monkeypatch.setenv(name, "1")
    assert load(None, {}) == before


def test_every_variable_that_clients_examples_and_commands_name_is_known():
    folders = ["clients/python/taskyard", "clients/go", "clients/java/src", "clients/typescript/src", "examples"]
    folders.append("server/taskyard_server/cli")
    named = {
        variable
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.suffix in {".py", ".go", ".java", ".ts"}
        for variable in re.findall(r"TASKYARD_[A-Z_]*[A-Z]\b", file.read_text())
    }
    assert "TASKYARD_TRACE_ID" in named
    # The example executor takes the variable of the server.
    assert named - {"TASKYARD_EXECUTOR_TOKEN"} <= OTHERS_VARIABLES
