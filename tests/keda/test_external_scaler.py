"""KEDA asks what a pool has to do: by its own proto, over TLS, known by its client certificate.

See docs/operate/keda.md.
"""

from collections.abc import Iterator

import grpc
import pytest

from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc, task_pb2, task_pb2_grpc
from taskyard_server.access.requirements import NoRequirement, requirement_of
from taskyard_server.keda import externalscaler_pb2
from tests.cases import every_case
from tests.keda.conftest import HOST, Cluster

NAMESPACE = (("taskyard-namespace", "shop"),)
SCALER = externalscaler_pb2.DESCRIPTOR.services_by_name["ExternalScaler"]


@pytest.fixture
def channel(cluster: Cluster) -> Iterator[grpc.Channel]:
    """For the host and the agents of the pool."""
    leaf = cluster.authority.leaf(uris=[HOST])
    credentials = grpc.ssl_channel_credentials(cluster.authority.cert, leaf.key, leaf.cert)
    with grpc.secure_channel(cluster.address, credentials) as channel:
        yield channel


def scale(cluster: Cluster, **metadata: str) -> tuple[bool, float]:
    """True if the pool is active, and the value of its metric."""
    asked = {"pool": "crawlers", "namespace": "shop", **metadata}
    (value,) = cluster.keda("GetMetrics", **asked)["metricValues"]
    assert float(value["metricValue"]) == value["metricValueFloat"]
    return cluster.keda("IsActive", **asked)["result"], value["metricValueFloat"]


def test_a_pool_is_active_from_the_first_task_until_the_last_has_ended(cluster, channel):
    tasks, leases = task_pb2_grpc.TaskServiceStub(channel), lease_pb2_grpc.LeaseServiceStub(channel)
    hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
    assert scale(cluster) == (False, 0)
    for _ in range(2):
        tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="ann", action="crawl"), metadata=NAMESPACE)
    tasks.SubmitTask(task_pb2.SubmitTaskRequest(agent_id="ann", action="index"), metadata=NAMESPACE)
    assert scale(cluster) == (True, 2), "runnable"
    hosts.RegisterHost(
        runtime_host_pb2.RegisterHostRequest(host_id="host-1", actions=["crawl"], labels={"pool": "crawlers"}),
        metadata=NAMESPACE,
    )
    claim = lease_pb2.ClaimTaskRequest(host_id="host-1", lease_secs=600)
    claimed = [leases.ClaimTask(claim, metadata=NAMESPACE) for _ in range(2)]
    assert scale(cluster) == (True, 2), "in flight: nobody scales to zero under running work"
    for lease in claimed:
        assert scale(cluster)[0]
        done = lease_pb2.CompleteTaskRequest(host_id="host-1", task_id=lease.task_id, fencing_token=lease.fencing_token)
        leases.CompleteTask(done, metadata=NAMESPACE)
    assert scale(cluster) == (False, 0)


def test_the_spec_names_the_metric_and_how_many_tasks_a_host_is_to_have(cluster):
    spec = cluster.keda("GetMetricSpec", pool="crawlers", namespace="shop", tasksPerHost="2.5")
    assert spec == {"metricSpecs": [{"metricName": "taskyard-crawlers", "targetSize": "2", "targetSizeFloat": 2.5}]}
    (spec,) = cluster.keda("StreamMetricSpec", pool="All.Hosts", namespace="shop")["metricSpecs"]
    assert spec == {"metricName": "taskyard-all-hosts", "targetSize": "1", "targetSizeFloat": 1.0}


def test_the_stream_says_at_once_whether_the_pool_is_active(cluster):
    assert cluster.keda("StreamIsActive", pool="crawlers", namespace="shop") == {"result": scale(cluster)[0]}


@every_case(
    ("method", "metadata", "metric", "refusal"),
    [
        ("IsActive", {}, "", "INVALID_ARGUMENT: pool: is required in the metadata of the trigger"),
        ("IsActive", {"pool": "nobody"}, "", "NOT_FOUND: pool: 'nobody' is not among scheduler.pools"),
        ("StreamIsActive", {"pool": "nobody"}, "", "NOT_FOUND: pool: 'nobody' is not among scheduler.pools"),
        ("GetMetricSpec", {"pool": "crawlers", "tasksPerHost": "few"}, "", "INVALID_ARGUMENT: tasksPerHost: must be"),
        ("GetMetricSpec", {"pool": "crawlers", "tasksPerHost": "0"}, "", "INVALID_ARGUMENT: tasksPerHost: must be"),
        ("GetMetricSpec", {"pool": "crawlers", "tasksPerHost": "nan"}, "", "INVALID_ARGUMENT: tasksPerHost: must be"),
        ("GetMetrics", {"pool": "crawlers"}, "other", "INVALID_ARGUMENT: metricName: the metric of this pool is"),
    ],
)
def test_wrong_metadata_is_a_clear_error(cluster, method, metadata, metric, refusal):
    answer = cluster.keda(method, metric=metric, **{"namespace": "shop", **metadata})
    assert f"{answer['status']}: {answer['message']}".startswith(refusal)


@every_case("method", [method.name for method in SCALER.methods])
def test_the_namespace_of_the_metadata_decides_who_may_ask(cluster, method):
    (denied, default) = (cluster.keda(method, pool="crawlers", **more) for more in ({"namespace": "blog"}, {}))
    assert denied["status"] == default["status"] == "PERMISSION_DENIED"
    assert denied["message"] == "the role viewer is needed in the namespace 'blog'"
    assert default["message"] == "the role viewer is needed in the namespace 'default'"


@every_case("method", [method.name for method in SCALER.methods])
def test_a_certificate_without_the_role_is_let_in_nowhere(cluster, method):
    host, nobody = (cluster.authority.leaf(uris=[uri]) for uri in (HOST, "spiffe://taskyard/nobody"))
    assert cluster.keda(method, host, pool="crawlers", namespace="shop")["status"] == "PERMISSION_DENIED"
    assert cluster.keda(method, nobody, pool="crawlers", namespace="shop")["status"] == "UNAUTHENTICATED"
    assert "status" not in cluster.keda(method, pool="crawlers", namespace="shop")


def test_every_method_of_the_contract_says_who_may_call_it():
    for method in SCALER.methods:
        requirement = requirement_of(f"/{SCALER.full_name}/{method.name}")
        assert requirement.missing == "viewer"
        assert requirement.namespace_field.endswith("scalerMetadata.namespace")
    with pytest.raises(NoRequirement):
        requirement_of("/externalscaler.AnotherScaler/IsActive")


def test_the_pools_can_be_changed_while_the_server_runs(cluster):
    # The server of this module is asked by its admin; the file is as it was afterwards.
    before = cluster.config.read_text()
    cluster.config.write_text(before.replace('"All.Hosts"', '"everybody"'))
    try:
        cluster.reload()
        assert "result" in cluster.keda("IsActive", pool="everybody", namespace="shop")
        assert cluster.keda("IsActive", pool="All.Hosts", namespace="shop")["status"] == "NOT_FOUND"
    finally:
        cluster.config.write_text(before)
        cluster.reload()
