"""The plugins written in Go take the protos without options: messages, services, grpc-gateway and its OpenAPI."""

import json
import re
from pathlib import Path

import pytest

from tests.proto import protoc

pytestmark = pytest.mark.gate("Go, and protoc")

PLUGINS = protoc.ROOT / "clients/go/bin"
PACKAGE = "github.com/taskyard/taskyard/clients/go/v1"
FILES = {
    "go": f"{PACKAGE}/stem.pb.go",
    "go-grpc": f"{PACKAGE}/stem_grpc.pb.go",
    "grpc-gateway": f"{PACKAGE}/stem.pb.gw.go",
    "openapiv2": "taskyard/v1/stem.swagger.json",
}
NOT_MADE = {
    f"{PACKAGE}/{name}"
    for name in (
        "store.pb.gw.go",
        *("access.pb.gw.go", "access_grpc.pb.go"),
        *("sample.pb.gw.go", "sample_grpc.pb.go"),
        *("wait.pb.gw.go", "wait_grpc.pb.go"),
    )
}
"""What the plugins do not make: the calls of the admin socket have no paths, roles, samples and waits have no calls."""
METHODS = {"delete", "get", "patch", "post", "put"}


def skip_without(language: str) -> None:
    plugin = f"protoc-gen-{language}"
    if not (PLUGINS / plugin).exists():
        pytest.skip(f"needs {plugin}, which `make -C clients/go setup` installs where Go is")


def routes(description: Path) -> set[tuple[str, str]]:
    """The methods and paths of an OpenAPI description, names of parameters aside."""
    paths = json.loads(description.read_text())["paths"]
    return {(method, re.sub(r"{\w+}", "{}", path)) for path in paths for method in METHODS & paths[path].keys()}


@pytest.mark.parametrize("language", FILES)
def test_a_plugin_makes_code_of_every_proto_without_options(language: str, tmp_path: Path) -> None:
    skip_without(language)
    assert protoc.generate(language, tmp_path, PLUGINS) == ""
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert made == {FILES[language].replace("stem", stem) for stem in protoc.STEMS} - NOT_MADE


def test_grpc_gateway_finds_the_routes_of_our_own_description(tmp_path: Path) -> None:
    skip_without("openapiv2")
    protoc.generate("openapiv2", tmp_path, PLUGINS)
    found = set[tuple[str, str]]().union(*map(routes, tmp_path.rglob("*.swagger.json")))
    assert found == routes(protoc.ROOT / "gateway/openapi.json")
