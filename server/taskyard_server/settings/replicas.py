"""The settings of one replica among several that share a store (docs/operate/security.md, Gateways and replicas)."""

import re
import socket
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from .setting_types import MAX_PORT, HomePath, Section

REPLICA_NAME: Final = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,253}")
"""The form of NAME in `spiffe://taskyard/gateway/NAME`."""
ADDRESS: Final = r"^([^:/\[\]\s]+|\[[0-9A-Fa-f:.]+\]):\d{1,5}$"


def _check_name(name: str) -> str:
    if not REPLICA_NAME.fullmatch(name):
        raise PydanticCustomError("name", "must be 1 to 253 letters, digits, dots, dashes or underscores")
    return name


def _check_port(address: str) -> str:
    if not 1 <= int(address.rpartition(":")[2]) <= MAX_PORT:
        raise PydanticCustomError("port", f"the port must be from 1 to {MAX_PORT}")
    return address


ReplicaName = Annotated[str, AfterValidator(_check_name)]
AnyAddress = Annotated[str, Field(pattern=ADDRESS), AfterValidator(_check_port)]
"""HOST:PORT, where HOST may be an IPv6 address in brackets."""


class ReplicaSettings(Section):
    """This server among others that share its store. All of them have the same settings of who may call."""

    name: ReplicaName = Field(
        default_factory=socket.gethostname,
        description="Its name, of its own among the replicas; by default that of the host.",
        json_schema_extra={"default": "HOSTNAME", "type": "string"},
    )
    advertise: AnyAddress | None = Field(
        default=None,
        description="Where the gateways of other replicas reach this one. With it the gateway serves `grpc` and "
        "`rest`, and carries calls to the replica that owns their namespace.",
        json_schema_extra={"type": "HOST:PORT"},
    )
    listen: AnyAddress | None = Field(
        default=None,
        description="Where it listens for the gateways of other replicas; by default at `advertise`.",
        json_schema_extra={"type": "HOST:PORT"},
    )
    cert: HomePath | None = Field(
        default=None,
        description="The certificate that it shows to other replicas, as server and as client, and its chain, as PEM. "
        "Its one URI is `spiffe://taskyard/gateway/NAME`.",
    )
    key: HomePath | None = Field(default=None, description="Its private key, as PEM.")
    ca: HomePath | None = Field(
        default=None, description="The authorities of the certificates of replicas, as PEM, and of nothing else."
    )

    @property
    def listens_on(self) -> str | None:
        """Where it listens for the gateways of other replicas, if it does."""
        return None if self.advertise is None else self.listen or self.advertise
