"""AgentService: the weights of agents (docs/rules.md, Weights)."""

from __future__ import annotations

from typing import Any, TypeAlias

import grpc

from taskyard.v1 import agent_pb2 as pb
from taskyard.v1.agent_pb2_grpc import AgentServiceServicer
from taskyard_server.conversion.rules import pattern_in, weight_in, weight_message
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class AgentService(AgentServiceServicer):
    """Serves `taskyard.v1.AgentService`."""

    def __init__(self, engine: Engine) -> None:
        self._rules = engine.rules

    async def ListAgentWeights(  # noqa: N802
        self, request: pb.ListAgentWeightsRequest, context: Context
    ) -> pb.ListAgentWeightsResponse:
        del request, context
        found = await self._rules.list_weights(current_call().namespace)
        return pb.ListAgentWeightsResponse(weights=[weight_message(each) for each in found])

    async def PutAgentWeight(  # noqa: N802
        self, request: pb.PutAgentWeightRequest, context: Context
    ) -> pb.PutAgentWeightResponse:
        del context
        pattern, weight = pattern_in(request.pattern), weight_in(request.weight)
        put = await self._rules.put_weight(current_call().namespace, pattern, weight)
        return pb.PutAgentWeightResponse(weight=weight_message(put))

    async def DeleteAgentWeight(  # noqa: N802
        self, request: pb.DeleteAgentWeightRequest, context: Context
    ) -> pb.DeleteAgentWeightResponse:
        del context
        left = await self._rules.delete_weight(current_call().namespace, pattern_in(request.pattern))
        return pb.DeleteAgentWeightResponse(weight=None if left is None else weight_message(left))
