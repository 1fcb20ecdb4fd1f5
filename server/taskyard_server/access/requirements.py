"""The requirement of each RPC: the option in its proto, or the table here for services that are not ours."""

from __future__ import annotations

from typing import Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions

from taskyard.v1 import access_pb2

from .grants import CallRequirement, Role

OTHERS: Final = {
    # Load balancers ask it, and it tells nothing but whether the server serves.
    "grpc.health.v1.Health": CallRequirement(anyone=True),
    "grpc.reflection.v1alpha.ServerReflection": CallRequirement(any_principal=True),
    # It tells the addresses and the traffic of all callers.
    "grpc.channelz.v1.Channelz": CallRequirement(roles=frozenset({Role.ADMIN})),
    # KEDA's contract, whose calls say in a map in which namespace they are made.
    "externalscaler.ExternalScaler": CallRequirement(
        roles=frozenset({Role.VIEWER}), namespace_field="scalerMetadata.namespace"
    ),
}
"""The requirements of services without the option."""
OTHERS_METHODS: Final = {
    "externalscaler.ExternalScaler/GetMetrics": CallRequirement(
        roles=frozenset({Role.VIEWER}), namespace_field="scaledObjectRef.scalerMetadata.namespace"
    ),
}
"""Requirements of single methods of them, whose requests are of another form."""


class NoRequirement(Exception):
    """A method that says nothing of its callers. It is never served."""


def requirement_of(method: str) -> CallRequirement:
    """The requirement of a method, which is named as in a call: `/SERVICE/METHOD`. Raises `NoRequirement`."""
    service, _, name = method.removeprefix("/").partition("/")
    if service in OTHERS:
        return OTHERS_METHODS.get(f"{service}/{name}", OTHERS[service])
    try:
        found = descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except KeyError:
        raise NoRequirement(method) from None
    return requirement_in(found)


def requirement_in(method: MethodDescriptor) -> CallRequirement:
    """The requirement in the option of a method. Raises `NoRequirement`."""
    options = method.GetOptions()
    option = options.Extensions[access_pb2.requires]
    roles = frozenset(map(Role, option.roles))
    anyone = option.anyone or option.by_link
    if not roles and not option.any_principal and not anyone:
        raise NoRequirement(method.full_name)
    return CallRequirement(
        roles=roles,
        any_principal=option.any_principal,
        anyone=anyone,
        by_link=option.by_link,
        agent_field=option.agent_field,
        host_field=option.host_field,
        namespace_field=option.namespace_field,
        changes=options.idempotency_level != MethodOptions.NO_SIDE_EFFECTS,
    )


def is_stream(method: str) -> bool:
    """True if a method that is named as in a call is a stream in either direction."""
    service, _, name = method.removeprefix("/").partition("/")
    try:
        found = descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except KeyError:
        return False
    return bool(found.client_streaming or found.server_streaming)
