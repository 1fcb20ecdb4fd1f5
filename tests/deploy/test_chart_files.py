"""The files of the chart beside those of the repository: one version, one source of rules and dashboards."""

import json
import re
import tomllib

import yaml

from taskyard_server.settings.config import Settings

from .chart import CHART

ROOT = CHART.parents[2]
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
VALUES = (CHART / "values.yaml").read_text()


def test_the_chart_has_the_version_of_the_server():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_rules_and_dashboards_have_one_source():
    """The chart links to them, each by itself: what packs the sources follows no link to a folder."""
    links = {path: path.resolve() for path in (CHART / "files").rglob("*") if path.is_symlink()}
    assert all(not path.readlink().is_absolute() for path in links)
    files = [ROOT / "deploy/prometheus/rules.yaml", *(ROOT / "deploy/grafana").glob("*.json")]
    assert len(files) > 3
    assert sorted(links.values()) == sorted(files)


def test_each_value_stands_in_the_file_of_values():
    said = set(re.findall(r"(?m)^[ #-]*(\w+):", VALUES))
    own = {**SCHEMA["properties"], "settings": {}}
    known = own.keys() | {key for part in parts(own) for key in part.get("properties", {})}
    assert known - said == {"global", "limits", "value", "valueFrom"}
    assert yaml.safe_load(VALUES).keys() <= SCHEMA["properties"].keys()


def test_every_setting_is_the_charts_or_can_be_given():
    """That no setting is known to be refused which there is not, as after it was renamed."""
    refused = (CHART / "templates/mistakes.yaml").read_text()
    keys = set(re.findall(r'(?m)^    "([\w.]+)" "is ', refused))
    known = {info.serialization_alias or name for name, info in Settings.model_fields.items()}
    assert len(keys) > 10
    for key in keys:
        section, _, inner = key.partition(".")
        assert section in known
        if inner:
            fields = Settings.model_fields[section].annotation.model_fields
            assert inner in {info.alias or name for name, info in fields.items()}


def parts(schema):
    """A schema and all that are in it."""
    if isinstance(schema, dict):
        yield schema
        for each in schema.values():
            yield from parts(each)
