"""The first messages of a host's stream: what its Hello says, and the Welcome that answers it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard_server.access.authorization import check_host, check_offer
from taskyard_server.access.grants import Access
from taskyard_server.conversion import requests
from taskyard_server.conversion.report_requests import whole_token
from taskyard_server.conversion.responses import lease_message
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.limits import Limits
from taskyard_server.core.streams import HeldLease, Hello, Welcome
from taskyard_server.interceptors.calls import MAX_MESSAGE_BYTES

OUTPUT_BYTES: Final = 1 << 20
"""How many bytes of chunks a host may have sent that are not acknowledged."""


def read_hello(message: pb.Hello, access: Access, max_payload_bytes: int) -> Hello:
    """The content of a Hello. Raises `BadRequest`, and the refusal of a host that the caller may not be."""
    host_id = requests.host_id(message.host_id)
    check_host(access, host_id)
    instance = requests.name(message.instance, "instance")
    if instance is None:
        raise BadRequest("instance: is required")
    profile = requests.host_profile(message)
    check_offer(access, host_id, profile)
    return Hello(
        host_id,
        instance,
        profile=profile,
        display_name=requests.name(message.display_name, "display_name"),
        slots=message.slots if message.HasField("slots") else None,
        labels=requests.labels(message.labels, "labels"),
        held=tuple(held_leases(message)),
        lease_secs=message.lease_secs if message.HasField("lease_secs") else None,
        machine=requests.machine(message, max_payload_bytes),
    )


def welcome_message(
    welcome: Welcome, limits: Limits, counts_accepted: bool, takes_output: bool, max_payload_bytes: int
) -> pb.Welcome:
    """The answer to a Hello; `max_payload_bytes` is 0 where no artifacts are taken."""
    return pb.Welcome(
        session=f"ses_{secrets.token_hex(8)}",
        heartbeat_interval_ms=round(welcome.heartbeat_secs * 1000),
        lease_secs=round(welcome.offer.secs),
        kept=map(lease_message, welcome.kept),
        lost=held_messages(welcome.lost),
        reconnect_grace_ms=round(limits.reconnect_grace_secs * 1000),
        start_timeout_ms=round(limits.start_timeout_secs * 1000),
        max_message_bytes=MAX_MESSAGE_BYTES,
        counts_accepted=counts_accepted,
        output_bytes=OUTPUT_BYTES if takes_output else 0,
        max_payload_bytes=max_payload_bytes,
    )


def held_leases(message: pb.Hello | pb.Heartbeat) -> list[HeldLease]:
    """The leases that a host says it holds. Raises `BadRequest` for what is no token."""
    return [(lease.task_id, whole_token(lease.fencing_token, "leases.fencing_token")) for lease in message.leases]


def held_messages(leases: Sequence[HeldLease]) -> list[pb.HeldLease]:
    """Leases as a host names them."""
    return [pb.HeldLease(task_id=task_id, fencing_token=token) for task_id, token in leases]
