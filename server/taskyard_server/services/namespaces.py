"""NamespaceService: namespaces are shown, limited and deleted (docs/rules.md, Namespaces)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import namespace_pb2 as pb
from taskyard.v1.namespace_pb2_grpc import NamespaceServiceServicer
from taskyard_server.access.authorization import judge
from taskyard_server.access.grants import Principal, Role
from taskyard_server.access.requirements import requirement_of
from taskyard_server.conversion.namespaces import all_limits, changed_limits, limits_message, own_limits
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.errors import BadRequest, PermissionDenied
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.views import NamespaceTotals, NamespaceView
from taskyard_server.interceptors.callers import check_namespace, current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

TO_SEE_ONE: Final = requirement_of("/taskyard.v1.NamespaceService/GetNamespace")


class NamespaceService(NamespaceServiceServicer):
    """Serves `taskyard.v1.NamespaceService`."""

    def __init__(self, engine: Engine) -> None:
        self._namespaces = engine.namespaces

    async def ListNamespaces(  # noqa: N802
        self, request: pb.ListNamespacesRequest, context: Context
    ) -> pb.ListNamespacesResponse:
        del context
        call = current_call()
        principal = call.access.principal
        listing = call.listing("namespaces")
        after, limit = listing.start_name(request.page_token), page_size(request.page_size)
        found = await self._namespaces.list_namespaces(
            after, limit + 1, is_visible=lambda name: _role_in(principal, name) is not None
        )
        views = found[:limit]
        return pb.ListNamespacesResponse(
            namespaces=[_message_of(view, _role_in(principal, view.name)) for view in views],
            next_page_token=listing.token(views[-1].name) if len(found) > limit else None,
        )

    async def CreateNamespace(  # noqa: N802
        self, request: pb.CreateNamespaceRequest, context: Context
    ) -> pb.CreateNamespaceResponse:
        del context
        view = await self._namespaces.create(_name_in(request), own_limits(request.limits))
        return pb.CreateNamespaceResponse(namespace=_shown(view))

    async def GetNamespace(self, request: pb.GetNamespaceRequest, context: Context) -> pb.GetNamespaceResponse:  # noqa: N802
        del context
        return pb.GetNamespaceResponse(namespace=_shown(await self._namespaces.get(_name_in(request))))

    async def UpdateNamespace(  # noqa: N802
        self, request: pb.UpdateNamespaceRequest, context: Context
    ) -> pb.UpdateNamespaceResponse:
        del context
        view = await self._namespaces.update(_name_in(request), changed_limits(request))
        return pb.UpdateNamespaceResponse(namespace=_shown(view))

    async def DeleteNamespace(  # noqa: N802
        self, request: pb.DeleteNamespaceRequest, context: Context
    ) -> pb.DeleteNamespaceResponse:
        del context
        await self._namespaces.delete(_name_in(request), request.force)
        return pb.DeleteNamespaceResponse(deleted=True)


def _name_in(request: Any) -> str:
    name: str = request.namespace
    if not name:
        raise BadRequest("namespace: is required")
    check_namespace(name, "namespace")
    return name


def _role_in(principal: Principal, name: str) -> Role | None:
    """The role by which a principal may see a namespace; None if it may not."""
    try:
        return judge(principal, TO_SEE_ONE, name).role
    except PermissionDenied:
        return None


def _shown(view: NamespaceView) -> pb.Namespace:
    return _message_of(view, current_call().access.role)


def _message_of(view: NamespaceView, role: Role | None) -> pb.Namespace:
    message = pb.Namespace(name=view.name)
    if view.ownership is not None:
        message.term = view.ownership.term
        if view.ownership.owner is not None:
            message.owner = view.ownership.owner
    served = view.served
    if served is not None:
        if served.created_at is not None:
            message.created_at.CopyFrom(timestamp(served.created_at))
        # What others do in it is nothing for agents and hosts.
        if role is not None and role >= Role.VIEWER:
            message.totals.CopyFrom(_totals(served.totals))
        message.limits.CopyFrom(limits_message(served.own_limits))
        message.effective_limits.CopyFrom(limits_message(all_limits(served.limits)))
    return message


def _totals(totals: NamespaceTotals) -> pb.NamespaceTotals:
    return pb.NamespaceTotals(**totals._asdict())
