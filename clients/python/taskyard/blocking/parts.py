"""The parts of a blocking client: how its calls are made of those of `Client`, and what stands in its attributes."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from taskyard.calls.namespaces import Namespaces
from taskyard.calls.operations import OperationHandle, Operations
from taskyard.calls.rules import Agents, Limits
from taskyard.calls.schedules import Schedules

if TYPE_CHECKING:
    from taskyard.client import Client
    from taskyard.records.operations import Operation
    from taskyard.sync import SyncClient

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")


class _Blocking(Protocol[C]):
    """The blocking form of an object: that object, which lives on the loop, and how calls are passed to the loop."""

    _client: C

    def _run(self, call: Coroutine[Any, Any, T]) -> T: ...

    def _iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]: ...


def blocking(
    method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Blocking[C], P], T]:
    """Turn a coroutine method into a blocking one.

    Args:
        method: The method.

    Returns:
        A method of the blocking form of its object.
    """

    @functools.wraps(method)
    def call(self: _Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._client, *args, **kwargs))

    return call


def iterating(
    method: Callable[Concatenate[C, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate[_Blocking[C], P], Iterator[T]]:
    """Turn a method that returns an asynchronous iterator into one that returns a blocking iterator.

    Args:
        method: The method.

    Returns:
        A method of the blocking form of its object.
    """

    @functools.wraps(method)
    def call(self: _Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self._iterate(method(self._client, *args, **kwargs))

    return call


def beginning(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, OperationHandle]],
) -> Callable[Concatenate[SyncClient, P], SyncOperationHandle]:
    """Turn a method that begins an operation into a blocking one.

    Args:
        method: The method.

    Returns:
        A method of the blocking client.
    """

    @functools.wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> SyncOperationHandle:
        return SyncOperationHandle(self, self._run(method(self._client, *args, **kwargs)))

    return call


class SyncSchedules:
    """The schedules of the client's namespace. Its methods are those of `Schedules`, blocking.

    Args:
        client: The blocking client.
        schedules: The schedules of its `Client`.
    """

    def __init__(self, client: SyncClient, schedules: Schedules) -> None:
        self._client = schedules
        self._run = client._run
        self._iterate = client._iterate

    create = blocking(Schedules.create)
    put = blocking(Schedules.put)
    get = blocking(Schedules.get)
    list = iterating(Schedules.list)
    update = blocking(Schedules.update)
    delete = blocking(Schedules.delete)
    pause = blocking(Schedules.pause)
    resume = blocking(Schedules.resume)
    trigger = blocking(Schedules.trigger)
    preview = blocking(Schedules.preview)
    get_trigger = blocking(Schedules.get_trigger)
    triggers = iterating(Schedules.triggers)


class SyncNamespaces:
    """The namespaces of the server. Its methods are those of `Namespaces`, blocking.

    Args:
        client: The blocking client.
        namespaces: The namespaces of its `Client`.
    """

    def __init__(self, client: SyncClient, namespaces: Namespaces) -> None:
        self._client = namespaces
        self._run = client._run
        self._iterate = client._iterate

    list = iterating(Namespaces.list)
    create = blocking(Namespaces.create)
    get = blocking(Namespaces.get)
    update = blocking(Namespaces.update)
    delete = blocking(Namespaces.delete)


class SyncLimits:
    """The limits of concurrency keys in the client's namespace. Its methods are those of `Limits`, blocking.

    Args:
        client: The blocking client.
        limits: The limits of its `Client`.
    """

    def __init__(self, client: SyncClient, limits: Limits) -> None:
        self._client = limits
        self._run = client._run
        self._iterate = client._iterate

    list = blocking(Limits.list)
    usage = iterating(Limits.usage)
    put = blocking(Limits.put)
    delete = blocking(Limits.delete)


class SyncAgents:
    """The weights of agents in the client's namespace. Its methods are those of `Agents`, blocking.

    Args:
        client: The blocking client.
        agents: The weights of its `Client`.
    """

    def __init__(self, client: SyncClient, agents: Agents) -> None:
        self._client = agents
        self._run = client._run
        self._iterate = client._iterate

    list = blocking(Agents.list)
    put = blocking(Agents.put)
    delete = blocking(Agents.delete)


class SyncOperations:
    """The operations of the client's namespace. Its methods are those of `Operations`, blocking.

    Args:
        client: The blocking client.
        operations: The operations of its `Client`.
    """

    def __init__(self, client: SyncClient, operations: Operations) -> None:
        self._client = operations
        self._caller = client
        self._run = client._run
        self._iterate = client._iterate

    list = iterating(Operations.list)
    get = blocking(Operations.get)
    wait = blocking(Operations.wait)
    progress = iterating(Operations.progress)
    cancel = blocking(Operations.cancel)

    def handle(self, operation_id: str) -> SyncOperationHandle:
        """Pick up an operation that was begun before, as `Operations.handle` does.

        Args:
            operation_id: The operation.

        Returns:
            Its handle.
        """
        return SyncOperationHandle(self._caller, self._client.handle(operation_id))


class SyncOperationHandle:
    """An operation on many tasks. Its methods are those of `OperationHandle`, blocking.

    Attributes:
        id: The operation's id.
        begun: The operation as it was when its beginning was answered. None for one that is picked up.

    Args:
        client: The blocking client.
        handle: The handle that lives on the client's loop.
    """

    def __init__(self, client: SyncClient, handle: OperationHandle) -> None:
        self.id = handle.id
        self.begun: Operation | None = handle.begun
        self._client = handle
        self._run = client._run
        self._iterate = client._iterate

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    status = blocking(OperationHandle.status)
    wait = blocking(OperationHandle.wait)
    progress = iterating(OperationHandle.progress)
    cancel = blocking(OperationHandle.cancel)
