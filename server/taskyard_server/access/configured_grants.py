"""Grants as the configuration writes them, for JWTs and certificates."""

from __future__ import annotations

from collections.abc import Iterable

from taskyard_server.core.names import names
from taskyard_server.settings.security import GrantSettings

from .grants import Grant, Role


def grants_of(settings: Iterable[GrantSettings]) -> tuple[Grant, ...]:
    """The grants that these settings list, in their order."""
    return tuple(
        Grant(
            role=Role[each.role.upper()],
            namespaces=names(each.namespaces),
            agents=names(each.agents),
            hosts=names(each.hosts),
            projects=names(each.projects),
            actions=names(each.actions),
            payloads=each.payloads,
        )
        for each in settings
    )
