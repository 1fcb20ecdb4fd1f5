"""What the chart finds in a cluster: tokens that it has made, a Secret without them, a volume that stays as it is.

A server of HTTP answers Helm as Kubernetes does, as far as Helm asks before it would change anything.
"""

import base64
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.cases import every_case

from .chart import CHART, NAME, NAMESPACE, RELEASE, SQLITE, Object, merged

pytestmark = pytest.mark.gate("Helm")

GROUPS = {
    "v1": {"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount", "services": "Service"},
    "apps/v1": {"statefulsets": "StatefulSet"},
    "cert-manager.io/v1": {"certificates": "Certificate"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
}
OF_HELM = {
    "labels": {"app.kubernetes.io/managed-by": "Helm"},
    "annotations": {"meta.helm.sh/release-name": RELEASE, "meta.helm.sh/release-namespace": NAMESPACE},
}
TOKENS = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-tokens"
STATEFUL_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"


def discovery() -> dict[str, Object]:
    """What a cluster tells of itself, by paths."""
    groups = [version.rpartition("/")[0] for version in GROUPS if "/" in version]
    told: dict[str, Object] = {
        "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {
            "kind": "APIGroupList",
            "groups": [
                {"name": name, "versions": [{"groupVersion": f"{name}/v1", "version": "v1"}]} for name in groups
            ],
        },
        "/openapi/v3": {"paths": {}},
    }
    for version, kinds in GROUPS.items():
        resources = [{"name": name, "kind": kind, "namespaced": True, "verbs": ["get"]} for name, kind in kinds.items()]
        path = f"/{'apis' if '/' in version else 'api'}/{version}"
        told[path] = {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
    return told


class Cluster:
    """A namespace with these objects, by their paths, and a Helm that would install there."""

    def __init__(self, helm: Any, port: int, objects: dict[str, Object]) -> None:
        self.objects = objects
        self._config = helm.Config(
            kube_apiserver=f"http://127.0.0.1:{port}",
            kubeconfig_content="{apiVersion: v1, kind: Config}",
            namespace=NAMESPACE,
            storage_driver="memory",
        )

    def hold(self, *stateful_sets: Object) -> None:
        """Have these in the namespace, and no others."""
        self.objects[STATEFUL_SETS] = {"apiVersion": "apps/v1", "kind": "StatefulSetList", "items": list(stateful_sets)}
        for each in stateful_sets:
            self.objects[f"{STATEFUL_SETS}/{each['metadata']['name']}"] = each

    def install(self, values: Object) -> list[Object]:
        """The objects that an installation would bring."""
        release = self._config.install(str(CHART), RELEASE, values, namespace=NAMESPACE, dry_run="server")
        return [each for each in yaml.safe_load_all(release["manifest"]) if each]


@pytest.fixture
def cluster(helm: Any) -> Iterator[Cluster]:
    """An empty one."""
    objects, told = dict[str, Object](), discovery()

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            found = objects.get(path) or told.get(path)
            # An empty description, in the binary form that Helm asks for.
            body = b"" if path == "/openapi/v2" else json.dumps(found or missing).encode()
            self.send_response(200 if found or not body else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield Cluster(helm, server.server_port, objects)
        server.shutdown()
        thread.join()


def tokens_of(objects: list[Object]) -> Object:
    (found,) = (each["data"] for each in objects if each["kind"] == "Secret")
    return dict(found)


def secret(name: str, **data: str) -> Object:
    encoded = {key.replace("_", "-"): base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **OF_HELM}, "data": encoded}


def test_tokens_are_made_once_and_kept(cluster):
    made = tokens_of(cluster.install(SQLITE))
    assert {key: len(base64.b64decode(text)) for key, text in made.items()} == {"admin-token": 40, "metrics-token": 40}
    assert tokens_of(cluster.install(SQLITE)) != made
    cluster.objects[TOKENS] = {**secret(f"{NAME}-tokens"), "data": made}
    assert tokens_of(cluster.install(SQLITE)) == made


def test_a_secret_without_tokens_is_refused_by_its_name(cluster, helm):
    cluster.objects[TOKENS.replace(f"{NAME}-tokens", "own")] = secret(
        "own", admin_token="a" * 40, metrics_token="short"
    )
    with pytest.raises(helm.HelmError) as error:
        cluster.install(merged(SQLITE, {"tokens": {"existingSecret": "own"}}))
    lines = [line for line in str(error.value).splitlines() if line.startswith("tokens")]
    assert lines == ["tokens.existingSecret: own has no metrics-token of 20 characters or more"]


def test_a_secret_that_is_not_there_yet_may_come_later(cluster):
    objects = cluster.install(merged(SQLITE, {"tokens": {"existingSecret": "later"}}))
    assert [each for each in objects if each["kind"] == "Secret"] == []


@every_case(
    ("values", "refusal"),
    [
        ({"sqlite": {"size": "20Gi"}}, "sqlite.size: the volume was made with 10Gi"),
        ({"sqlite": {"storageClass": "slow"}}, "sqlite.storageClass: the volume was made with fast"),
        ({"fullnameOverride": "other"}, f"fullnameOverride: the tasks are on the volume of {NAME}"),
    ],
)
def test_a_volume_that_is_there_is_neither_changed_nor_left(values, refusal, cluster, helm):
    made = merged(SQLITE, {"sqlite": {"storageClass": "fast"}})
    (workload,) = (each for each in cluster.install(made) if each["kind"] == "StatefulSet")
    cluster.hold(merged(workload, {"metadata": OF_HELM}))
    assert cluster.install(made)
    with pytest.raises(helm.HelmError, match=re.escape(refusal)):
        cluster.install(merged(made, values))


def test_stateful_sets_of_others_are_not_asked(cluster):
    (workload,) = (each for each in cluster.install(SQLITE) if each["kind"] == "StatefulSet")
    of_others = {"metadata": {"name": "others", "labels": {"app.kubernetes.io/instance": "others"}}}
    cluster.hold(merged(workload, of_others), {"metadata": {"name": "unlabelled"}})
    assert cluster.install(SQLITE)
