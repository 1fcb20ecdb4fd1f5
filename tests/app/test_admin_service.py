"""AdminService over a real channel: the settings and their sources, the reload, the drain, and replicas."""

import json
import time

import grpc
import pytest
from google.protobuf import json_format
from google.rpc import error_details_pb2, status_pb2

from taskyard.v1 import admin_pb2, admin_pb2_grpc
from taskyard_server.core.errors import NotFound
from taskyard_server.core.hosts import HostProfile
from taskyard_server.core.limits import Limits
from taskyard_server.core.task import Submission
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.views import ReplicaView
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.services.admin import AdminService
from taskyard_server.settings.live_config import LiveConfig
from tests.live import live

SECRET = "whsec_c2VjcmV0IG9mIHR3ZW50eS1mb3Vy"


class AdminServer:
    """An AdminService behind a channel. `drains` holds the grace period of each drain."""

    def __init__(self, file, flags, replicas=None):
        self.file = file
        self.replicas = replicas
        self.live = LiveConfig(file, flags)
        self.engine = Engine(Limits())
        self.live.apply = lambda settings: self.engine.admin.reconfigure(settings.limits())
        self.drains = []
        self.drain_end = time.time() + 300
        self.server = grpc.aio.server(interceptors=(CallInterceptor(),))

    async def open(self):
        service = AdminService(self.engine, self.live, self._drain, self.replicas)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(service, self.server)
        port = self.server.add_insecure_port("127.0.0.1:0")
        await self.server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        self.stub = admin_pb2_grpc.AdminServiceStub(self.channel)

    def _drain(self, grace_secs):
        self.drains.append(grace_secs)
        return self.drain_end

    def write(self, content):
        self.file.write_text(content if isinstance(content, str) else json.dumps(content))

    async def config(self):
        return await self.stub.GetConfig(admin_pb2.GetConfigRequest())

    async def reload(self):
        return await self.stub.ReloadConfig(admin_pb2.ReloadConfigRequest())

    async def drain(self, **request):
        return await self.stub.DrainServer(admin_pb2.DrainServerRequest(**request))

    async def close(self):
        await self.channel.close()
        await self.server.stop(None)
        await self.engine.admin.close()


@pytest.fixture
async def make_admin_server(tmp_path, monkeypatch):
    """Opens an `AdminServer` with this content of its file, None for no file, and these flags."""
    for name in ("TASKYARD_GRPC", "SHUTDOWN_GRACE_PERIOD_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    made = []

    async def make(content=None, *, replicas=None, **flags):
        file = tmp_path / "taskyard.json" if content is not None else None
        if file is not None:
            file.write_text(json.dumps(content))
        admin_server = AdminServer(file, flags, replicas)
        made.append(admin_server)
        await admin_server.open()
        return admin_server

    yield make
    for admin_server in made:
        await admin_server.close()


async def refusal_of(call):
    """The status, the code and the message of a refused call."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    trailers = dict(tuple(refused.value.trailing_metadata()))
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details[0].Unpack(info)
    return refused.value.code(), info.reason, refused.value.details()


# GetConfig


async def test_the_settings_in_force_are_shown_in_the_layout_of_the_file(make_admin_server):
    admin_server = await make_admin_server(
        {"scheduler": {"maxInflight": 7, "resultTTLSec": 1.5}}, executor="http://127.0.0.1:9222"
    )
    config = json_format.MessageToDict((await admin_server.config()).config)
    assert config["scheduler"] == {
        "enabled": True,
        "strategy": "fair-fifo",
        "maxQueueSize": 1000,
        "maxPerAgent": 100,
        "maxInflight": 7,
        "maxPerAgentInflight": 10,
        "resultTTLSec": 1.5,
        "workerCount": 4,
        "defaultDeadlineSec": 60,
        "maxBatchSize": 50,
        "watcherIntervalSec": 30,
        "heartbeatTimeoutSecs": 60,
        "leaseSecs": 60,
        "reconnectGraceSecs": 5,
        "startTimeoutSecs": 10,
        "maxDeliveries": 5,
        "maxRetainedTasks": 200_000,
        "maxOutputBytes": 8_388_608,
        "maxNamespaceOutputBytes": 10_737_418_240,
        "maxArtifactBytes": 1_073_741_824,
        "maxNamespaceArtifactBytes": 107_374_182_400,
        "maxPayloadBytes": 262_144,
        "retryPolicies": {},
        "forgetHostsSecs": 86_400,
        "maxAgentFigures": 10_000,
        "idempotencySecs": 0,
        "limits": {},
        "agents": {},
        "targets": {},
        "pools": {},
        "maxBlockedTargets": 10_000,
        "noHostNoticeSecs": 5,
    }
    assert (config["grpc"], config["rest"], config["metrics"]) == (
        "127.0.0.1:50051",
        "127.0.0.1:9867",
        "127.0.0.1:9464",
    )
    assert (config["executor"], config["shutdownGracePeriodSeconds"]) == ("http://127.0.0.1:9222/", 300)


async def test_the_answer_could_be_loaded_as_a_file(make_admin_server, tmp_path):
    admin_server = await make_admin_server({"scheduler": {"maxInflight": 7}, "tabs": {"t1": "http://127.0.0.1:9222"}})
    config = json_format.MessageToDict((await admin_server.config()).config)
    again = tmp_path / "again.json"
    again.write_text(json.dumps(config))
    assert LiveConfig(again, {}).settings == admin_server.live.settings


async def test_each_setting_shows_its_source(make_admin_server, monkeypatch):
    monkeypatch.setenv("TASKYARD_SCHEDULER__MAX_PER_AGENT", "5")
    admin_server = await make_admin_server({"scheduler": {"maxInflight": 7, "maxPerAgent": 6}}, rest="127.0.0.1:1")
    answer = await admin_server.config()
    named = {key: source for key, source in answer.sources.items() if source != "default"}
    assert named == {"scheduler.maxInflight": "file", "scheduler.maxPerAgent": "environment", "rest": "flag"}
    assert answer.sources["scheduler.maxQueueSize"] == "default"


async def test_every_setting_has_a_source(make_admin_server):
    admin_server = await make_admin_server({})
    answer = await admin_server.config()
    config = json_format.MessageToDict(answer.config)
    sections = ("scheduler", "daemon", "store", "webhooks", "log", "cors", "auth", "tls", "gatewayTls", "audit")
    sections += ("replicas", "console", "telemetry")
    keys = {f"{section}.{key}" for section in sections for key in config[section]}
    assert set(answer.sources) == keys | (set(config) - set(sections))


async def test_a_secret_is_masked(make_admin_server):
    admin_server = await make_admin_server({"webhooks": {"secret": SECRET}})
    answer = await admin_server.config()
    assert answer.sources["webhooks.secret"] == "file"
    assert answer.config["webhooks"]["secret"] == "**********"
    assert SECRET.removeprefix("whsec_") not in str(answer)


async def test_the_time_of_the_last_reading_of_the_file_is_shown(make_admin_server):
    before = time.time()
    answer = await (await make_admin_server({})).config()
    assert before - 1 < answer.loaded_at.ToNanoseconds() / 1e9 < time.time() + 1


async def test_without_a_file_there_is_no_time_of_the_last_reading(make_admin_server):
    answer = await (await make_admin_server()).config()
    assert not answer.HasField("loaded_at")
    assert not answer.HasField("error")


async def test_a_failed_reading_is_shown_until_one_works(make_admin_server):
    admin_server = await make_admin_server({"scheduler": {"maxInflight": 7}})
    assert not (await admin_server.config()).HasField("error")
    admin_server.write({"scheduler": {"maxInflight": -7}})
    admin_server.live.try_reload()
    answer = await admin_server.config()
    assert answer.error.startswith("scheduler.maxInflight: ")
    assert answer.config["scheduler"]["maxInflight"] == 7
    admin_server.write({"scheduler": {"maxInflight": 8}})
    admin_server.live.try_reload()
    answer = await admin_server.config()
    assert not answer.HasField("error")
    assert answer.config["scheduler"]["maxInflight"] == 8


# ReloadConfig


async def test_a_reload_answers_what_changed_and_what_needs_a_restart(make_admin_server):
    admin_server = await make_admin_server({})
    admin_server.write({"scheduler": {"maxQueueSize": 7, "maxInflight": 8, "workerCount": 9}, "grpc": "127.0.0.1:1"})
    answer = await admin_server.reload()
    assert list(answer.changed) == ["scheduler.maxInflight", "scheduler.maxQueueSize"]
    assert list(answer.needs_restart) == ["grpc", "scheduler.workerCount"]


async def test_a_reload_is_in_force_when_it_is_answered(make_admin_server):
    admin_server = await make_admin_server({})
    admin_server.write({"scheduler": {"maxQueueSize": 7}})
    await admin_server.reload()
    assert (await admin_server.engine.admin.stats("default")).limits.max_queue_size == 7


async def test_a_repeated_reload_changes_nothing(make_admin_server):
    admin_server = await make_admin_server({})
    admin_server.write({"scheduler": {"maxQueueSize": 7}})
    await admin_server.reload()
    assert list((await admin_server.reload()).changed) == []


async def test_a_reload_of_a_broken_file_is_a_conflict_that_names_the_key(make_admin_server):
    admin_server = await make_admin_server({"scheduler": {"maxInflight": 7}})
    admin_server.write({"scheduler": {"maxInflight": 8, "maxQueuSize": 9}})
    status, reason, message = await refusal_of(admin_server.reload())
    assert (status, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CONFLICT")
    assert message == "scheduler.maxQueuSize: unknown key, did you mean maxQueueSize?"
    assert (await admin_server.config()).config["scheduler"]["maxInflight"] == 7


async def test_a_reload_without_a_file_is_a_conflict(make_admin_server):
    admin_server = await make_admin_server()
    status, reason, message = await refusal_of(admin_server.reload())
    assert (status, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CONFLICT")
    assert message == "the server was started without a configuration file"


# DrainServer


async def test_a_drain_passes_its_grace_period_on_and_answers_its_end(make_admin_server):
    admin_server = await make_admin_server()
    answer = await admin_server.drain(grace_period_secs=7)
    assert admin_server.drains == [7]
    assert answer.draining
    assert answer.deadline.ToNanoseconds() / 1e9 == pytest.approx(admin_server.drain_end, abs=0.001)


async def test_a_drain_without_a_grace_period_takes_that_of_the_settings(make_admin_server):
    admin_server = await make_admin_server()
    await admin_server.drain()
    assert admin_server.drains == [None]


async def test_a_grace_period_of_zero_is_not_a_missing_one(make_admin_server):
    admin_server = await make_admin_server()
    await admin_server.drain(grace_period_secs=0)
    assert admin_server.drains == [0]


async def test_a_drain_counts_the_tasks_in_flight_of_all_namespaces(make_admin_server):
    admin_server = await make_admin_server()
    for namespace in ("default", "acme"):
        await admin_server.engine.hosts.register(namespace, "host", None, HostProfile(), show=live)
        for _ in range(3):
            await admin_server.engine.tasks.submit(namespace, Submission("ann", "click"), show=live)
        assert len(await admin_server.engine.leases.claim(namespace, "host", 2, show=live)) == 2
    assert (await admin_server.drain()).inflight == 4


# Replicas


class FakeReplicas:
    """Two replicas, of which the first answers; `drains` holds what was asked of which."""

    level = 1

    def __init__(self):
        self.drains = []

    def _view(self, name, **fields):
        known = ReplicaView(name, f"{name}-id", "h:1", "0.2.0", 2, 10.0, 11.5, None, False, 3, is_this=name == "one")
        return known._replace(**fields)

    async def replicas(self):
        return [self._view("one"), self._view("two", address=None, died_at=12.0, namespaces=0)]

    async def drain(self, name, is_draining):
        if name != "one":
            raise NotFound("no replica of that name or instance lives")
        self.drains.append((name, is_draining))
        return [self._view(name, is_draining=is_draining)]


async def test_replicas_are_listed_with_the_level_in_force(make_admin_server):
    admin_server = await make_admin_server(replicas=FakeReplicas())
    answer = await admin_server.stub.ListReplicas(admin_pb2.ListReplicasRequest())
    one, two = answer.replicas
    assert (one.name, one.instance, one.address, one.version) == ("one", "one-id", "h:1", "0.2.0")
    assert (one.format_level, answer.format_level, one.namespaces, one.answering) == (2, 1, 3, True)
    assert (one.started_at.seconds, one.renewed_at.ToMilliseconds(), one.HasField("died_at")) == (10, 11_500, False)
    assert (two.died_at.seconds, two.HasField("address"), two.answering) == (12, False, False)


async def test_a_replica_is_drained_and_resumed(make_admin_server):
    replicas = FakeReplicas()
    stub = (await make_admin_server(replicas=replicas)).stub
    drained = await stub.DrainReplica(admin_pb2.DrainReplicaRequest(replica="one"))
    assert [(each.name, each.draining) for each in drained.replicas] == [("one", True)]
    resumed = await stub.ResumeReplica(admin_pb2.ResumeReplicaRequest(replica="one"))
    assert [(each.name, each.draining) for each in resumed.replicas] == [("one", False)]
    assert replicas.drains == [("one", True), ("one", False)]


async def test_a_replica_that_is_not_named_or_not_there_is_refused(make_admin_server):
    stub = (await make_admin_server(replicas=FakeReplicas())).stub
    for name, reason in (("", "BAD_REQUEST"), ("nobody", "NOT_FOUND")):
        assert (await refusal_of(stub.DrainReplica(admin_pb2.DrainReplicaRequest(replica=name))))[1] == reason
        assert (await refusal_of(stub.ResumeReplica(admin_pb2.ResumeReplicaRequest(replica=name))))[1] == reason


async def test_a_server_that_shares_its_store_with_nobody_lists_none_and_drains_none(make_admin_server):
    stub = (await make_admin_server()).stub
    answer = await stub.ListReplicas(admin_pb2.ListReplicasRequest())
    assert (list(answer.replicas), answer.HasField("format_level")) == ([], False)
    status, reason, _ = await refusal_of(stub.DrainReplica(admin_pb2.DrainReplicaRequest(replica="one")))
    assert (status, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "CONFLICT")
