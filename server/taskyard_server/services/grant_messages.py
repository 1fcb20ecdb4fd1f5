"""Grants as callers send them and as they are shown. What is wrong with one is refused by the name of its field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from taskyard.v1 import access_pb2
from taskyard.v1 import token_pb2 as pb
from taskyard_server.access.grants import Grant, Role
from taskyard_server.core.errors import BadRequest
from taskyard_server.core.names import EVERY, EVERY_NAME, Names, names
from taskyard_server.interceptors.callers import NAMESPACE

MAX_GRANTS: Final = 32
MAX_PATTERNS: Final = 64
MAX_PATTERN_CHARS: Final = 256
ROLES: Final = ", ".join(role.word for role in Role)
OWN_LISTS: Final = {
    "agents": Role.AGENT,
    "hosts": Role.HOST,
    "projects": Role.HOST,
    "actions": Role.HOST,
}
"""The lists that belong to one role."""
REQUIRED: Final = {"agents", "hosts"}
"""Those that must be given, since they say in whose name the bearer may speak."""


def grants_of(messages: Sequence[pb.Grant]) -> tuple[Grant, ...]:
    """The grants of a request. Raises `BadRequest`."""
    if not messages:
        raise BadRequest("grants: is required")
    if len(messages) > MAX_GRANTS:
        raise BadRequest(f"grants: must have at most {MAX_GRANTS} entries")
    return tuple([_grant_of(message, f"grants[{index}].") for index, message in enumerate(messages)])


def messages_of(grants: Iterable[Grant]) -> list[pb.Grant]:
    """Grants as they are shown, each with the lists that belong to its role."""
    return [_message_of(grant) for grant in grants]


def _grant_of(message: pb.Grant, prefix: str) -> Grant:
    if message.role == access_pb2.unspecified:
        raise BadRequest(f"{prefix}role: is required, one of {ROLES}")
    if message.role not in list(map(int, Role)):
        raise BadRequest(f"{prefix}role: must be among {ROLES}")
    role = Role(message.role)
    lists = {field: _own_list(message, field, role, prefix) for field in OWN_LISTS}
    if message.payloads and role is not Role.VIEWER:
        raise BadRequest(f"{prefix}payloads: is for the role viewer alone")
    return Grant(role=role, namespaces=_namespaces(message, role, prefix), payloads=message.payloads, **lists)


def _namespaces(message: pb.Grant, role: Role, prefix: str) -> Names:
    field = f"{prefix}namespaces"
    if role is Role.ADMIN:
        if list(message.namespaces) not in ([], [EVERY]):
            raise BadRequest(f"{field}: none for the role admin, which holds in all of them")
        return EVERY_NAME
    if not message.namespaces:
        raise BadRequest(f"{field}: is required, `*` for all")
    for pattern in message.namespaces:
        # What ends with `*` must begin as a namespace does.
        name = pattern.removesuffix(EVERY)
        if (name or pattern != EVERY) and not NAMESPACE.fullmatch(name):
            raise BadRequest(
                f"{field}: each must be 1 to 63 letters, digits, dots, dashes or underscores, or end with *"
            )
    return _names(message.namespaces, field)


def _own_list(message: pb.Grant, field: str, role: Role, prefix: str) -> Names:
    patterns: Sequence[str] = getattr(message, field)
    if role is not OWN_LISTS[field]:
        if patterns:
            raise BadRequest(f"{prefix}{field}: is for the role {OWN_LISTS[field].word} alone")
        return EVERY_NAME
    if not patterns:
        if field in REQUIRED:
            raise BadRequest(f"{prefix}{field}: is required for the role {role.word}, `*` for all")
        return EVERY_NAME
    return _names(patterns, f"{prefix}{field}")


def _names(patterns: Sequence[str], field: str) -> Names:
    if len(patterns) > MAX_PATTERNS:
        raise BadRequest(f"{field}: must have at most {MAX_PATTERNS} entries")
    for pattern in patterns:
        if not pattern or pattern.isspace():
            raise BadRequest(f"{field}: must not hold a blank name")
        if len(pattern) > MAX_PATTERN_CHARS:
            raise BadRequest(f"{field}: each must be at most {MAX_PATTERN_CHARS} characters")
        if EVERY in pattern[:-1]:
            raise BadRequest(f"{field}: may have * only at the end of a name")
        if not pattern.isprintable():
            raise BadRequest(f"{field}: must not hold control characters")
    return names(patterns)


def _message_of(grant: Grant) -> pb.Grant:
    message = pb.Grant(role=pb_role(grant.role), payloads=grant.payloads)
    if grant.role is not Role.ADMIN:
        message.namespaces.extend(grant.namespaces.patterns)
    for field, role in OWN_LISTS.items():
        if grant.role is role:
            getattr(message, field).extend(getattr(grant, field).patterns)
    return message


def pb_role(role: Role) -> access_pb2.Role.ValueType:
    """A role as messages name it."""
    return access_pb2.Role.Value(role.word)
