"""The alert rules that are delivered: valid, tested, and about what a server exports (docs/operate/monitoring.md)."""

from pathlib import Path

import pytest
import yaml

from .exported import DEPLOY, OF_PROMETHEUS, SERIES, exported, outcomes, promtool, unknown

pytestmark = pytest.mark.gate("promtool")

RULES = DEPLOY / "prometheus" / "rules.yaml"
TESTS = sorted((DEPLOY / "prometheus" / "tests").glob("*.yaml"))
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
UNIT_TESTS = [test for file in TESTS for test in yaml.safe_load(file.read_text())["tests"]]
PAGE = (Path(__file__).parents[2] / "docs/operate/monitoring.md").read_text()


@pytest.fixture
async def labels(make_harness):
    """The names of the labels of each sample that a server exports."""
    return await exported(make_harness)


@pytest.mark.usefixtures("needs_promtool")
def test_prometheus_takes_the_rules():
    run = promtool("check", "rules", str(RULES))
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.usefixtures("needs_promtool")
def test_each_alert_fires_when_it_should_and_only_then():
    run = promtool("test", "rules", *map(str, TESTS))
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_has_a_test_of_firing_and_two_of_silence(alert):
    counted = outcomes(UNIT_TESTS)
    assert counted[alert["alert"], True] >= 1
    assert counted[alert["alert"], False] >= 2


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_each_alert_says_what_is_wrong_and_how_bad_it_is_and_stands_in_the_documentation(alert):
    assert set(alert["annotations"]) == {"summary", "description"}
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert f"`{alert['alert']}`" in PAGE


async def test_alerts_ask_for_what_a_server_exports(labels):
    assert {alert["alert"]: wrong for alert in ALERTS if (wrong := unknown(alert["expr"], labels))} == {}


async def test_the_tests_of_alerts_have_the_series_of_a_server(labels):
    for test in UNIT_TESTS:
        for each in test["input_series"]:
            assert unknown(each["series"], labels) == []
            ((name, selector),) = SERIES.findall(each["series"])
            given = {part.split("=")[0].strip() for part in selector.split(",")}
            assert given == labels[name] | OF_PROMETHEUS, each["series"]


def test_a_name_that_no_server_exports_is_found():
    labels = {"taskyard_hosts": {"status"}}
    assert unknown('sum(taskyard_hosts{status="dead"}) + taskyard_host', labels) == ["taskyard_host"]
    assert unknown('taskyard_hosts{state="dead", job="x"}', labels) == ["taskyard_hosts['state']"]


async def test_every_metric_stands_in_the_documentation(labels):
    kept = (Path(__file__).parents[2] / "docs/operate/durability.md").read_text()
    names = {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in labels}
    assert [name for name in sorted(names) if name.startswith("taskyard_") and f"`{name}`" not in PAGE + kept] == []
