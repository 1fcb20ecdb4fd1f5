"""The services of the whole server: every RPC of the protos, health, reflection and channelz.

The tests start `taskyard up`, which registers all services.
"""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import taskyard.v1
from taskyard.v1 import store_pb2
from taskyard.v1.store_pb2_grpc import StoreServiceStub
from taskyard_server.services.admin import AdminService
from taskyard_server.services.agents import AgentService
from taskyard_server.services.artifacts import ArtifactService
from taskyard_server.services.batches import BatchService
from taskyard_server.services.children import ChildService
from taskyard_server.services.events import EventService
from taskyard_server.services.health import HealthService
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.inputs import InputService
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
from taskyard_server.services.store import StoreService
from taskyard_server.services.targets import TargetService
from taskyard_server.services.tasks import TaskService
from taskyard_server.services.tokens import TokenService
from tests.cases import every_case
from tests.environment import is_kept, without_settings
from tests.ports import free_port

SERVICES = [
    service
    for module in iter_modules(taskyard.v1.__path__, "taskyard.v1.")
    if module.name.endswith("_pb2")
    for service in import_module(module.name).DESCRIPTOR.services_by_name.values()
]
STORE = "taskyard.v1.StoreService"
"""It is served at the admin socket alone."""
REMOTE = [service for service in SERVICES if service.full_name != STORE]
METHODS = [method for service in SERVICES for method in service.methods]
SERVICERS = {
    servicer.__mro__[1].__name__: servicer
    for servicer in (
        AdminService,
        AgentService,
        ArtifactService,
        BatchService,
        HealthService,
        InputService,
        StepService,
        ChildService,
        ParkService,
        EventService,
        LeaseService,
        LimitService,
        NamespaceService,
        OperationService,
        OutputService,
        RuntimeHostService,
        ScheduleService,
        SignInService,
        StatsService,
        StoreService,
        TargetService,
        TaskService,
        TokenService,
    )
}


@pytest.fixture(scope="module")
def channel():
    """A channel to a control plane started by the command of users."""
    grpc_address, metrics_address = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway"]
    command += ["--grpc", grpc_address, "--metrics", metrics_address]
    server = subprocess.Popen(command, env=without_settings())
    try:
        with grpc.insecure_channel(grpc_address) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
            yield channel
    finally:
        server.terminate()
        server.wait(timeout=30)


@every_case("method", METHODS, ids=lambda method: f"{method.containing_service.name}.{method.name}")
def test_every_rpc_of_the_protos_is_implemented(method):
    servicer = SERVICERS[f"{method.containing_service.name}Servicer"]
    assert method.name in vars(servicer)


def test_the_server_and_each_service_are_healthy(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", *(service.full_name for service in REMOTE)):
        response = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert response.status == health_pb2.HealthCheckResponse.SERVING, service


def test_reflection_lists_every_service_and_returns_its_file(channel):
    requests = [reflection_pb2.ServerReflectionRequest(list_services="")]
    requests += [reflection_pb2.ServerReflectionRequest(file_containing_symbol=service.full_name) for service in REMOTE]
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    listed, *files = list(stub.ServerReflectionInfo(iter(requests)))
    names = {service.name for service in listed.list_services_response.service}
    assert {service.full_name for service in REMOTE} < names
    assert STORE not in names
    assert "grpc.health.v1.Health" in names
    for service, response in zip(REMOTE, files, strict=True):
        file = FileDescriptorProto.FromString(response.file_descriptor_response.file_descriptor_proto[0])
        assert service.name in [service_proto.name for service_proto in file.service]


def test_the_store_service_is_not_reachable_from_the_network(channel):
    with pytest.raises(grpc.RpcError) as refused:
        StoreServiceStub(channel).CheckStore(store_pb2.CheckStoreRequest())
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_channelz_shows_the_server(channel):
    """With a store there is that of the admin socket, too."""
    servers = channelz_pb2_grpc.ChannelzStub(channel).GetServers(channelz_pb2.GetServersRequest(start_server_id=0))
    assert len(servers.server) == (2 if is_kept() else 1)
