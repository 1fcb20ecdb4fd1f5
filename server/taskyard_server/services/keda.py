"""ExternalScaler: what KEDA asks to scale a pool of hosts (docs/operate/keda.md).

KEDA cannot send metadata with its calls. So the namespace is one of the texts that its user gives to the trigger, which
come with each call; who may see it is judged by that (`access/requirements.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import grpc

from taskyard_server.core.errors import BadRequest, NotFound, Unavailable
from taskyard_server.core.figures.demand import Demand, Pool
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import check_namespace, current_call
from taskyard_server.keda import externalscaler_pb2 as pb
from taskyard_server.keda.externalscaler_pb2_grpc import ExternalScalerServicer

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Enter: TypeAlias = Callable[[str, str], Awaitable[None] | None]

SERVICE: Final = "externalscaler.ExternalScaler"
GET_DEMAND: Final = "/taskyard.v1.StatsService/GetDemand"
POLL_SECS: Final = 1.0
"""How often the demand of a pool is looked at for a stream."""
REPEAT_SECS: Final = 15.0
"""After this a stream is told again what has not changed, so that a broken connection is noticed."""
MAX_TASKS_PER_HOST: Final = 1_000_000.0
SHUTDOWN: Final = "the server shuts down"


class ScalerTrigger(NamedTuple):
    """The content of a trigger of KEDA."""

    namespace: str
    pool: Pool
    tasks_per_host: float

    @property
    def metric(self) -> str:
        """The name of the metric. Those of Kubernetes are in lower case."""
        return f"taskyard-{self.pool.name.lower().replace('.', '-')}"


class KedaScaler(ExternalScalerServicer):
    """Serves `externalscaler.ExternalScaler`. `pools` answers the pools of hosts in force.

    Where replicas share the store, `enter` brings a namespace here, or raises `NotOwner`; else there is none.
    """

    def __init__(
        self,
        engine: Engine,
        pools: Callable[[], Sequence[Pool]],
        enter: Enter | None = None,
        poll_secs: float = POLL_SECS,
    ) -> None:
        self._engine = engine
        self._pools = pools
        self._enter = enter
        self._poll_secs = poll_secs
        self._closing = asyncio.Event()

    def close(self) -> None:
        """End the streams, and refuse new ones."""
        self._closing.set()

    async def IsActive(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:  # noqa: N802
        del context
        return pb.IsActiveResponse(result=_count(await self._demand(self._trigger(request))) > 0)

    async def StreamIsActive(self, request: pb.ScaledObjectRef, context: Context) -> None:  # type: ignore[override]  # noqa: N802
        trigger, told, quiet_secs = self._trigger(request), None, 0.0
        while not self._closing.is_set():
            is_active = _count(await self._demand(trigger)) > 0
            if is_active is not told or quiet_secs >= REPEAT_SECS:
                told, quiet_secs = is_active, 0.0
                await context.write(pb.IsActiveResponse(result=is_active))
            quiet_secs += self._poll_secs
            try:
                await asyncio.wait_for(self._closing.wait(), self._poll_secs)
            except TimeoutError:
                # The pool may be another one by now, or none.
                trigger = self._trigger(request)
        raise Unavailable(SHUTDOWN)

    async def GetMetricSpec(  # noqa: N802
        self, request: pb.ScaledObjectRef, context: Context
    ) -> pb.GetMetricSpecResponse:
        del context
        return _spec(self._trigger(request))

    async def StreamMetricSpec(self, request: pb.ScaledObjectRef, context: Context) -> None:  # type: ignore[override]  # noqa: N802
        # It follows from the metadata alone, so that it never changes while the stream is open.
        await context.write(_spec(self._trigger(request)))
        await self._closing.wait()
        raise Unavailable(SHUTDOWN)

    async def GetMetrics(self, request: pb.GetMetricsRequest, context: Context) -> pb.GetMetricsResponse:  # noqa: N802
        del context
        trigger = self._trigger(request.scaledObjectRef)
        if request.metricName not in ("", trigger.metric):
            raise BadRequest(f"metricName: the metric of this pool is {trigger.metric}")
        count = _count(await self._demand(trigger))
        value = pb.MetricValue(metricName=trigger.metric, metricValue=count, metricValueFloat=count)
        return pb.GetMetricsResponse(metricValues=[value])

    async def _demand(self, trigger: ScalerTrigger) -> Demand:
        entering = None if self._enter is None else self._enter(GET_DEMAND, trigger.namespace)
        if entering is not None:
            await entering
        (demand,) = await self._engine.admin.demand(trigger.namespace, [trigger.pool])
        return demand

    def _trigger(self, request: pb.ScaledObjectRef) -> ScalerTrigger:
        """The content of a trigger's metadata. Raises `BadRequest`, and `NotFound` for a pool that is none."""
        metadata = request.scalerMetadata
        namespace = metadata.get("namespace", "") or current_call().namespace
        check_namespace(namespace, "namespace")
        name = metadata.get("pool", "")
        if not name:
            raise BadRequest("pool: is required in the metadata of the trigger, see scheduler.pools")
        pool = next((pool for pool in self._pools() if pool.name == name), None)
        if pool is None:
            raise NotFound(f"pool: {name!r} is not among scheduler.pools")
        return ScalerTrigger(namespace, pool, _tasks_per_host(metadata.get("tasksPerHost", "1")))


def _count(demand: Demand) -> int:
    """Work counts also while it is done: who scales by it never ends a host under its work."""
    return demand.runnable + demand.inflight


def _spec(trigger: ScalerTrigger) -> pb.GetMetricSpecResponse:
    target = trigger.tasks_per_host
    spec = pb.MetricSpec(metricName=trigger.metric, targetSize=max(1, round(target)), targetSizeFloat=target)
    return pb.GetMetricSpecResponse(metricSpecs=[spec])


def _tasks_per_host(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= MAX_TASKS_PER_HOST:
        raise BadRequest("tasksPerHost: must be a number above 0, up to 1,000,000")
    return value
