"""A yard with authentication, as a user starts it, and principals of every role in it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx

from taskyard.v1 import token_pb2, token_pb2_grpc
from tests.gateway.control_plane import ControlPlane, control_plane

ADMIN_TOKEN = "the-admin-token-of-the-tests"
NAMESPACE = "mine"
OTHER_NAMESPACE = "theirs"
AGENT, OTHER_AGENT = "ann", "bob"
HOST, OTHER_HOST = "host-a", "host-b"

GRANTS: Mapping[str, dict[str, Any]] = {
    "agent": {"role": "agent", "namespaces": [NAMESPACE], "agents": [AGENT]},
    "host": {"role": "host", "namespaces": [NAMESPACE], "hosts": [HOST]},
    "viewer": {"role": "viewer", "namespaces": [NAMESPACE]},
    "operator": {"role": "operator", "namespaces": [NAMESPACE]},
}
"""A grant of each role but admin, whose token is that of the settings."""

Metadata = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Yard:
    """A yard that serves, and the secret of each role."""

    plane: ControlPlane
    secrets: Mapping[str, str]

    @property
    def address(self) -> str:
        """Where the server itself listens."""
        return f"127.0.0.1:{self.plane.ports['grpc']}"

    def headers(self, role: str, namespace: str = NAMESPACE) -> dict[str, str]:
        """What a caller of this role sends with every call; `nobody` has no credential."""
        bearer = {} if role == "nobody" else {"authorization": f"Bearer {self.secrets[role]}"}
        return {"taskyard-namespace": namespace, **bearer}

    def metadata(self, role: str, namespace: str = NAMESPACE) -> Metadata:
        """The same for gRPC."""
        return tuple(self.headers(role, namespace).items())

    def rest(self, role: str, namespace: str = NAMESPACE) -> httpx.Client:
        """A REST client of this role."""
        # No TLS here, so nothing to verify: to load the authorities takes longer than most calls.
        headers = self.headers(role, namespace)
        return httpx.Client(base_url=self.plane.url, timeout=20, trust_env=False, verify=False, headers=headers)


@contextmanager
def yard(folder: Path, settings: Mapping[str, Any] | None = None) -> Iterator[Yard]:
    """A yard that keeps its tasks in this folder, with a token for each role."""
    config = folder / "taskyard.json"
    config.write_text(json.dumps({"auth": {"adminToken": ADMIN_TOKEN}, **(settings or {})}))
    with control_plane("--config", str(config), "--store", f"sqlite:///{folder}/yard.db") as plane:
        made = Yard(plane, {"admin": ADMIN_TOKEN})
        secrets = {role: new_token(made, [grant], role) for role, grant in GRANTS.items()}
        yield Yard(plane, {"admin": ADMIN_TOKEN, **secrets})


def new_token(yard: Yard, grants: Sequence[Mapping[str, Any]], name: str = "a test") -> str:
    """The secret of a new token."""
    with grpc.insecure_channel(yard.address) as channel:
        request = token_pb2.CreateTokenRequest(name=name, grants=[token_pb2.Grant(**grant) for grant in grants])
        made = token_pb2_grpc.TokenServiceStub(channel).CreateToken(request, metadata=yard.metadata("admin"))
        return str(made.secret)
