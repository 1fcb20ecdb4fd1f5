"""The surface of the server as a whole: what it serves, what comes later, and the services that come with gRPC.

Asked of `taskyard up` itself, since only there everything is wired together.
"""

import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.rpc import error_details_pb2, status_pb2
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import taskyard.v1
from tests.ports import free_port

SERVED = {
    "taskyard.v1.TaskService": {
        "SubmitTask",
        "SubmitTasks",
        "GetTask",
        "ListTasks",
        "CancelTask",
        "WaitTask",
        "WatchTasks",
    },
    "taskyard.v1.BatchService": {"SubmitBatch", "GetBatch", "CancelBatch"},
    "taskyard.v1.StatsService": {"GetStats", "ListSnapshots"},
    "taskyard.v1.RuntimeHostService": {
        "RegisterHost",
        "HeartbeatHost",
        "DeregisterHost",
        "DrainHost",
        "ListHosts",
        "WatchHosts",
        "Connect",
    },
    "taskyard.v1.LeaseService": {
        "ClaimTask",
        "ClaimTasks",
        "RenewLease",
        "StartTask",
        "ReportProgress",
        "CompleteTask",
        "FailTask",
        "ReleaseTask",
        "ListLeases",
    },
    "taskyard.v1.AdminService": {"GetConfig", "ReloadConfig", "DrainServer"},
}
"""What has behaviour. Everything else of the protos comes later; move it here when it comes, with tests of its own."""

SERVICES = [
    service
    for module in iter_modules(taskyard.v1.__path__, "taskyard.v1.")
    if module.name.endswith("_pb2")
    for service in import_module(module.name).DESCRIPTOR.services_by_name.values()
]
METHODS = [method for service in SERVICES for method in service.methods]
LATER = [method for method in METHODS if method.name not in SERVED.get(method.containing_service.full_name, ())]


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


def call(channel, method, metadata=None):
    """Call any method with an empty message; whatever it answers, all of it."""
    kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
    invoke = getattr(channel, kind)(f"/{method.containing_service.full_name}/{method.name}")
    answer = invoke(iter([b""]) if method.client_streaming else b"", timeout=10, metadata=metadata)
    return list(answer) if method.server_streaming else answer


def test_the_list_names_only_what_is_in_the_protos():
    known = {method.full_name for method in METHODS}
    assert {f"{service}.{name}" for service, names in SERVED.items() for name in names} <= known


@pytest.mark.parametrize("method", LATER, ids=lambda method: f"{method.containing_service.name}.{method.name}")
def test_an_rpc_that_comes_later_says_so_by_its_name(channel, method):
    with pytest.raises(grpc.RpcError) as raised:
        call(channel, method)
    error = raised.value
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
    assert error.details() == f"{method.name} is not supported yet"
    trailers = dict(error.trailing_metadata())
    info = error_details_pb2.ErrorInfo()
    status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    assert info.reason == "UNIMPLEMENTED"


def test_over_rest_an_rpc_that_comes_later_is_501(channel):
    with pytest.raises(grpc.RpcError) as raised:
        call(channel, LATER[0], metadata=(("x-taskyard-rest", "1"),))
    assert dict(raised.value.trailing_metadata())["x-http-status"] == "501"


def test_the_server_is_healthy_as_a_whole_and_by_service(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", *SERVED):
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
