"""What the chart renders: objects that Kubernetes takes, in two forms, guarded as docs/operate/security.md wants."""

import json
import os
import re

import pytest
import yaml

from taskyard_server.net.exposure import authentication_is_on, exposed
from taskyard_server.settings.config import Settings
from taskyard_server.settings.config_sources import load
from tests.cases import every_case
from tests.environment import settings_in

from .chart import CHART, KEDA, MONITORED, NAME, POSTGRES, SQLITE, Object, environment_of, merged, objects_in

pytestmark = pytest.mark.gate("Helm")

DEPLOY = CHART.parents[1]
FORMS = {"sqlite": SQLITE, "postgres": POSTGRES}
FULL: Object = {
    "postgres": {"ca": {"existingSecret": "pg-ca"}},
    "image": {"pullSecrets": [{"name": "registry"}]},
    "env": [{"name": "TZ", "value": "UTC"}],
    "networkPolicy": {"clients": [{"namespaceSelector": {}}], "monitoring": [{"namespaceSelector": {}}]},
    "tolerations": [{"key": "yards", "operator": "Exists"}],
    "nodeSelector": {"disk": "fast"},
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "podLabels": {"team": "x"},
}
VERSIONS = ("1.30", "1.37")
"""The first that the chart may be used with, and the newest of which there are schemas."""
OF_OTHERS = {"Certificate", "Issuer", "PrometheusRule", "ScaledObject", "ServiceMonitor", "TriggerAuthentication"}
"""Kinds of which Kubernetes itself has no schema."""
ALL = {
    "sqlite": SQLITE,
    "postgres": POSTGRES,
    "monitored": merged(SQLITE, MONITORED),
    "keda": KEDA,
    "all of sqlite": merged(KEDA, MONITORED, FULL, {"postgres": None}),
    "all of postgres": merged(POSTGRES, MONITORED, FULL),
}


def test_helm_finds_nothing_wrong(helm):
    found = helm.lint(CHART, SQLITE, strict=True)
    assert [each["error"] for each in found["messages"]] == ["icon is recommended"]
    assert helm.lint(CHART, {"tls": "none"}, strict=True)["errors"]


@every_case("values", ALL.values(), ids=ALL)
def test_kubernetes_takes_all_objects(values, render):
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs its schemas: make gate-tools")
    for each in render(values).objects:
        if each["kind"] not in OF_OTHERS:
            for version in VERSIONS:
                kubernetes_validate.validate(each, version, strict=True)


def test_a_misspelt_key_of_an_object_would_be_found(render):
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="needs its schemas: make gate-tools")
    service = render(SQLITE).one("Service", NAME)
    service["spec"]["selectors"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="selectors"):
        kubernetes_validate.validate(service, VERSIONS[-1], strict=True)


@pytest.mark.parametrize("form", FORMS)
def test_the_server_takes_its_settings_and_may_listen_to_other_machines(form, render, tmp_path, monkeypatch):
    rendered = render(FORMS[form])
    secrets = {**rendered.made_secrets(), "yard-postgres": {"url": "postgresql://yard:secret@db/yard"}}
    fields = {"metadata.name": "yard-1", "status.podIP": "10.0.0.7"}
    for name in settings_in(os.environ):
        monkeypatch.delenv(name)
    for name, value in environment_of(rendered.container, secrets, fields).items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "taskyard.json"
    file.write_text(rendered.settings_file)
    settings = load(file, {}).settings
    assert exposed(settings) == []
    assert authentication_is_on(settings)
    assert {settings.grpc, settings.rest, settings.metrics} == {f"0.0.0.0:{port}" for port in (50051, 9867, 9464)}
    if form == "sqlite":
        assert settings.store.url == "sqlite:////var/lib/taskyard/yard.db"
        assert settings.replicas.advertise is None
    else:
        assert settings.store.url == "postgresql://yard:secret@db/yard"
        assert (settings.replicas.name, settings.replicas.listens_on) == ("yard-1", "10.0.0.7:50052")
        assert str(settings.replicas.ca) == "/etc/taskyard/replicas/ca.crt"


def test_settings_of_the_values_reach_the_server_beside_those_of_the_chart(render):
    mine = {"uri": "spiffe://taskyard/host/*", "grants": [{"role": "host"}]}
    given = {"store": {"historyDays": 1}, "auth": {"certificates": [mine], "limits": {"agent": {"streams": 5}}}}
    settings = Settings.model_validate(json.loads(render(merged(KEDA, {"settings": given})).settings_file))
    assert settings.store.history_days == 1
    assert settings.store.url.startswith("sqlite:")
    assert settings.auth.required
    assert settings.auth.limits["agent"].streams == 5
    assert [each.uri for each in settings.auth.certificates] == [mine["uri"], "spiffe://taskyard/keda"]
    assert settings.auth.certificates[1].grants[0].namespaces == ["acme"]


@every_case("values", FORMS.values(), ids=FORMS)
def test_a_container_may_do_little_and_writes_to_two_folders(values, render):
    rendered = render(values)
    pod, container = rendered.pod, rendered.container
    own = pod["securityContext"]
    assert (own["runAsNonRoot"], own["runAsUser"], own["runAsGroup"], own["fsGroup"]) == (True, 10001, 10001, 10001)
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    writable = {each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")}
    assert writable == {"/var/lib/taskyard", "/tmp"}
    assert container["args"] == ["up", "--config", "/etc/taskyard/taskyard.json"]
    assert "--insecure" not in json.dumps(rendered.objects)


@every_case("values", FORMS.values(), ids=FORMS)
def test_every_port_that_is_named_is_one_of_the_container(values, render):
    rendered = render(values)
    container = rendered.container
    names = {each["name"] for each in container["ports"]}
    probes = ("startupProbe", "livenessProbe", "readinessProbe")
    services = [each for each in rendered.objects if each["kind"] == "Service"]
    rules = rendered.one("NetworkPolicy")["spec"]["ingress"]
    assert {container[probe]["httpGet"]["port"] for probe in probes} <= names
    assert {port["targetPort"] for service in services for port in service["spec"]["ports"]} <= names
    assert {port["port"] for rule in rules for port in rule["ports"]} == names


def test_what_selects_pods_selects_those_of_the_release(render):
    rendered = render(merged(POSTGRES, MONITORED))
    workload = rendered.one("Deployment")["spec"]
    labels = workload["template"]["metadata"]["labels"].items()
    spread = [each["labelSelector"]["matchLabels"] for each in rendered.pod["topologySpreadConstraints"]]
    selectors = [
        workload["selector"]["matchLabels"],
        rendered.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        rendered.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(each["spec"]["selector"] for each in rendered.objects if each["kind"] == "Service"),
        *spread,
    ]
    assert len(selectors) == 7
    assert [each for each in selectors if not each.items() <= labels] == []
    scraped = rendered.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    services = [each for each in rendered.objects if each["kind"] == "Service"]
    assert [each["metadata"]["name"] for each in services if scraped <= each["metadata"]["labels"].items()] == [
        "yard-taskyard-pods"
    ]


def test_only_replicas_reach_the_port_of_replicas(render):
    (rule,) = [
        rule
        for rule in render(POSTGRES).one("NetworkPolicy")["spec"]["ingress"]
        if {"port": "replicas"} in rule["ports"]
    ]
    assert list(rule["from"][0]) == ["podSelector"]


def test_the_two_forms_differ_in_what_they_keep_and_how_they_end(render):
    one, many = render(SQLITE), render(POSTGRES)
    (claim,) = one.one("StatefulSet")["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] in {each["name"] for each in one.container["volumeMounts"]}
    assert one.one("StatefulSet")["spec"]["serviceName"] == "yard-taskyard-pods"
    assert one.one("Service", "yard-taskyard-pods")["spec"]["publishNotReadyAddresses"]
    assert "lifecycle" not in one.container
    assert many.one("Deployment")["spec"]["strategy"] == {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert {"name": "state", "emptyDir": {}} in many.pod["volumes"]
    assert many.container["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    kinds = {each["kind"] for each in one.objects}
    assert kinds & {"PodDisruptionBudget", "Deployment", "Issuer"} == set()


@every_case(
    ("settings", "secs"),
    [
        ({}, 60),
        ({"executor": "http://tabs:9222"}, 360),
        ({"tabs": {"t1": "http://tabs:9222"}}, 360),
        ({"shutdownGracePeriodSeconds": 12.5}, 73),
        ({"shutdownGracePeriodSeconds": 30, "executor": "http://tabs:9222"}, 90),
    ],
)
def test_a_pod_has_the_time_to_end_that_its_server_gives_to_tasks(settings, secs, render):
    assert render(merged(SQLITE, {"settings": settings})).pod["terminationGracePeriodSeconds"] == secs


def test_rules_and_dashboards_are_those_of_the_deploy_folder(render):
    rendered = render(merged(SQLITE, MONITORED))
    assert rendered.one("PrometheusRule")["spec"] == yaml.safe_load((DEPLOY / "prometheus/rules.yaml").read_text())
    shown = rendered.one("ConfigMap", "yard-taskyard-dashboards")["data"]
    files = sorted((DEPLOY / "grafana").glob("*.json"))
    assert {name: json.loads(text) for name, text in shown.items()} == {
        f"taskyard-{file.name}": json.loads(file.read_text()) for file in files
    }


def test_prometheus_finds_each_pod_and_brings_the_token_that_it_has(render):
    rendered = render(merged(SQLITE, MONITORED))
    (endpoint,) = rendered.one("ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in rendered.one("Service", "yard-taskyard-pods")["spec"]["ports"]}
    assert endpoint["relabelings"] == [{"targetLabel": "job", "replacement": "taskyard"}]
    (token,) = (each for each in rendered.container["env"] if each["name"] == "TASKYARD_METRICS_TOKEN")
    assert endpoint["authorization"]["credentials"] == token["valueFrom"]["secretKeyRef"]


def test_a_package_holds_what_the_links_lead_to(helm, tmp_path):
    with helm.Chart.load(helm.package(CHART, destination=tmp_path)) as chart:
        names = {each["name"] for each in chart.files}
    assert {"files/rules.yaml", "files/grafana/overview.json"} <= names


def test_other_settings_begin_new_pods(render):
    def mark(values: Object) -> str:
        workload = render(values).one("StatefulSet")
        return str(workload["spec"]["template"]["metadata"]["annotations"]["checksum/settings"])

    assert mark(SQLITE) == mark(SQLITE) == mark(merged(SQLITE, {"podAnnotations": {"checksum/settings": "mine"}}))
    assert mark(SQLITE) != mark(merged(SQLITE, {"settings": {"scheduler": {"maxInflight": 7}}}))


def test_the_names_of_the_certificate_are_those_by_which_others_call(render):
    values = merged(KEDA, MONITORED)
    rendered = render(values)
    names = rendered.one("Certificate")["spec"]["dnsNames"]
    scaler = rendered.one("ScaledObject")["spec"]["triggers"][0]["metadata"]["scalerAddress"]
    assert scaler.removesuffix(":9867") in names
    assert rendered.one("ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"]["serverName"] in names
    outside = render(merged(SQLITE, MONITORED, {"tls": {"dnsNames": ["yard.example"]}}))
    assert outside.one("ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"]["serverName"] == "yard.example"


@every_case(("release", "name"), [("taskyard", "taskyard"), ("a" * 53, "a" * 52), ("my.yard", "my-yard-taskyard")])
def test_names_are_as_kubernetes_wants_them(release, name, helm):
    with helm.Chart.load(CHART) as chart:
        text = chart.render(SQLITE, name=release, namespace="shop")["taskyard/templates/network.yaml"]
    assert next(yaml.safe_load_all(text))["metadata"]["name"] == name


@every_case(
    "values",
    [
        merged(
            KEDA,
            {"tls": {"issuer": {"name": "WORD"}, "clientCa": {"existingSecret": "WORD", "key": "WORD"}}},
            {"settings": {"scheduler": {"pools": {"crawlers": None, "WORD": {}}}}, "sqlite": {"storageClass": "WORD"}},
            {"keda": {"existingSecret": "WORD"}, "priorityClassName": "WORD", "tokens": {"existingSecret": "WORD"}},
            {"keda": {"scale": [{"deployment": "WORD", "pool": "WORD", "namespace": "WORD", "maxReplicas": 2}]}},
            {"serviceMonitor": {"enabled": True, "serverName": "WORD", "caKey": "WORD"}},
        ),
        merged(
            POSTGRES,
            {"postgres": {"existingSecret": "WORD", "key": "WORD", "ca": {"existingSecret": "WORD", "key": "WORD"}}},
            {"tls": {"issuer": None, "existingSecret": "WORD"}},
            {"replicaTls": {"certManager": False, "existingSecret": "1WORD"}},
            {"tokens": {"existingSecret": "WORD"}, "serviceMonitor": {"enabled": True}},
        ),
    ],
    ids=["sqlite", "postgres"],
)
def test_a_word_of_digits_stays_a_word(values, helm):
    """Where YAML would read a number, as in a release that is named after a pull request."""

    def rendered(word: str) -> str:
        given = json.loads(json.dumps(values).replace("WORD", word))
        with helm.Chart.load(CHART) as chart:
            text = json.dumps(objects_in(chart.render(given, name=word, namespace="shop")))
        return re.sub(r"\b[0-9a-f]{64}\b", "checksum", text)

    assert json.loads(rendered("w7").replace("w7", "7")) == json.loads(rendered("7"))
