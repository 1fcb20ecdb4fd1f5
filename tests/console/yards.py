"""What a console is shown: a control plane with its gateway, and what happens in one namespace of it, by REST."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx

from tests.environment import without_settings
from tests.ports import free_port

SECS = 20.0
ROOM = 1_000_000
PART_BYTES = 1 << 20
SETTINGS = {
    "scheduler": {
        **dict.fromkeys(("maxQueueSize", "maxPerAgent", "maxInflight", "maxPerAgentInflight"), ROOM),
        "defaultDeadlineSec": 3600,
        # Hosts of tests say nothing between their calls.
        "heartbeatTimeoutSecs": 3600,
    },
    "daemon": {"maxConcurrent": ROOM},
    "store": {"synchronous": "normal"},
}


@dataclass
class Plane:
    """`taskyard up` in a process of its own; it can be killed and started again on the same ports and store."""

    folder: Path
    token: str | None = None
    settings: Mapping[str, Any] = field(default_factory=lambda: SETTINGS)
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in ("grpc", "rest", "metrics")})
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where the gateway serves."""
        return f"http://127.0.0.1:{self.ports['rest']}"

    def start(self) -> None:
        """Start it, and return once it serves."""
        config = self.folder / "taskyard.json"
        self.write(self.settings)
        addresses = [word for name, port in self.ports.items() for word in (f"--{name}", f"127.0.0.1:{port}")]
        store = f"sqlite:///{self.folder}/yard.db"
        environment = without_settings() | ({"TASKYARD_ADMIN_TOKEN": self.token} if self.token else {})
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "taskyard_server.cli.main",
                "up",
                *addresses,
                *("--config", config, "--store", store),
            ],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "log").open("ab"),
            env=environment,
        )
        assert self.process.stdout is not None
        assert b"serves" in self.process.stdout.readline(), (self.folder / "log").read_text()

    def write(self, settings: Mapping[str, Any]) -> None:
        """Write the file of settings, which holds from the next start or reload on."""
        (self.folder / "taskyard.json").write_text(json.dumps(settings))

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it, and return once it has ended. Its gateway ends with it."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(SECS)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def http(self, namespace: str, token: str | None = None) -> httpx.Client:
        """A REST client in a namespace, as the admin if no token is given."""
        headers = {"taskyard-namespace": namespace}
        if token or self.token:
            headers["authorization"] = f"Bearer {token or self.token}"
        # No TLS here, so nothing to verify: to load the authorities takes longer than most calls.
        return httpx.Client(base_url=self.url, headers=headers, timeout=SECS, trust_env=False, verify=False)


@contextmanager
def plane(folder: Path, token: str | None = None, **more: Any) -> Iterator[Plane]:
    """A control plane that serves. With a token it lets in nobody without one."""
    served = Plane(folder, token, {**SETTINGS, **more})
    served.start()
    try:
        yield served
    finally:
        served.stop()


@dataclass(frozen=True)
class Yard:
    """A namespace of a control plane, and those who work in it."""

    plane: Plane
    namespace: str
    client: httpx.Client

    def call(self, verb: str, path: str, **body: Any) -> dict[str, Any]:
        """The answer to a call, which must succeed."""
        sent = {"json": body} if verb in ("POST", "PUT", "PATCH") else {"params": body}
        answer = self.client.request(verb, path, **sent)
        assert answer.is_success, f"{verb} {path}: {answer.status_code} {answer.text}"
        found: dict[str, Any] = answer.json()
        return found

    def submit(self, action: str = "crawl", **fields: Any) -> str:
        """Submit a task; its id."""
        return str(self.call("POST", "/tasks", **{"agentId": "ann", "action": action, **fields})["taskId"])

    def submit_many(self, number: int, **fields: Any) -> list[str]:
        """Submit as many tasks of one kind; their ids."""
        ids: list[str] = []
        for begin in range(0, number, 50):
            tasks = [{"action": "crawl", **fields} for _ in range(min(50, number - begin))]
            answer = self.call("POST", "/tasks/batch", agentId="ann", tasks=tasks)
            ids += [each["taskId"] for each in answer["tasks"]]
        return ids

    def put(self, path: str, data: bytes, media_type: str, **query: int) -> dict[str, Any]:
        """Put an artifact at this path, in parts; the reference to it."""
        digest = sha256(data).hexdigest()
        for offset in range(0, len(data), PART_BYTES):
            sent = {**query, "offset": offset, **({"sha256": digest} if offset + PART_BYTES >= len(data) else {})}
            part = data[offset : offset + PART_BYTES]
            answer = self.client.put(path, params=sent, content=part, headers={"content-type": media_type})
            assert answer.is_success, answer.text
        return {"$artifact": {"name": path.rpartition("/")[2], "sizeBytes": len(data), "sha256": digest}}

    def task(self, task_id: str) -> dict[str, Any]:
        """A task as it stands."""
        return self.call("GET", f"/tasks/{task_id}")

    def tasks(self, **filters: Any) -> list[dict[str, Any]]:
        """The tasks of the first page of a list."""
        listed: list[dict[str, Any]] = self.call("GET", "/tasks", **filters)["tasks"]
        return listed

    def host(self, name: str = "host-1", **fields: Any) -> str:
        """Register a host; its name."""
        self.call("POST", "/api/runtime-hosts/register", host_id=name, **fields)
        return name

    def claim(self, host: str = "host-1", lease_secs: int = 600) -> "Lease":
        """Let a host claim a task, which must be there."""
        answer = self.call("POST", f"/api/runtime-hosts/{host}/tasks/claim", lease_secs=lease_secs)
        assert answer["claimed"], answer
        return Lease(self, host, answer["task_id"], answer["fencing_token"])

    def run(self, host: str = "host-1") -> "Lease":
        """Let a host claim a task and start it."""
        lease = self.claim(host)
        lease.report("start")
        return lease


@dataclass(frozen=True)
class Lease:
    """A task in the hands of a host."""

    yard: Yard
    host: str
    task_id: str
    fencing_token: int

    def report(self, what: str, **fields: Any) -> None:
        """Report `start`, `progress`, `complete`, `fail` or `release`."""
        path = f"/api/runtime-hosts/{self.host}/tasks/{self.task_id}/{what}"
        self.yard.call("POST", path, fencing_token=self.fencing_token, **fields)

    def say(self, number: int, *chunks: Mapping[str, Any]) -> None:
        """Say chunks, of which the first has this number within the lease."""
        path = f"/api/runtime-hosts/{self.host}/tasks/{self.task_id}/output"
        self.yard.call("POST", path, fencing_token=self.fencing_token, number=number, chunks=chunks)

    def put(self, name: str, data: bytes, media_type: str) -> dict[str, Any]:
        """Put an artifact; the reference to it."""
        path = f"/api/runtime-hosts/{self.host}/tasks/{self.task_id}/artifacts/{name}"
        return self.yard.put(path, data, media_type, fencing_token=self.fencing_token)
