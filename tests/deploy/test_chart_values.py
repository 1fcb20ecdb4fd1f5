"""Each value of the chart is seen in what is rendered, and each that cannot work is refused by its name."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml

from taskyard_server.settings.config import Settings
from tests.cases import every_case

from .chart import CHART, KEDA, MONITORED, POSTGRES, SQLITE, Object, merged

pytestmark = pytest.mark.gate("Helm")

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DIGEST = f"sha256:{'a' * 64}"
ISSUER, SCALED = SQLITE["tls"]["issuer"], KEDA["keda"]["scale"][0]
PEERS = [{"podSelector": {"matchLabels": {"team": "x"}}}]
OWN_TLS: Object = {"tls": {"existingSecret": "own-tls"}}


def scaled(**more: object) -> Object:
    return merged(KEDA, {"keda": {"scale": [{**SCALED, **more}]}})


# A value of the schema, all values, and what these bring into the objects.
EFFECTS: list[tuple[str, Object, object]] = [
    ("store", POSTGRES, {"kind": "Deployment"}),
    ("replicas", POSTGRES, {"replicas": 3}),
    ("image.repository", {"image": {"repository": "our/yard"}}, "our/yard:0.3.0"),
    ("image.tag", {"image": {"tag": "9.9"}}, "taskyard:9.9"),
    ("image.digest", {"image": {"digest": DIGEST}}, f"taskyard@{DIGEST}"),
    ("image.pullPolicy", {"image": {"pullPolicy": "Always"}}, {"imagePullPolicy": "Always"}),
    ("image.pullSecrets[].name", {"image": {"pullSecrets": [{"name": "a"}]}}, {"imagePullSecrets": [{"name": "a"}]}),
    ("settings", {"settings": {"scheduler": {"maxInflight": 500}}}, '"maxInflight": 500'),
    ("env[].name", {"env": [{"name": "TZ", "value": "UTC"}]}, {"name": "TZ", "value": "UTC"}),
    ("env[].value", {"env": [{"name": "TZ", "value": "CET"}]}, {"value": "CET"}),
    ("env[].valueFrom", {"env": [{"name": "A", "valueFrom": {"x": "y"}}]}, {"valueFrom": {"x": "y"}}),
    ("sqlite.size", {"sqlite": {"size": "77Gi"}}, {"storage": "77Gi"}),
    ("sqlite.storageClass", {"sqlite": {"storageClass": "fast"}}, {"storageClassName": "fast"}),
    ("postgres.existingSecret", POSTGRES, {"name": "yard-postgres", "key": "url"}),
    (
        "postgres.key",
        merged(POSTGRES, {"postgres": {"key": "uri"}}),
        {"secretKeyRef": {"name": "yard-postgres", "key": "uri"}},
    ),
    (
        "postgres.ca.existingSecret",
        merged(POSTGRES, {"postgres": {"ca": {"existingSecret": "pg-ca"}}}),
        {"name": "pg-ca", "items": [{"key": "ca.crt", "path": "postgres/ca.crt"}]},
    ),
    (
        "postgres.ca.key",
        merged(POSTGRES, {"postgres": {"ca": {"existingSecret": "pg-ca", "key": "root"}}}),
        {"key": "root", "path": "postgres/ca.crt"},
    ),
    ("tls.existingSecret", {"tls": {"issuer": None, "existingSecret": "own-tls"}}, {"name": "own-tls"}),
    ("tls.issuer.name", SQLITE, {"issuerRef": {"name": "ours", "kind": "Issuer", "group": "cert-manager.io"}}),
    ("tls.issuer.kind", {"tls": {"issuer": {"kind": "ClusterIssuer"}}}, {"name": "ours", "kind": "ClusterIssuer"}),
    ("tls.issuer.group", {"tls": {"issuer": {"group": "awspca"}}}, {"name": "ours", "group": "awspca"}),
    ("tls.dnsNames", {"tls": {"dnsNames": ["yard.example"]}}, {"dnsNames": ["yard.example"]}),
    (
        "tls.clientCa.existingSecret",
        {"tls": {"clientCa": {"existingSecret": "cca"}}},
        '"/etc/taskyard/client-ca/ca.crt"',
    ),
    (
        "tls.clientCa.key",
        {"tls": {"clientCa": {"existingSecret": "cca", "key": "root"}}},
        {"name": "cca", "items": [{"key": "root", "path": "client-ca/ca.crt"}]},
    ),
    (
        "replicaTls.existingSecret",
        merged(POSTGRES, {"replicaTls": {"certManager": False, "existingSecret": "own-replicas"}}),
        {"name": "own-replicas"},
    ),
    ("replicaTls.certManager", POSTGRES, {"uris": ["spiffe://taskyard/gateway/yard-taskyard"]}),
    ("tokens.existingSecret", {"tokens": {"existingSecret": "own"}}, {"name": "own", "key": "admin-token"}),
    (
        "podDisruptionBudget.maxUnavailable",
        merged(POSTGRES, {"podDisruptionBudget": {"maxUnavailable": 2}}),
        {"maxUnavailable": 2},
    ),
    ("spread", merged(POSTGRES, {"spread": "DoNotSchedule"}), {"whenUnsatisfiable": "DoNotSchedule"}),
    ("service.type", {"service": {"type": "LoadBalancer"}}, {"type": "LoadBalancer"}),
    ("service.annotations", {"service": {"annotations": {"a": "b"}}}, {"annotations": {"a": "b"}}),
    ("networkPolicy.enabled", SQLITE, {"kind": "NetworkPolicy"}),
    ("networkPolicy.clients", {"networkPolicy": {"clients": PEERS}}, {"from": PEERS}),
    ("networkPolicy.monitoring", {"networkPolicy": {"monitoring": PEERS}}, {"from": PEERS}),
    ("serviceMonitor.enabled", MONITORED, {"kind": "ServiceMonitor"}),
    ("serviceMonitor.interval", merged(MONITORED, {"serviceMonitor": {"interval": "7s"}}), {"interval": "7s"}),
    ("serviceMonitor.labels", merged(MONITORED, {"serviceMonitor": {"labels": {"a": "b"}}}), {"a": "b"}),
    (
        "serviceMonitor.serverName",
        merged(MONITORED, {"serviceMonitor": {"serverName": "yard.example"}}),
        {"serverName": "yard.example"},
    ),
    ("serviceMonitor.caKey", merged(MONITORED, {"serviceMonitor": {"caKey": "root"}}), {"key": "root"}),
    ("prometheusRule.enabled", MONITORED, {"kind": "PrometheusRule"}),
    ("prometheusRule.labels", merged(MONITORED, {"prometheusRule": {"labels": {"a": "b"}}}), {"a": "b"}),
    ("dashboards.enabled", MONITORED, {"name": "yard-taskyard-dashboards"}),
    ("dashboards.labels", merged(MONITORED, {"dashboards": {"labels": {"a": "b"}}}), {"a": "b"}),
    ("keda.existingSecret", KEDA, {"name": "keda", "key": "tls.key"}),
    ("keda.scale[].deployment", scaled(deployment="bots"), {"scaleTargetRef": {"name": "bots"}}),
    ("keda.scale[].pool", KEDA, {"pool": "crawlers"}),
    ("keda.scale[].namespace", scaled(namespace="acme"), {"namespace": "acme"}),
    ("keda.scale[].tasksPerHost", scaled(tasksPerHost=4), {"tasksPerHost": "4"}),
    ("keda.scale[].minReplicas", scaled(minReplicas=2), {"minReplicaCount": 2}),
    ("keda.scale[].maxReplicas", scaled(maxReplicas=99), {"maxReplicaCount": 99}),
    ("keda.scale[].fallbackReplicas", scaled(fallbackReplicas=0), {"replicas": 0}),
    ("serviceAccount.annotations", {"serviceAccount": {"annotations": {"a": "b"}}}, {"annotations": {"a": "b"}}),
    ("resources.requests", {"resources": {"requests": {"cpu": "9"}}}, {"cpu": "9"}),
    ("resources.limits", {"resources": {"limits": {"memory": "9Gi"}}}, {"limits": {"memory": "9Gi"}}),
    ("volumes", {"volumes": [{"name": "a", "emptyDir": {}}]}, {"name": "a", "emptyDir": {}}),
    ("volumeMounts", {"volumeMounts": [{"name": "a", "mountPath": "/a"}]}, {"name": "a", "mountPath": "/a"}),
    ("podLabels", {"podLabels": {"a": "b"}}, {"a": "b"}),
    ("podAnnotations", {"podAnnotations": {"a": "b"}}, {"a": "b"}),
    ("nodeSelector", {"nodeSelector": {"a": "b"}}, {"nodeSelector": {"a": "b"}}),
    ("tolerations", {"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "a"}]}),
    ("affinity", {"affinity": {"podAffinity": {}}}, {"affinity": {"podAffinity": {}}}),
    ("priorityClassName", {"priorityClassName": "high"}, {"priorityClassName": "high"}),
    ("fullnameOverride", {"fullnameOverride": "other"}, {"name": "other"}),
]

EXAMPLES = re.findall(r"(?s)```yaml\n(# yard.yaml\n.*?)```", (CHART.parents[2] / "docs/operate/install.md").read_text())
"""The examples of values in the documentation."""
NO_EFFECT = {"global"}
"""What Helm itself gives to a chart that is a part of another one."""

OF_THE_CHART = [
    *((key, "0.0.0.0:1") for key in ("grpc", "rest", "metrics")),
    *((key, {}) for key in ("tls", "gatewayTls", "replicas")),
    ("gateway", False),
]
SIGN_IN = {
    "issuer": "https://a.example",
    "audience": "yard",
    "jwks": "https://a.example/keys",
    "signIn": {
        "name": "A",
        "clientId": "yard",
        "clientSecret": "x",
        "authorizationUrl": "https://a.example/authorize",
        "tokenUrl": "https://a.example/token",
    },
}
REFUSED: list[tuple[Object, str]] = [
    ({}, "tls: has no certificate"),
    ({"tls": {"existingSecret": "a", "issuer": ISSUER}}, "tls: has both"),
    ({"tls": {"existingSecret": ""}}, "tls.existingSecret: is empty"),
    ({"tls": {"existingSecret": "a", "dnsNames": ["yard.example"]}}, "tls.dnsNames: are for tls.issuer"),
    (merged(SQLITE, {"tls": {"clientCa": {"existingSecret": ""}}}), "tls.clientCa.existingSecret: is empty"),
    (merged(SQLITE, {"tokens": {"existingSecret": ""}}), "tokens.existingSecret: is empty"),
    (merged(SQLITE, {"replicas": 2}), "replicas: 2 servers cannot share one file of SQLite"),
    (merged(SQLITE, {"replicas": 0}), "replicas: must be 1 or more"),
    (merged(SQLITE, {"postgres": {"existingSecret": "a"}}), "postgres.existingSecret: is for store: postgres"),
    (
        merged(SQLITE, {"postgres": {"ca": {"existingSecret": "a"}}}),
        "postgres.ca.existingSecret: is for store: postgres",
    ),
    (merged(SQLITE, {"replicaTls": {"existingSecret": "a"}}), "replicaTls.existingSecret: is for store: postgres"),
    (merged(SQLITE, {"replicaTls": {"certManager": True}}), "replicaTls.certManager: is for store: postgres"),
    (merged(SQLITE, {"store": "postgres", "replicaTls": {"certManager": True}}), "postgres.existingSecret: is missing"),
    (merged(POSTGRES, {"postgres": {"existingSecret": ""}}), "postgres.existingSecret: is empty"),
    (merged(POSTGRES, {"postgres": {"ca": {"existingSecret": ""}}}), "postgres.ca.existingSecret: is empty"),
    (merged(POSTGRES, {"replicaTls": {"certManager": False}}), "replicaTls: has no certificate"),
    (merged(POSTGRES, {"replicaTls": {"existingSecret": "a"}}), "replicaTls: has both"),
    (
        merged(POSTGRES, {"replicaTls": {"certManager": False, "existingSecret": ""}}),
        "replicaTls.existingSecret: is empty",
    ),
    (
        merged(
            POSTGRES,
            {"tls": {"issuer": None}, "replicaTls": {"certManager": False, "existingSecret": "own-tls"}},
            OWN_TLS,
        ),
        "replicaTls.existingSecret: must be for replicas alone",
    ),
    (
        merged(
            POSTGRES,
            {"tls": {"clientCa": {"existingSecret": "b"}}, "replicaTls": {"certManager": False, "existingSecret": "b"}},
        ),
        "replicaTls.existingSecret: must be for replicas alone",
    ),
    (merged(POSTGRES, {"podDisruptionBudget": {"maxUnavailable": 0}}), "podDisruptionBudget.maxUnavailable: must be 1"),
    (
        merged(POSTGRES, {"podDisruptionBudget": {"maxUnavailable": 3}}),
        "podDisruptionBudget.maxUnavailable: must be less",
    ),
    *((merged(SQLITE, {"settings": {key: value}}), f"settings.{key}: is the chart's") for key, value in OF_THE_CHART),
    *((merged(SQLITE, {"settings": {key: "x"}}), f"settings.{key}: is") for key in ("metricsToken", "executorToken")),
    (merged(SQLITE, {"settings": {"store": {"url": "memory://"}}}), "settings.store.url: is"),
    (merged(SQLITE, {"settings": {"auth": {"required": False}}}), "settings.auth.required: is"),
    (merged(SQLITE, {"settings": {"auth": {"adminToken": "x"}}}), "settings.auth.adminToken: is secret"),
    (merged(SQLITE, {"settings": {"webhooks": {"secret": "x"}}}), "settings.webhooks.secret: is secret"),
    (
        merged(SQLITE, {"settings": {"audit": {"file": "/var/log/a"}}}),
        "settings.audit.file: /var/log/a cannot be written",
    ),
    (merged(SQLITE, {"settings": {"log": {"file": "/var/lib/a"}}}), "settings.log.file: /var/lib/a cannot be written"),
    (merged(SQLITE, {"settings": {"tabs": {"t1": {"url": "u", "token": "x"}}}}), "settings.tabs.t1.token: is secret"),
    (merged(SQLITE, {"settings": {"auth": {"jwt": [SIGN_IN]}}}), "settings.auth.jwt: signIn"),
    *(
        (merged(SQLITE, {"env": [{"name": name, "value": "x"}]}), f"env: {name} is")
        for name in (
            *("TASKYARD_GRPC", "TASKYARD_TLS__CERT", "TASKYARD_GATEWAY_TLS", "TASKYARD_REPLICAS__NAME"),
            *("TASKYARD_STORE__URL", "TASKYARD_AUTH__REQUIRED", "TASKYARD_ADMIN_TOKEN", "TASKYARD_CA"),
            *("XDG_STATE_HOME", "SHUTDOWN_GRACE_PERIOD_SECONDS", "TASKYARD_SHUTDOWN_GRACE_PERIOD_SECONDS"),
        )
    ),
    (merged(KEDA, POSTGRES), "keda.scale: needs replicas: 1"),
    (merged(KEDA, {"keda": {"existingSecret": ""}}), "keda.existingSecret: is empty"),
    (merged(SQLITE, {"keda": {"scale": [SCALED]}}), "keda.existingSecret: is missing"),
    (merged(SQLITE, {"keda": {"scale": [SCALED]}}), "tls.clientCa.existingSecret: is missing"),
    (scaled(pool="others"), "keda.scale: the pool others is not in settings.scheduler.pools"),
    (merged(KEDA, {"tls": {"dnsNames": ["yard.example"]}}), "tls.dnsNames: needs yard-taskyard.shop"),
]


def leaves(schema: Object, path: str = "") -> Iterator[str]:
    """The paths of all values that a schema knows; settings are one."""
    if path == "settings":
        yield path
    elif "properties" in schema.get("items", {}):
        yield from leaves(schema["items"], f"{path}[]")
    elif "properties" in schema:
        for key, inner in schema["properties"].items():
            yield from leaves(inner, f"{path}.{key}" if path else key)
    else:
        yield path


def parts(value: object) -> Iterator[object]:
    """A value and all that is in it."""
    yield value
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from parts(each)


def has(objects: object, wanted: object) -> bool:
    """True if some object holds these keys, or some text this text."""
    if isinstance(wanted, dict):
        return any(isinstance(each, dict) and wanted.items() <= each.items() for each in parts(objects))
    return any(isinstance(each, str) and str(wanted) in each for each in parts(objects))


def objects_of_the_schema(schema: object) -> list[Object]:
    return [each for each in parts(schema) if isinstance(each, dict) and isinstance(each.get("properties"), dict)]


def test_the_table_has_each_value_of_the_schema():
    assert {path for path, _, _ in EFFECTS} | NO_EFFECT == set(leaves(SCHEMA))


@every_case(("values", "wanted"), [row[1:] for row in EFFECTS], ids=[path for path, _, _ in EFFECTS])
def test_each_value_is_seen_in_what_is_rendered(values, wanted, render):
    assert has(render(merged(SQLITE, values)).objects, wanted)


def test_what_is_looked_for_is_not_there_by_itself(render):
    """That the table tells a value from its absence: what it looks for comes by the value, or goes by its opposite."""
    usual = render(SQLITE).objects
    there = {path for path, _, wanted in EFFECTS if has(usual, wanted)}
    assert there == {"tls.issuer.name", "networkPolicy.enabled"}
    assert not has(render(merged(SQLITE, {"networkPolicy": {"enabled": False}})).objects, {"kind": "NetworkPolicy"})


@every_case(("values", "refusal"), REFUSED, ids=[refusal for _, refusal in REFUSED])
def test_what_cannot_work_is_refused_by_its_name(values, refusal, render, helm):
    with pytest.raises(helm.HelmError) as error:
        render(values)
    assert f"\n{refusal}" in str(error.value)


@every_case("example", EXAMPLES)
def test_the_values_that_the_page_shows_are_taken(example, render):
    assert render(yaml.safe_load(example)).container["image"].startswith("registry.example/taskyard:")


def test_all_mistakes_are_told_at_once(render, helm):
    with pytest.raises(helm.HelmError) as error:
        render({"replicas": 2, "settings": {"grpc": "0.0.0.0:1"}})
    assert [line.split(":")[0] for line in str(error.value).strip().splitlines()[1:]] == [
        "replicas",
        "tls",
        "settings.grpc",
    ]


def test_every_object_of_the_schema_is_closed():
    objects = objects_of_the_schema(SCHEMA)
    assert len(objects) > 10
    assert [each for each in objects if each.get("additionalProperties") is not False] == []


def test_all_settings_that_a_server_has_by_itself_can_be_given(render):
    settings = Settings().model_dump(mode="json", by_alias=True, exclude_none=True)
    for key, _ in OF_THE_CHART:
        del settings[key]
    del settings["store"]["url"], settings["auth"]["required"]
    more = {"tabs": {"t1": "http://tabs:9222"}, "executor": "http://tabs:9222", "executorCa": "/etc/tabs/ca.pem"}
    file = render(merged(SQLITE, {"settings": merged(settings, more)})).settings_file
    assert json.loads(file).items() >= {"metricsMaxNames": settings["metricsMaxNames"], **more}.items()


@every_case(
    "values",
    [
        {"tokenz": {}},
        {"tls": {"issuers": {}}},
        {"replicas": "3"},
        {"store": "mysql"},
        {"spread": "x"},
        {"fullnameOverride": "A.b"},
    ],
)
def test_unknown_values_and_wrong_types_are_refused_by_the_schema(values, render, helm):
    with pytest.raises(helm.HelmError, match=f"at '.*{next(iter(values))}|'{next(iter(values))}' not allowed"):
        render(merged(SQLITE, values))


def test_the_values_that_are_delivered_fit_the_schema_but_for_what_has_to_be_chosen(helm):
    with helm.Chart.load(CHART) as chart:
        chart.validate_schema(yaml.safe_load((CHART / "values.yaml").read_text()))
