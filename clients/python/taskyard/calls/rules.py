"""The calls about limits of concurrency keys and weights of agents: `client.limits` and `client.agents`."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator

from taskyard.connection.servers import Servers
from taskyard.errors import NotFound
from taskyard.records.limits import KeyUsage, Limit
from taskyard.records.weights import AgentWeight
from taskyard.v1 import agent_pb2, limit_pb2
from taskyard.v1.agent_pb2_grpc import AgentServiceStub
from taskyard.v1.limit_pb2_grpc import LimitServiceStub
from taskyard.values.task_fields import check_number, shown

from .calls import Calls


class Limits:
    """The limits of concurrency keys in the client's namespace.

    Every method may also raise the errors that `Client` lists for all of its methods. Changes need the role `operator`.

    Args:
        calls: The calls of the client.
        servers: The servers of the client.
    """

    def __init__(self, calls: Calls, servers: Servers) -> None:
        self._calls = calls
        self._stub = LimitServiceStub(servers.unary)

    async def list(self) -> builtins.list[Limit]:
        """List the limits in force.

        Returns:
            The limits, by pattern.
        """
        answer = await self._calls.sure(self._stub.ListLimits, limit_pb2.ListLimitsRequest(page_size=1))
        return [Limit.from_message(limit) for limit in answer.limits]

    def usage(self, *, page_size: int | None = None) -> AsyncGenerator[KeyUsage, None]:
        """List the keys that have tasks in flight or waiting, by name, one page after the other.

        Args:
            page_size: Keys per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the keys.
        """
        request = limit_pb2.ListLimitsRequest(page_size=page_size)
        return self._calls.listed(self._stub.ListLimits, request, "keys", KeyUsage.from_message)

    async def put(
        self,
        pattern: str,
        *,
        max_inflight: int | None = None,
        per_second: float | None = None,
        burst: int | None = None,
    ) -> Limit:
        """Set the limit of a pattern, at once. It holds over that of the configuration until it is deleted.

        Tasks in flight stay, even above a lowered limit.

        Args:
            pattern: A key, or the beginning of keys with a `*` at its end, such as `site:*`.
            max_inflight: The most tasks of a key in flight. Default any number.
            per_second: The most hand-outs of a key a second. Default any rate.
            burst: How many hand-outs may come at once after a pause. Default `per_second`, but at least 1.

        Returns:
            The limit as it holds now.

        Raises:
            BadRequest: The pattern is malformed, or a limit is out of its bounds.
            TypeError: A limit is no number.
            ValueError: A limit has a value that the API cannot express.
        """
        check_number("max_inflight", max_inflight)
        check_number("burst", burst)
        if per_second is not None and (isinstance(per_second, bool) or not isinstance(per_second, int | float)):
            raise TypeError(f"per_second: is a number, not {shown(per_second)}")
        request = limit_pb2.PutLimitRequest(
            pattern=pattern, max_inflight=max_inflight, per_second=per_second, burst=burst
        )
        return Limit.from_message((await self._calls.sure(self._stub.PutLimit, request)).limit)

    async def delete(self, pattern: str) -> Limit | None:
        """Delete the limit that was set for a pattern.

        Args:
            pattern: The pattern.

        Returns:
            The limit of the configuration, which holds now, None if there is none.

        Raises:
            NotFound: None was set for it.
        """
        request = limit_pb2.DeleteLimitRequest(pattern=pattern)

        async def attempt(is_repeat: bool) -> Limit | None:
            try:
                answer = await self._calls.single(self._stub.DeleteLimit, request)
            except NotFound:
                # An earlier try may have deleted it, and its answer was lost.
                if not is_repeat:
                    raise
                return next((limit for limit in await self.list() if limit.pattern == pattern), None)
            return Limit.from_message(answer.limit) if answer.HasField("limit") else None

        return (await self._calls.attempted(attempt))[0]


class Agents:
    """The weights of agents in the client's namespace.

    Every method may also raise the errors that `Client` lists for all of its methods. Changes need the role `operator`.

    Args:
        calls: The calls of the client.
        servers: The servers of the client.
    """

    def __init__(self, calls: Calls, servers: Servers) -> None:
        self._calls = calls
        self._stub = AgentServiceStub(servers.unary)

    async def list(self) -> builtins.list[AgentWeight]:
        """List the weights in force.

        Returns:
            The weights, by pattern.
        """
        answer = await self._calls.sure(self._stub.ListAgentWeights, agent_pb2.ListAgentWeightsRequest())
        return [AgentWeight.from_message(weight) for weight in answer.weights]

    async def put(self, pattern: str, weight: int) -> AgentWeight:
        """Set the weight of the agents that match a pattern, at once.

        It holds over that of the configuration until it is deleted.

        Args:
            pattern: An agent, or the beginning of names with a `*` at its end, such as `team-a/*`.
            weight: The weight, 1 to 1,000.

        Returns:
            The weight as it holds now.

        Raises:
            BadRequest: The pattern is malformed, or the weight is out of its bounds.
            TypeError: The weight is no whole number.
            ValueError: The weight has a value that the API cannot express.
        """
        check_number("weight", weight)
        request = agent_pb2.PutAgentWeightRequest(pattern=pattern, weight=weight)
        return AgentWeight.from_message((await self._calls.sure(self._stub.PutAgentWeight, request)).weight)

    async def delete(self, pattern: str) -> AgentWeight | None:
        """Delete the weight that was set for a pattern.

        Args:
            pattern: The pattern.

        Returns:
            The weight of the configuration, which holds now, None if there is none.

        Raises:
            NotFound: None was set for it.
        """
        request = agent_pb2.DeleteAgentWeightRequest(pattern=pattern)

        async def attempt(is_repeat: bool) -> AgentWeight | None:
            try:
                answer = await self._calls.single(self._stub.DeleteAgentWeight, request)
            except NotFound:
                # An earlier try may have deleted it, and its answer was lost.
                if not is_repeat:
                    raise
                return next((weight for weight in await self.list() if weight.pattern == pattern), None)
            return AgentWeight.from_message(answer.weight) if answer.HasField("weight") else None

        return (await self._calls.attempted(attempt))[0]
