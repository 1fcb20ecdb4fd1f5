"""The Helm chart as Helm renders it, and what Kubernetes makes of a container of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "taskyard"
RELEASE, NAMESPACE = "yard", "shop"
NAME = "yard-taskyard"
SQLITE: Object = {"tls": {"issuer": {"name": "ours"}}}
POSTGRES: Object = {
    "store": "postgres",
    "replicas": 3,
    "postgres": {"existingSecret": "yard-postgres"},
    "tls": {"issuer": {"name": "ours"}},
    "replicaTls": {"certManager": True},
}
KEDA: Object = {
    "tls": {"issuer": {"name": "ours"}, "clientCa": {"existingSecret": "agents-ca"}},
    "settings": {"scheduler": {"pools": {"crawlers": {}}}},
    "keda": {
        "existingSecret": "keda",
        "scale": [{"deployment": "crawlers", "pool": "crawlers", "namespace": "acme", "maxReplicas": 50}],
    },
}
MONITORED: Object = {name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule", "dashboards")}


def merged(*values: Object) -> Object:
    """Values over values, as those of several files; None takes one out."""
    all_of: Object = {}
    for each in values:
        for key, value in each.items():
            if value is None:
                del all_of[key]
                continue
            both = isinstance(value, dict) and isinstance(all_of.get(key), dict)
            all_of[key] = merged(all_of[key], value) if both else value
    return all_of


@dataclass(frozen=True)
class Rendered:
    """The objects of one rendering."""

    objects: Sequence[Object]

    def one(self, kind: str, name: str | None = None) -> Object:
        """The object of this kind, and this name where there are several."""
        (found,) = (each for each in self.objects if each["kind"] == kind and name in (None, each["metadata"]["name"]))
        return found

    @property
    def pod(self) -> Object:
        """The specification of its pods."""
        (workload,) = (each for each in self.objects if each["kind"] in ("StatefulSet", "Deployment"))
        spec: Object = workload["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> Object:
        """The one container of a pod."""
        (container,) = self.pod["containers"]
        return dict(container)

    @property
    def settings_file(self) -> str:
        """The settings of the server."""
        return str(self.one("ConfigMap", NAME)["data"]["taskyard.json"])

    def made_secrets(self) -> dict[str, dict[str, str]]:
        """The content of the Secrets that the chart makes, by their names."""
        return {
            each["metadata"]["name"]: {key: base64.b64decode(text).decode() for key, text in each["data"].items()}
            for each in self.objects
            if each["kind"] == "Secret"
        }


def objects_in(manifests: Mapping[str, str]) -> list[Object]:
    """The objects of rendered templates."""
    texts = (text for name, text in sorted(manifests.items()) if name.endswith(".yaml"))
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def environment_of(
    container: Object, secrets: Mapping[str, Mapping[str, str]], fields: Mapping[str, str]
) -> dict[str, str]:
    """The variables that a kubelet gives to a container. `fields` has those of its pod."""
    found: dict[str, str] = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        if wanted := source.get("secretKeyRef"):
            found[each["name"]] = secrets[wanted["name"]][wanted["key"]]
        elif wanted := source.get("fieldRef"):
            found[each["name"]] = fields[wanted["fieldPath"]]
        else:
            text = each["value"]
            for name, value in found.items():
                text = text.replace(f"$({name})", value)
            found[each["name"]] = text
    return found


def lay_files(rendered: Rendered, secrets: Mapping[str, Mapping[str, str]], folder: Path) -> None:
    """Lay the files of a pod into the folder that takes the place of /etc/taskyard."""
    (volume,) = (each["projected"] for each in rendered.pod["volumes"] if each["name"] == "settings")
    for source in volume["sources"]:
        ((kind, wanted),) = source.items()
        data = secrets[wanted["name"]] if kind == "secret" else rendered.one("ConfigMap", wanted["name"])["data"]
        for item in wanted["items"]:
            path = folder / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data[item["key"]])
