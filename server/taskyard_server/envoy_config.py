"""Writes the configuration of Envoy: gateway/envoy.yaml with what differs from one control plane to the next.

gateway/README.md explains the file.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple


class GatewayError(Exception):
    """The gateway cannot run; the text is one line for the operator."""


class Address(NamedTuple):
    """An IP address and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def yaml(self) -> str:
        """The address as envoy.yaml writes it."""
        host = json.dumps(self.host) if ":" in self.host else self.host
        return f"socket_address: {{address: {host}, port_value: {self.port}}}"


class Pipe(NamedTuple):
    """A unix socket."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"

    @property
    def yaml(self) -> str:
        """The address as envoy.yaml writes it."""
        return f"pipe: {{path: {json.dumps(self.path)}}}"


REST_IN_FILE: Final = Address("127.0.0.1", 9867)
GRPC_IN_FILE: Final = Address("127.0.0.1", 50051)
PAGES_IN_FILE: Final = '&pages {exact: ""}'


@dataclass(frozen=True, slots=True)
class EnvoyConfig:
    """What one Envoy is to serve: REST on `rest`, in front of the gRPC server on `server`, for pages of `origins`."""

    rest: Address
    server: Address | Pipe
    origins: Sequence[str] = ()

    def write(self, config: Path, template: Path, admin: Path) -> None:
        """Write the configuration, with an admin endpoint that only this user can reach. Raises `GatewayError`.

        The text is edited, since Envoy appends lists of a second configuration: that cannot replace a listener's
        address.
        """
        text = template.read_text()
        pages = {"safe_regex": {"regex": "|".join(map(_origin_pattern, self.origins))}} if self.origins else _NOBODY
        for name, in_file, ours in (
            (str(REST_IN_FILE), REST_IN_FILE.yaml, self.rest.yaml),
            (str(GRPC_IN_FILE), GRPC_IN_FILE.yaml, self.server.yaml),
            ("the pages that may call", PAGES_IN_FILE, f"&pages {json.dumps(pages)}"),
        ):
            if text.count(in_file) != 1:
                raise GatewayError(f"{template} does not name {name} exactly once")
            text = text.replace(in_file, ours)
        admin.unlink(missing_ok=True)  # Envoy leaves its socket behind
        text += f"\nadmin: {{address: {{pipe: {{path: {json.dumps(str(admin))}, mode: 384}}}}}}\n"  # 384 is 0600
        config.write_text(text)


_NOBODY: Final = {"exact": ""}


def _origin_pattern(origin: str) -> str:
    """The regular expression for an origin of the settings."""
    if origin == "*":
        return ".*"
    pattern = re.escape(origin).replace(r"://\*\.", r"://([a-z0-9_-]+\.)+")
    return re.sub(r":\\\*$", "(:[0-9]+)?", pattern)
