"""The calls about namespaces, as `client.namespaces` offers them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypedDict, TypeVar, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from taskyard.connection.credentials import NAMESPACE_KEY, Metadata
from taskyard.connection.servers import Servers
from taskyard.errors import NotFound
from taskyard.records.namespaces import Namespace
from taskyard.v1 import namespace_pb2 as pb
from taskyard.v1.namespace_pb2_grpc import NamespaceServiceStub

from .calls import Calls

T = TypeVar("T")


class LimitFields(TypedDict, total=False):
    """Limits that a namespace may have of its own, see `NamespaceLimits`. None stands for the server's."""

    max_queue_size: int | None
    max_per_agent: int | None
    max_inflight: int | None
    max_per_agent_inflight: int | None
    result_ttl_secs: float | None
    max_retained_tasks: int | None
    idempotency_secs: float | None
    default_deadline_secs: float | None
    lease_secs: float | None
    max_deliveries: int | None
    max_schedules: int | None
    max_concurrent: int | None
    max_queued_triggers: int | None


class Namespaces:
    """The namespaces of the server. A namespace needs no creation: what is added to it first makes it.

    Every method may also raise the errors that `Client` lists for all of its methods. What changes a namespace needs
    the role `admin`.

    Args:
        calls: The calls of the client.
        servers: The connections of the client.
    """

    def __init__(self, calls: Calls, servers: Servers) -> None:
        self._calls = calls
        self._stub = NamespaceServiceStub(servers.unary)

    def list(self, *, page_size: int | None = None) -> AsyncGenerator[Namespace, None]:
        """List the namespaces in which the caller has a role, by name, one page after the other.

        Args:
            page_size: Namespaces per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the namespaces.
        """
        request = pb.ListNamespacesRequest(page_size=page_size)
        return self._calls.listed(self._stub.ListNamespaces, request, "namespaces", Namespace.from_message)

    async def create(self, namespace: str, **limits: Unpack[LimitFields]) -> Namespace:
        """Create a namespace. One that is there and has just these limits of its own is answered as it is.

        Args:
            namespace: Its name.
            **limits: The limits that it has of its own. Default those of the server.

        Returns:
            The namespace.

        Raises:
            AlreadyExists: It is there, with other limits of its own.
            BadRequest: The name is malformed, or a limit is out of its bounds.
            TypeError: A limit has a type that the API cannot express, or is none.
            ValueError: A limit has a value that the API cannot express.
        """
        request = pb.CreateNamespaceRequest(namespace=namespace, limits=pb.NamespaceLimits(**_known(limits)))
        return Namespace.from_message(
            (await self._calls.sure(_at_owner(self._stub.CreateNamespace, namespace), request)).namespace
        )

    async def get(self, namespace: str) -> Namespace:
        """Get one namespace.

        Args:
            namespace: Its name.

        Returns:
            The namespace as it is now.

        Raises:
            NotFound: There is no such namespace.
        """
        request = pb.GetNamespaceRequest(namespace=namespace)
        return Namespace.from_message(
            (await self._calls.sure(_at_owner(self._stub.GetNamespace, namespace), request)).namespace
        )

    async def update(self, namespace: str, **limits: Unpack[LimitFields]) -> Namespace:
        """Change limits that a namespace has of its own, at once. None gives one back, so that the server's holds.

        Args:
            namespace: Its name.
            **limits: The new limits.

        Returns:
            The changed namespace.

        Raises:
            NotFound: There is no such namespace.
            BadRequest: A limit is out of its bounds.
            TypeError: A limit has a type that the API cannot express, or is none.
            ValueError: A limit has a value that the API cannot express.
        """
        request = pb.UpdateNamespaceRequest(
            namespace=namespace,
            limits=pb.NamespaceLimits(**_known(limits)),
            update_mask=FieldMask(paths=[f"limits.{name}" for name in limits]),
        )
        return Namespace.from_message(
            (await self._calls.sure(_at_owner(self._stub.UpdateNamespace, namespace), request)).namespace
        )

    async def delete(self, namespace: str, *, force: bool = False) -> None:
        """Delete a namespace with everything in it: tasks, history, schedules, webhooks that are due.

        Args:
            namespace: Its name.
            force: Whether it is deleted although it has live tasks, hosts that are online, or schedules. Default False.

        Raises:
            NotFound: There is no such namespace.
            Conflict: It is in use, and `force` is not set. The reason says what is in it.
        """
        request = pb.DeleteNamespaceRequest(namespace=namespace, force=force)

        async def attempt(is_repeat: bool) -> None:
            try:
                await self._calls.single(_at_owner(self._stub.DeleteNamespace, namespace), request)
            except NotFound:
                # An earlier try may have deleted it, and its answer was lost.
                if not is_repeat:
                    raise

        await self._calls.attempted(attempt)

    async def _shown(self, method: Callable[..., Awaitable[Any]], namespace: str, request: Any) -> Namespace:
        return Namespace.from_message((await self._calls.sure(_at_owner(method, namespace), request)).namespace)


def _at_owner(method: Callable[..., Awaitable[T]], namespace: str) -> Callable[..., Awaitable[T]]:
    """The same method, sent in the namespace that it is about: where replicas share the work its owner answers."""

    def call(request: Any, *, metadata: Metadata, timeout: float) -> Awaitable[T]:
        rest = [pair for pair in metadata if pair[0] != NAMESPACE_KEY]
        return method(request, metadata=(*rest, (NAMESPACE_KEY, namespace)), timeout=timeout)

    return call


def _known(limits: LimitFields) -> LimitFields:
    """Check the names of limits: protobuf would say of an unknown one what callers do not understand."""
    unknown = sorted(set(limits) - set(LimitFields.__annotations__))
    if unknown:
        raise TypeError(f"{unknown[0]}: is no limit that a namespace may have of its own")
    return limits
