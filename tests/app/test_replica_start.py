"""A server with `replicas.advertise`: what it needs, and who listens where."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.certificates import Authority
from tests.environment import without_settings
from tests.gateway.control_plane import ControlPlane, control_plane
from tests.gateway.gateways import SECS
from tests.gateway.yards import gateway_leaf
from tests.ports import free_port


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def replicas(authority: Authority, tmp_path: Path) -> dict[str, object]:
    """The section of the settings."""
    cert, key = gateway_leaf(authority, "a").write(tmp_path, "a")
    return {
        "name": "a",
        "advertise": f"127.0.0.1:{free_port()}",
        "cert": str(cert),
        "key": str(key),
        "ca": str(authority.write(tmp_path)),
    }


@pytest.fixture
def plane(replicas: dict[str, object], tmp_path: Path) -> Iterator[ControlPlane]:
    config = tmp_path / "taskyard.json"
    config.write_text(json.dumps({"replicas": replicas}))
    with control_plane("--config", str(config), "--store", "memory://") as plane:
        yield plane


def refusal(folder: Path, settings: dict[str, object], *arguments: str) -> str:
    """What a start says that is refused."""
    config = folder / "taskyard.json"
    config.write_text(json.dumps(settings))
    ports = [f"--{name}=127.0.0.1:{free_port()}" for name in ("grpc", "rest", "metrics")]
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--config", config, "--store=memory://"]
    ended = subprocess.run(
        [*command, *ports, *arguments], capture_output=True, text=True, env=without_settings(), timeout=SECS
    )
    assert ended.returncode == 1
    return ended.stderr.strip().splitlines()[-1]


def test_both_ports_take_rest_and_grpc(plane: ControlPlane) -> None:
    for port in (plane.ports["grpc"], plane.ports["rest"]):
        answer = httpx.post(f"http://127.0.0.1:{port}/tasks", json={"agentId": "a", "action": "b"}, trust_env=False)
        assert answer.status_code == 202
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            request = task_pb2.GetTaskRequest(task_id=answer.json()["taskId"])
            assert task_pb2_grpc.TaskServiceStub(channel).GetTask(request, timeout=SECS).agent_id == "a"


def test_a_gateway_is_served_at_the_advertised_address(
    plane: ControlPlane, replicas: dict[str, object], authority: Authority
) -> None:
    assert plane.ports
    leaf = gateway_leaf(authority, "b")
    credentials = grpc.ssl_channel_credentials(authority.cert, leaf.key, leaf.cert)
    with grpc.secure_channel(str(replicas["advertise"]), credentials) as channel:
        answer = task_pb2_grpc.TaskServiceStub(channel).ListTasks(task_pb2.ListTasksRequest(), timeout=SECS)
        assert list(answer.tasks) == []


@pytest.mark.parametrize("name", ["cert", "key", "ca"])
def test_a_file_that_is_missing_is_named(tmp_path: Path, replicas: dict[str, object], name: str) -> None:
    without = {key: value for key, value in replicas.items() if key != name}
    problem = f"taskyard: replicas.{name}: is missing; replicas.advertise needs cert, key and ca"
    assert refusal(tmp_path, {"replicas": without}) == problem
    gone = tmp_path / "gone.pem"
    problem = f"taskyard: replicas.{name}: {gone}: no such file or directory"
    assert refusal(tmp_path, {"replicas": replicas | {name: str(gone)}}) == problem


def test_it_needs_the_gateway(tmp_path: Path, replicas: dict[str, object]) -> None:
    assert "replicas.advertise: needs the gateway" in refusal(tmp_path, {"replicas": replicas}, "--no-gateway")


def test_an_address_that_is_not_its_own_is_named(tmp_path: Path, replicas: dict[str, object]) -> None:
    said = refusal(tmp_path, {"replicas": replicas | {"advertise": "192.0.2.1:7004"}})
    assert said == "taskyard: cannot listen on 192.0.2.1:7004: the port is taken or the address is not ours"


def test_it_may_listen_elsewhere_than_others_reach_it(tmp_path: Path, replicas: dict[str, object]) -> None:
    config = tmp_path / "taskyard.json"
    own = f"127.0.0.1:{free_port()}"
    config.write_text(json.dumps({"replicas": replicas | {"advertise": "192.0.2.1:7004", "listen": own}}))
    with control_plane("--config", str(config), "--store", "memory://") as plane, plane.client() as http:
        assert http.get("/tasks").status_code == 200


def test_an_address_of_grpc_that_is_taken_is_named(plane: ControlPlane, tmp_path: Path) -> None:
    settings = json.loads((tmp_path / "taskyard.json").read_text())
    settings["replicas"]["advertise"] = f"127.0.0.1:{free_port()}"
    taken = f"127.0.0.1:{plane.ports['grpc']}"
    assert refusal(tmp_path, settings, f"--grpc={taken}") == f"taskyard: the gRPC address {taken} is taken"
