"""Roles, grants, the principals that have them, what a method requires, and what a call may touch."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from taskyard_server.core.names import EVERY_NAME, Names


class Role(IntEnum):
    """The role of a grant; the values are those of `taskyard.v1.Role`."""

    AGENT = 1
    HOST = 2
    VIEWER = 3
    OPERATOR = 4
    ADMIN = 5

    @property
    def word(self) -> str:
        """The role as users write it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A role in namespaces: of `agents` for an agent, of `hosts` with `projects` and `actions` for a host.

    An admin is one in every namespace. Other roles cover all names of their namespaces.
    """

    role: Role
    namespaces: Names = EVERY_NAME
    agents: Names = EVERY_NAME
    hosts: Names = EVERY_NAME
    projects: Names = EVERY_NAME
    actions: Names = EVERY_NAME
    payloads: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequirement:
    """Who may call a method: one of `roles` or a stronger one, any principal, or anyone; `by_link` if it has a link.

    `agent_field` and `host_field` name the fields of the request in whose name the call acts, `namespace_field` that
    with the namespace in which the roles are needed, if it is not that of the call: a field, or the way to a key of a
    map with dots between, which may be missing there. `changes` says whether the call may
    change anything.
    """

    roles: frozenset[Role] = frozenset()
    any_principal: bool = False
    anyone: bool = False
    by_link: bool = False
    agent_field: str = ""
    host_field: str = ""
    namespace_field: str = ""
    changes: bool = False

    @property
    def missing(self) -> str:
        """The roles as a refusal names them."""
        return " or ".join(role.word for role in sorted(self.roles))


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls: `name` as people know it, `credential` as the audit log and the limits name it, never a secret.

    `expires_at` is in seconds since the epoch. `judged` remembers what `judging.judge` found.
    """

    name: str
    credential: str
    grants: tuple[Grant, ...]
    expires_at: float | None = None
    judged: dict[tuple[CallRequirement, str], Access] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_admin(self) -> bool:
        """True if it may do everything."""
        return any(grant.role is Role.ADMIN for grant in self.grants)

    @property
    def strongest_role(self) -> Role:
        """Its strongest role in any namespace; limits go by it."""
        return max((grant.role for grant in self.grants), default=Role.AGENT)


LOCAL: Final = Principal("local", "local", (Grant(role=Role.ADMIN),))
"""Anyone who reaches a server without authentication, or its admin socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The access of one call.

    Attributes:
        role: The strongest role by which it was let in.
        agents: The agents in whose name it acts and whose tasks are there for it; None is all.
        payloads: The agents whose payloads it is shown; None is all.
        hosts: The grants of hosts in whose name it acts; None is all.
    """

    principal: Principal
    role: Role
    agents: Names | None = None
    payloads: Names | None = None
    hosts: tuple[Grant, ...] | None = None

    @property
    def scope(self) -> list[str] | None:
        """The agents whose tasks are there for it, as they stand in what is bound to them; None is all."""
        return None if self.agents is None else self.agents.disjoint().patterns

    def may_be_host(self, host_id: str) -> bool:
        """True if it may act as this host."""
        return self.hosts is None or any(host_id in grant.hosts for grant in self.hosts)


EVERYTHING: Final = Access(principal=LOCAL, role=Role.ADMIN)
"""The access of calls where authentication is off."""
