"""Judges a call: the grants of its principal against what its method requires. What is not granted is denied."""

from __future__ import annotations

from typing import Any, Final

from taskyard_server.core.errors import PermissionDenied
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.names import Names

from .grants import Access, CallRequirement, Grant, Principal, Role

MAX_REMEMBERED: Final = 256
"""Judgements that are remembered for one principal; a role in every namespace could be asked for any number of them."""
NO_NAMES: Final = Names()
NO_GRANTS: Final[tuple[Grant, ...]] = ()


def judge(principal: Principal, requirement: CallRequirement, namespace: str) -> Access:
    """The access of a principal in a namespace. Raises `PermissionDenied`."""
    judged = principal.judged
    access = judged.get((requirement, namespace))
    if access is None:
        access = _judge(principal, requirement, namespace)
        if len(judged) == MAX_REMEMBERED:
            judged.clear()
        judged[requirement, namespace] = access
    return access


def unjudged(principal: Principal) -> Access:
    """No access yet: the request must say first in which namespace it is made."""
    return Access(
        principal=principal, role=principal.strongest_role, agents=NO_NAMES, payloads=NO_NAMES, hosts=NO_GRANTS
    )


def named_namespace(requirement: CallRequirement, request: Any, otherwise: str) -> str:
    """The namespace that a request names where its method says. A map that does not have it means the other one."""
    *way, last = requirement.namespace_field.split(".")
    found = request
    for part in way:
        found = getattr(found, part)
    return found.get(last, "") or otherwise if way else getattr(found, last)


def check_names(access: Access, requirement: CallRequirement, request: Any) -> None:
    """Refuse a request in the name of an agent or a host that the grants do not cover: `PermissionDenied`."""
    # An empty name is nobody's; what it lacks is said by the checks of the request, which all refuse it.
    if requirement.agent_field and access.agents is not None and (name := getattr(request, requirement.agent_field)):
        check_agent(access, name)
    if requirement.host_field and access.hosts is not None and (name := getattr(request, requirement.host_field)):
        check_host(access, name)


def check_agent(access: Access, agent_id: str) -> None:
    """Refuse to act as an agent that the grants do not cover: `PermissionDenied`."""
    if access.agents is not None and agent_id not in access.agents:
        raise PermissionDenied(f"the role agent is needed for the agent {agent_id!r}")


def check_host(access: Access, host_id: str) -> None:
    """Refuse to act as a host that the grants do not cover: `PermissionDenied`."""
    if not access.may_be_host(host_id):
        raise PermissionDenied(f"the role host is needed for the host {host_id!r}")


def check_offer(access: Access, host_id: str, profile: HostProfile) -> None:
    """Refuse a host that would take tasks beyond what the grants cover for it: `PermissionDenied`."""
    if access.hosts is None:
        return
    covering = [grant for grant in access.hosts if host_id in grant.hosts]
    if any(_covers(grant, profile) for grant in covering):
        return
    may = " or ".join(
        f"the projects {_listed(grant.projects)} and the actions {_listed(grant.actions)}" for grant in covering
    )
    raise PermissionDenied(f"the host {host_id!r} may take tasks of {may or 'nothing'} only; let it name them")


def _covers(grant: Grant, profile: HostProfile) -> bool:
    if not grant.projects.is_every and (profile.project is None or profile.project not in grant.projects):
        return False
    return grant.actions.is_every or (
        profile.actions is not None and all(action in grant.actions for action in profile.actions)
    )


def _listed(allowed: Names) -> str:
    return ", ".join(allowed.patterns) or "(none)"


def _judge(principal: Principal, requirement: CallRequirement, namespace: str) -> Access:
    if principal.is_admin:
        return Access(principal=principal, role=Role.ADMIN)
    grants = [grant for grant in principal.grants if namespace in grant.namespaces]
    if requirement.any_principal:
        role = max((grant.role for grant in principal.grants), default=Role.AGENT)
        return Access(principal=principal, role=role, agents=NO_NAMES, payloads=NO_NAMES, hosts=())
    if requirement.roles != {Role.ADMIN} and any(grant.role is Role.OPERATOR for grant in grants):
        return Access(principal=principal, role=Role.OPERATOR)
    grants = [grant for grant in grants if grant.role in requirement.roles]
    if not grants:
        where = "" if requirement.roles == {Role.ADMIN} else f" in the namespace {namespace!r}"
        raise PermissionDenied(f"the role {requirement.missing} is needed{where}")
    views = [grant for grant in grants if grant.role is Role.VIEWER]
    own = NO_NAMES
    for grant in grants:
        if grant.role is Role.AGENT:
            own |= grant.agents
    everyone = bool(views) or own.is_every
    return Access(
        principal=principal,
        role=max(grant.role for grant in grants),
        agents=None if everyone else own,
        payloads=None if any(view.payloads for view in views) or own.is_every else own,
        hosts=tuple(grant for grant in grants if grant.role is Role.HOST),
    )
