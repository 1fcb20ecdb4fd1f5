"""Servers that get what the chart gives to its pods: they start, answer the probes, and carry calls to one another."""

import asyncio
import os
import re
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from taskyard_server.keda import externalscaler_pb2, externalscaler_pb2_grpc
from tests.certificates import Authority
from tests.environment import settings_in
from tests.ports import free_port
from tests.waiting import until

from .chart import CHART, KEDA, NAME, POSTGRES, Rendered, environment_of, lay_files

pytestmark = pytest.mark.gate("Helm")

COMMAND = (sys.executable, "-m", "taskyard_server.cli.main")
OF_THE_IMAGE = dict(re.findall(r"\b(TASKYARD_\w+)=(\S+)", (CHART.parents[2] / "Dockerfile").read_text()))
"""The variables that every container has by its image."""
PORTS = ("grpc", "rest", "metrics", "replicas")
STOP_SECS = 60.0


@dataclass
class Pod:
    """A container that runs as a process: where each of its ports is, its variables, and how it is called."""

    process: asyncio.subprocess.Process
    container: dict[str, Any]
    ports: Mapping[str, int]
    environment: Mapping[str, str]
    client: httpx.AsyncClient

    def url(self, port: str, path: str) -> str:
        return f"https://127.0.0.1:{self.ports[port]}{path}"

    async def probe(self, name: str) -> int:
        """The status that a kubelet gets, which brings no credential; 0 where nobody listens."""
        asked = self.container[name]["httpGet"]
        assert asked["scheme"] == "HTTPS"
        try:
            return (await self.client.get(self.url(asked["port"], asked["path"]))).status_code
        except httpx.TransportError:
            return 0

    async def run(self, *words: str) -> str:
        """The output of a command of Taskyard within the container, as of `kubectl exec`."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND, *words, env={**_without_settings(), **self.environment}, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    async def call(self, method: str, path: str, **options: Any) -> Any:
        """The answer over REST to the holder of the admin token."""
        headers = {"Authorization": f"Bearer {self.environment['TASKYARD_ADMIN_TOKEN']}"}
        return (await self.client.request(method, self.url("rest", path), headers=headers, **options)).json()


@asynccontextmanager
async def running(
    rendered: Rendered, secrets: Mapping[str, Mapping[str, str]], name: str, ca: str, folder: Path
) -> AsyncIterator[Pod]:
    """A pod that is ready; its end is that of SIGTERM."""
    secrets = {**rendered.made_secrets(), **secrets}
    ports = {port: free_port() for port in PORTS}
    container = rendered.container
    fields = {"metadata.name": name, "status.podIP": "127.0.0.1"}
    places = {"/etc/taskyard": str(folder / "etc"), "/var/lib": str(folder / "state"), "0.0.0.0": "127.0.0.1"}
    places |= {f":{each['containerPort']}": f":{ports[each['name']]}" for each in container["ports"]}

    def moved(text: str) -> str:
        for place, other in places.items():
            text = text.replace(place, other)
        return text

    (folder / "etc").mkdir(parents=True)
    lay_files(rendered, secrets, folder / "etc")
    settings = folder / "etc/taskyard.json"
    settings.write_text(moved(settings.read_text()))
    given = OF_THE_IMAGE | {key: moved(text) for key, text in environment_of(container, secrets, fields).items()}
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *map(moved, container["args"]),
        env={**_without_settings(), **given},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    context = ssl.create_default_context(cadata=ca)
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        pod = Pod(process, container, ports, given, client)
        try:
            await until(lambda: pod.probe("readinessProbe"), lambda status: status == 200)
            yield pod
        finally:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(STOP_SECS):
                code = await process.wait()
    assert code == 0


def _without_settings() -> dict[str, str]:
    """The environment of this process without any, not even a store."""
    return {name: os.environ[name] for name in os.environ.keys() - set(settings_in(os.environ))}


def certificates(authority: Authority, *uris: str) -> dict[str, str]:
    """The content of a Secret as cert-manager makes it."""
    leaf = authority.leaf(uris=uris, names=(), addresses=()) if uris else authority.leaf()
    return {"tls.crt": leaf.cert.decode(), "tls.key": leaf.key.decode(), "ca.crt": authority.cert.decode()}


async def test_a_server_on_sqlite_answers_probes_prometheus_and_keda_and_keeps_its_tasks(render, tmp_path):
    rendered, authority, of_clients = render(KEDA), Authority(), Authority("clients")
    secrets = {f"{NAME}-tls": certificates(authority), "agents-ca": {"ca.crt": of_clients.cert.decode()}}
    async with running(rendered, secrets, "yard-0", authority.cert.decode(), tmp_path) as pod:
        assert await pod.probe("startupProbe") == await pod.probe("livenessProbe") == 200
        submitted = await pod.call("POST", "/tasks", json={"agentId": "ann", "action": "greet"})
        assert submitted["state"] == "queued"
        scrape = pod.url("metrics", "/metrics")
        assert (await pod.client.get(scrape)).status_code == 401
        token = {"Authorization": f"Bearer {pod.environment['TASKYARD_METRICS_TOKEN']}"}
        assert "taskyard_tasks_queued 1.0" in (await pod.client.get(scrape, headers=token)).text
        assert (await pod.client.get(pod.url("rest", "/tasks"))).status_code == 401
        # Else the chart need not take them back.
        assert OF_THE_IMAGE.keys() >= {"TASKYARD_CA", "TASKYARD_TOKEN_FILE"}
        made = await pod.run("token", "create", "--config", str(tmp_path / "etc/taskyard.json"), "--role", "viewer")
        headers = {"Authorization": f"Bearer {made.strip()}"}
        assert (await pod.client.get(pod.url("rest", "/tasks"), headers=headers)).status_code == 200
        keda = of_clients.leaf(uris=["spiffe://taskyard/keda"])
        channel_credentials = grpc.ssl_channel_credentials(authority.cert, keda.key, keda.cert)
        (trigger,) = rendered.one("ScaledObject")["spec"]["triggers"]
        async with grpc.aio.secure_channel(f"localhost:{pod.ports['rest']}", channel_credentials) as channel:
            asked = externalscaler_pb2.ScaledObjectRef(name="crawlers", scalerMetadata=trigger["metadata"])
            spec = await externalscaler_pb2_grpc.ExternalScalerStub(channel).GetMetricSpec(asked)
        assert [each.metricName for each in spec.metricSpecs] == ["taskyard-crawlers"]
    assert (tmp_path / "state/taskyard/yard.db").exists()


async def test_replicas_with_one_certificate_carry_calls_to_one_another(render, tmp_path, postgres_url):
    rendered, authority, of_replicas = render(POSTGRES), Authority(), Authority("replicas")
    (wanted,) = (
        each
        for each in rendered.objects
        if each["metadata"]["name"] == f"{NAME}-replicas" and each["kind"] == "Certificate"
    )
    secrets = {
        f"{NAME}-tls": certificates(authority),
        f"{NAME}-replicas": certificates(of_replicas, *wanted["spec"]["uris"]),
        "yard-postgres": {"url": postgres_url},
    }
    async with AsyncExitStack() as stack:
        one, other = [
            await stack.enter_async_context(running(rendered, secrets, name, authority.cert.decode(), tmp_path / name))
            for name in ("yard-a", "yard-b")
        ]
        task = await one.call("POST", "/tasks", json={"agentId": "ann", "action": "greet"})
        seen = await until(lambda: other.call("GET", f"/tasks/{task['taskId']}"), lambda answer: "state" in answer)
        assert seen["state"] == "queued"
        replicas = (await other.call("GET", "/admin/replicas"))["replicas"]
        assert {each["name"] for each in replicas} == {"yard-a", "yard-b"}
