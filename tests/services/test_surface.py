"""The surface of the server as a whole: every RPC of the protos, and the services that come with gRPC.

Asked of `taskyard up` itself, since only there everything is wired together.
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
from taskyard_server.services.admin import AdminService
from taskyard_server.services.batches import BatchService
from taskyard_server.services.hosts import RuntimeHostService
from taskyard_server.services.leases import LeaseService
from taskyard_server.services.schedules import ScheduleService
from taskyard_server.services.stats import StatsService
from taskyard_server.services.targets import TargetService
from taskyard_server.services.tasks import TaskService
from tests.ports import free_port

SERVICES = [
    service
    for module in iter_modules(taskyard.v1.__path__, "taskyard.v1.")
    if module.name.endswith("_pb2")
    for service in import_module(module.name).DESCRIPTOR.services_by_name.values()
]
METHODS = [method for service in SERVICES for method in service.methods]
SERVICERS = {
    servicer.__mro__[1].__name__: servicer
    for servicer in (
        AdminService,
        BatchService,
        LeaseService,
        RuntimeHostService,
        ScheduleService,
        StatsService,
        TargetService,
        TaskService,
    )
}


@pytest.fixture(scope="module")
def channel():
    """A channel to a control plane that was started as a user starts it."""
    grpc_at, metrics_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway"]
    server = subprocess.Popen([*command, "--grpc", grpc_at, "--metrics", metrics_at])
    try:
        with grpc.insecure_channel(grpc_at) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
            yield channel
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: f"{method.containing_service.name}.{method.name}")
def test_every_rpc_of_the_protos_has_behaviour(method):
    servicer = SERVICERS[f"{method.containing_service.name}Servicer"]
    assert method.name in vars(servicer)


def test_the_server_is_healthy_as_a_whole_and_by_service(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", *(service.full_name for service in SERVICES)):
        answer = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, service


def test_reflection_lists_every_service_and_knows_its_file(channel):
    asked = [reflection_pb2.ServerReflectionRequest(list_services="")]
    asked += [reflection_pb2.ServerReflectionRequest(file_containing_symbol=service.full_name) for service in SERVICES]
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    listed, *files = list(stub.ServerReflectionInfo(iter(asked)))
    names = {service.name for service in listed.list_services_response.service}
    assert {service.full_name for service in SERVICES} < names
    assert "grpc.health.v1.Health" in names
    for service, answer in zip(SERVICES, files, strict=True):
        file = FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])
        assert service.name in [described.name for described in file.service]


def test_channelz_shows_the_server(channel):
    servers = channelz_pb2_grpc.ChannelzStub(channel).GetServers(channelz_pb2.GetServersRequest(start_server_id=0))
    assert len(servers.server) == 1
