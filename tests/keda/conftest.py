"""A yard with TLS and client certificates, and KEDA in front of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_tools import protoc

from taskyard.v1 import admin_pb2, admin_pb2_grpc
from tests.certificates import Authority, Leaf
from tests.environment import without_settings
from tests.ports import free_port

CONTRACT = Path(__file__).parents[2] / "third_party/keda"
CALLER = Path(__file__).with_name("caller.py")
ADMIN_TOKEN = "the-admin-token-of-these-tests"
KEDA = "spiffe://taskyard/keda"
"""A viewer of the namespace `shop`, and of no other."""
HOST = "spiffe://taskyard/host"
POOLS = {
    "crawlers": {"labels": {"pool": "crawlers"}, "actions": ["crawl"]},
    "All.Hosts": {},
}


@dataclass
class Cluster:
    """A yard, and what KEDA has to call it by."""

    address: str
    config: Path
    authority: Authority
    caller: subprocess.Popen[str]

    def keda(self, method: str, leaf: Leaf | None = None, metric: str = "", **metadata: str) -> dict[str, Any]:
        """What KEDA is answered. Without another certificate it brings its own."""
        leaf = leaf or self.authority.leaf(uris=[KEDA])
        asked = {
            "method": method,
            "address": self.address,
            "ca": self.authority.cert.decode(),
            "cert": leaf.cert.decode(),
            "key": leaf.key.decode(),
            "metadata": {"scalerAddress": self.address, **metadata},
            "metric": metric,
        }
        assert self.caller.stdin is not None
        assert self.caller.stdout is not None
        self.caller.stdin.write(json.dumps(asked) + "\n")
        self.caller.stdin.flush()
        return dict(json.loads(self.caller.stdout.readline()))

    def reload(self) -> None:
        """Let the server read its configuration again."""
        leaf = self.authority.leaf(uris=[HOST])
        credentials = grpc.ssl_channel_credentials(self.authority.cert, leaf.key, leaf.cert)
        with grpc.secure_channel(self.address, credentials) as channel:
            admin = admin_pb2_grpc.AdminServiceStub(channel)
            admin.ReloadConfig(admin_pb2.ReloadConfigRequest(), metadata=[("authorization", f"Bearer {ADMIN_TOKEN}")])


@pytest.fixture(scope="session")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stubs of KEDA's own proto, made of the file as KEDA has it, by a protoc run of their own."""
    folder = tmp_path_factory.mktemp("keda")
    out = [f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(["protoc", f"--proto_path={CONTRACT}", *out, "externalscaler.proto"]) == 0
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stubs: Path) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("yard")
    authority = Authority()
    cert, key = authority.leaf().write(folder, "server")
    ports = {name: free_port() for name in ("grpc", "metrics")}
    config = folder / "taskyard.json"
    settings = {
        "scheduler": {"pools": POOLS},
        "auth": {
            "adminToken": ADMIN_TOKEN,
            "certificates": [
                {"uri": KEDA, "grants": [{"role": "viewer", "namespaces": ["shop"]}]},
                {"uri": HOST, "grants": [{"role": "host"}, {"role": "agent"}]},
            ],
        },
        "tls": {"cert": str(cert), "key": str(key), "clientCa": str(authority.write(folder))},
    }
    config.write_text(json.dumps(settings))
    address = f"localhost:{ports['grpc']}"
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--config", str(config)]
    command += ["--grpc", f"127.0.0.1:{ports['grpc']}", "--metrics", f"127.0.0.1:{ports['metrics']}"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = {**without_settings(), "PYTHONPATH": str(stubs)}
    caller = subprocess.Popen([sys.executable, CALLER], env=environment, text=True, **pipes)
    server = subprocess.Popen([*command, "--store", "memory://"], env=without_settings())
    try:
        made = Cluster(address, config, authority, caller)
        leaf = authority.leaf(uris=[HOST])
        credentials = grpc.ssl_channel_credentials(authority.cert, leaf.key, leaf.cert)
        with grpc.secure_channel(address, credentials) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        yield made
    finally:
        for process in (server, caller):
            process.terminate()
            process.communicate(timeout=30)
