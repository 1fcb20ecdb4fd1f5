"""The services of a server, made of its parts and added to what serves gRPC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from grpc_health.v1 import health
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server
from grpc_reflection.v1alpha import reflection

from taskyard.v1 import (
    admin_pb2_grpc,
    agent_pb2_grpc,
    artifact_pb2_grpc,
    batch_pb2_grpc,
    child_pb2_grpc,
    event_pb2_grpc,
    health_pb2_grpc,
    input_pb2_grpc,
    lease_pb2_grpc,
    limit_pb2_grpc,
    namespace_pb2_grpc,
    operation_pb2_grpc,
    output_pb2_grpc,
    park_pb2_grpc,
    runtime_host_pb2_grpc,
    schedule_pb2_grpc,
    sign_in_pb2_grpc,
    stats_pb2_grpc,
    step_pb2_grpc,
    target_pb2_grpc,
    task_pb2_grpc,
    token_pb2_grpc,
)
from taskyard_server.core.figures.demand import Pool
from taskyard_server.core.history import RetryPolicy
from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.calls import Door
from taskyard_server.keda.externalscaler_pb2_grpc import add_ExternalScalerServicer_to_server
from taskyard_server.services.admin import AdminService
from taskyard_server.services.agents import AgentService
from taskyard_server.services.artifacts import ArtifactService
from taskyard_server.services.batches import BatchService
from taskyard_server.services.children import ChildService
from taskyard_server.services.events import EventService
from taskyard_server.services.health import HealthService
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.inputs import InputService
from taskyard_server.services.keda import SERVICE as KEDA
from taskyard_server.services.keda import KedaScaler
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.limits import LimitService
from taskyard_server.services.namespaces import NamespaceService
from taskyard_server.services.operations import OperationService
from taskyard_server.services.output import OutputService
from taskyard_server.services.parks import ParkService
from taskyard_server.services.schedules import ScheduleService
from taskyard_server.services.sign_in import SignInService
from taskyard_server.services.stats import StatsService
from taskyard_server.services.steps import StepService
from taskyard_server.services.targets import TargetService
from taskyard_server.services.task_watches import TaskWatches
from taskyard_server.services.tasks import TaskService
from taskyard_server.services.tokens import TokenService
from taskyard_server.settings.config import Settings

from .listening import Servers
from .readiness import Readiness

SERVICES: Final = tuple(
    f"taskyard.v1.{name}Service"
    for name in (
        "Task",
        "Batch",
        "Stats",
        "Operation",
        "Output",
        "Artifact",
        "RuntimeHost",
        "Lease",
        "Input",
        "Step",
        "Child",
        "Park",
        "Event",
        "Target",
        "Limit",
        "Agent",
        "Schedule",
        "Namespace",
        "Admin",
        "Token",
        "Health",
        "SignIn",
    )
)
SCHEDULER_SERVICES: Final = SERVICES[:6]
CHANNELZ: Final = "grpc.channelz.v1.Channelz"


def served(settings: Settings) -> tuple[str, ...]:
    """The names of the services that a server with these settings has."""
    return SERVICES if settings.scheduler.enabled else SERVICES[len(SCHEDULER_SERVICES) :]


class ServiceSet:
    """The services of one server. Those that end calls of their own are closed with it."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        watches: TaskWatches,
        default_retry: Callable[[str], RetryPolicy | None],
        stats: StatsService,
        admin: AdminService,
        tokens: TokenService,
        readiness: Readiness,
        sign_in: SignInService,
        pools: Callable[[], Sequence[Pool]],
        door: Door | None,
        handed: Callable[[Task], Task] | None = None,
    ) -> None:
        scheduler = settings.scheduler
        most = scheduler.max_payload_bytes
        self.tasks: TaskService | None = None
        if scheduler.enabled:
            self.tasks = TaskService(engine, most, watches, default_retry)
            self._batches = BatchService(engine, scheduler.max_batch_size, most, default_retry)
            self._stats = stats
            self._operations = OperationService(engine, most)
            self._output = OutputService(engine)
            self._artifacts = ArtifactService(engine)
        self.hosts = RuntimeHostService(engine, most, handed)
        self._leases = LeaseService(engine, most, handed)
        self._inputs = InputService(engine)
        self._steps = StepService(engine, most)
        self._children = ChildService(engine, most, default_retry)
        self._parks = ParkService(engine)
        self._events = EventService(engine)
        self._targets = TargetService(engine)
        self._limits = LimitService(engine)
        self._agents = AgentService(engine)
        self._schedules = ScheduleService(engine, most, default_retry)
        self._namespaces = NamespaceService(engine)
        self._admin = admin
        self._tokens = tokens
        self._health, self._health_by_grpc = HealthService(lambda: readiness.obstacle), readiness.by_grpc
        self._sign_in = sign_in
        self._keda = KedaScaler(engine, pools, None if door is None else door.enter)
        scaler = [KEDA] if scheduler.enabled else []
        self._names = [*served(settings), *scaler, health.SERVICE_NAME, CHANNELZ, reflection.SERVICE_NAME]

    def add_to(self, servers: Servers) -> None:
        """Add all of them, and the tools of operators."""
        server: Any = servers
        # Generated servicers refuse what a subclass leaves out; mypy takes them for abstract.
        if self.tasks is not None:
            task_pb2_grpc.add_TaskServiceServicer_to_server(self.tasks, server)
            batch_pb2_grpc.add_BatchServiceServicer_to_server(self._batches, server)
            stats_pb2_grpc.add_StatsServiceServicer_to_server(self._stats, server)
            operation_pb2_grpc.add_OperationServiceServicer_to_server(self._operations, server)
            output_pb2_grpc.add_OutputServiceServicer_to_server(self._output, server)
            artifact_pb2_grpc.add_ArtifactServiceServicer_to_server(self._artifacts, server)
            add_ExternalScalerServicer_to_server(self._keda, server)
        runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(self.hosts, server)
        lease_pb2_grpc.add_LeaseServiceServicer_to_server(self._leases, server)
        input_pb2_grpc.add_InputServiceServicer_to_server(self._inputs, server)
        step_pb2_grpc.add_StepServiceServicer_to_server(self._steps, server)
        child_pb2_grpc.add_ChildServiceServicer_to_server(self._children, server)
        event_pb2_grpc.add_EventServiceServicer_to_server(self._events, server)
        park_pb2_grpc.add_ParkServiceServicer_to_server(self._parks, server)
        target_pb2_grpc.add_TargetServiceServicer_to_server(self._targets, server)
        limit_pb2_grpc.add_LimitServiceServicer_to_server(self._limits, server)
        agent_pb2_grpc.add_AgentServiceServicer_to_server(self._agents, server)
        schedule_pb2_grpc.add_ScheduleServiceServicer_to_server(self._schedules, server)
        namespace_pb2_grpc.add_NamespaceServiceServicer_to_server(self._namespaces, server)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self._admin, server)
        token_pb2_grpc.add_TokenServiceServicer_to_server(self._tokens, server)
        health_pb2_grpc.add_HealthServiceServicer_to_server(self._health, server)
        add_HealthServicer_to_server(self._health_by_grpc, server)
        sign_in_pb2_grpc.add_SignInServiceServicer_to_server(self._sign_in, server)
        servers.add_tools(self._names)

    def close(self) -> None:
        """End the calls that wait, and refuse new ones."""
        self.hosts.watches.close()
        self._keda.close()
        if self.tasks is not None:
            self.tasks.close()
