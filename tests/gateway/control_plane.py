"""`taskyard up` as a user starts it, with its gateway, on free ports."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.environment import without_settings
from tests.ports import free_port

SECS = 20.0
ROOM = 1_000_000
LIMITS = dict.fromkeys(("maxQueueSize", "maxPerAgent", "maxInflight", "maxPerAgentInflight"), ROOM)


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """One that serves."""

    process: subprocess.Popen[bytes]
    ports: Mapping[str, int]

    @property
    def url(self) -> str:
        """Where REST is served."""
        return f"http://127.0.0.1:{self.ports['rest']}"

    def terminate(self) -> None:
        """Ask it to shut down."""
        self.process.send_signal(signal.SIGTERM)

    def client(self) -> httpx.Client:
        """A REST client."""
        return httpx.Client(base_url=self.url, timeout=SECS, trust_env=False)

    def async_client(self) -> httpx.AsyncClient:
        """An asynchronous REST client."""
        return httpx.AsyncClient(base_url=self.url, timeout=SECS, trust_env=False)


@contextmanager
def control_plane(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[ControlPlane]:
    """A control plane with these arguments."""
    ports = {name: free_port() for name in ("grpc", "rest", "metrics")}
    addresses = [word for name, port in ports.items() for word in (f"--{name}", f"127.0.0.1:{port}")]
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", *addresses, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=without_settings() | dict(environment or {})
    )
    assert process.stdout is not None
    try:
        assert b"serves" in process.stdout.readline()
        yield ControlPlane(process, ports)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def roomy_control_plane(folder: Path) -> Iterator[ControlPlane]:
    """A control plane that takes as many tasks as a test has, and keeps tokens; all its files are in this folder."""
    config = folder / "taskyard.json"
    store = {"synchronous": "normal"}
    config.write_text(json.dumps({"scheduler": LIMITS, "daemon": {"maxConcurrent": ROOM}, "store": store}))
    with control_plane("--config", str(config), "--store", f"sqlite:///{folder}/yard.db") as plane:
        yield plane
