"""What the doctor says of a server that answers, of replicas, of the files it writes, and of checks that do not end."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import grpc
import pytest

from taskyard.connection.credentials import Credentials
from taskyard.v1 import admin_pb2, health_pb2, sample_pb2, token_pb2
from taskyard.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from taskyard.v1.health_pb2_grpc import HealthServiceServicer, add_HealthServiceServicer_to_server
from taskyard.v1.stats_pb2_grpc import StatsServiceServicer, add_StatsServiceServicer_to_server
from taskyard.v1.token_pb2_grpc import TokenServiceServicer, add_TokenServiceServicer_to_server
from taskyard_server.cli.connection import Connection
from taskyard_server.cli.doctor.examination import run
from taskyard_server.cli.doctor.examined import examined
from taskyard_server.cli.doctor.files import files
from taskyard_server.cli.doctor.findings import ok
from taskyard_server.cli.doctor.replicas import replicas
from taskyard_server.cli.doctor.server import server
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.settings.config import Settings
from taskyard_server.settings.config_sources import Loaded
from tests.certificates import Authority
from tests.cli.doctor.yards import ill, only, told, yard


class Scripted(HealthServiceServicer, TokenServiceServicer, AdminServiceServicer, StatsServiceServicer):
    """A server that says what a test wants."""

    obstacle = error = ""
    sampled_secs_ago = 3.0
    is_refusing = False
    replicas = ()

    def GetHealth(self, _, __):  # noqa: N802
        return health_pb2.GetHealthResponse(status="ok")

    def GetReadiness(self, _, context):  # noqa: N802
        if self.obstacle:
            context.abort(grpc.StatusCode.UNAVAILABLE, self.obstacle)
        return health_pb2.GetReadinessResponse(status="ok")

    def WhoAmI(self, _, context):  # noqa: N802
        if self.is_refusing:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not known")
        return token_pb2.WhoAmIResponse(name="ann", authentication=True)

    def GetConfig(self, _, __):  # noqa: N802
        answer = admin_pb2.GetConfigResponse(sources={"gateway": "flag"})
        answer.config.update({"scheduler": {"maxInflight": 7}, "gateway": False})
        if self.error:
            answer.error = self.error
        return answer

    def ListReplicas(self, _, __):  # noqa: N802
        return admin_pb2.ListReplicasResponse(replicas=self.replicas)

    def ListSamples(self, _, __):  # noqa: N802
        at = timestamp(time.time() - self.sampled_secs_ago)
        return sample_pb2.ListSamplesResponse(samples=[sample_pb2.Sample(at=at)], interval_secs=10)


@contextmanager
def answering(scripted):
    """The yard of a server that answers so, as the doctor finds it."""
    served = grpc.server(ThreadPoolExecutor(2))
    for add in (
        add_HealthServiceServicer_to_server,
        add_TokenServiceServicer_to_server,
        add_AdminServiceServicer_to_server,
        add_StatsServiceServicer_to_server,
    ):
        add(scripted, served)
    address = f"127.0.0.1:{served.add_insecure_port('127.0.0.1:0')}"
    served.start()
    settings = {"grpc": address, "store": {"url": "memory://"}, "scheduler": {"maxInflight": 7}}
    loaded = Loaded(Settings.model_validate(settings), {})
    yield examined(loaded, None, Connection(Credentials("127.0.0.1:50051"), is_named=False))
    served.stop(None).wait()


def answered(**script):
    """The findings about a server that answers so."""
    scripted = Scripted()
    for name, value in script.items():
        setattr(scripted, name, value)
    with answering(scripted) as on:
        assert on.runs
        return list(server(on))


def test_a_server_that_takes_tasks_is_well():
    assert not ill(answered())


def test_a_server_that_takes_none_says_why():
    found = only(answered(obstacle="the store does not answer"))
    assert (found.status, found.seen.endswith("takes no tasks: the store does not answer")) == ("failure", True)


def test_a_credential_that_is_refused_is_a_warning_that_says_which_is_needed():
    found = only(answered(is_refusing=True))
    assert (found.status, found.check, "--token-file" in found.todo) == ("warning", "credential", True)


def test_a_reload_that_failed_is_a_failure():
    assert only(answered(error="x: unknown key")).seen == "the last reload failed: x: unknown key"


def test_settings_that_differ_from_those_in_force_are_named():
    with answering(Scripted()) as on:
        other = on.settings.model_copy(
            update={"scheduler": on.settings.scheduler.model_copy(update={"max_inflight": 8})}
        )
        differing = replace(on, settings=other)
        found = only(server(differing))
    assert (found.status, found.seen) == ("warning", "the server has others of scheduler.maxInflight")


@pytest.mark.parametrize(("ago", "words"), [(3_600, "1 h behind"), (-3_600, "ahead of")])
def test_a_clock_of_the_server_that_is_apart_is_a_warning(ago, words):
    found = only(answered(sampled_secs_ago=ago))
    assert (found.status, found.check) == ("warning", "clock")
    assert words in found.seen


# Replicas


@contextmanager
def listening(certificate, authority, tmp_path):
    """The address of a server that shows this certificate, and takes clients of that authority alone."""
    cert, key = certificate.write(tmp_path, "shown")
    pair = (key.read_bytes(), cert.read_bytes())
    served = grpc.server(ThreadPoolExecutor(1))
    credentials = grpc.ssl_server_credentials([pair], authority.cert, require_client_auth=True)
    port = served.add_secure_port("127.0.0.1:0", credentials)
    served.start()
    yield f"127.0.0.1:{port}"
    served.stop(None).wait()


def replica(name, address="", *, ago=0.0, died=False, version="1.0"):
    at = timestamp(time.time() - ago)
    return admin_pb2.Replica(
        name=name, address=address or None, version=version, renewed_at=at, died_at=at if died else None
    )


def looked(found, own=None):
    """The findings about replicas that a server tells."""
    scripted = Scripted()
    scripted.replicas = found
    with answering(scripted) as on:
        if own is not None:
            settings = on.settings.model_copy(update={"replicas": on.settings.replicas.model_copy(update=own)})
            on = replace(on, settings=settings)
        return list(replicas(on))


@pytest.fixture
def own(tmp_path):
    """An authority, and the files of a replica."""
    authority = Authority()
    cert, key = authority.leaf(uris=["spiffe://taskyard/gateway/one"]).write(tmp_path, "own")
    return authority, {"cert": cert, "key": key, "ca": authority.write(tmp_path)}


def test_a_replica_that_lives_and_takes_our_certificate_is_well(own, tmp_path):
    authority, files_of_ours = own
    two = authority.leaf(uris=["spiffe://taskyard/gateway/two"])
    with listening(two, authority, tmp_path) as address:
        (found,) = looked([replica("two", address)], files_of_ours)
    assert found == ok("replica two", f"alive, version 1.0, answers at {address}, and takes our certificate")


def test_certificates_that_do_not_fit_are_failures(own, tmp_path):
    authority, files_of_ours = own
    stranger = Authority("stranger")
    uri = ["spiffe://taskyard/gateway/two"]
    cases = [
        (stranger.leaf(uris=uri), authority, "its certificate is not valid here"),
        (authority.leaf(uris=uri), stranger, ""),
        (authority.leaf(uris=["spiffe://taskyard/gateway/three"]), authority, "shows the certificate of"),
    ]
    for certificate, takes, words in cases:
        with listening(certificate, takes, tmp_path) as address:
            found = only(looked([replica("two", address)], files_of_ours))
        assert (found.status, words in found.seen) == ("failure", True), found


def test_an_address_where_nobody_listens_is_a_failure_and_none_is_a_warning():
    one, two = ill(looked([replica("one", "127.0.0.1:1"), replica("two")]))
    assert (one.status, two.status) == ("failure", "warning")
    assert one.check == "replica one"
    assert two.seen == "has no address: no other replica can carry calls to it"


def test_one_that_died_is_a_warning_unless_its_name_lives_again():
    found = [replica("one", ago=60, died=True), replica("two", ago=70, died=True), replica("one")]
    assert only(looked(found)).check == "replica two"


def test_one_that_is_silent_two_of_one_name_and_versions_that_differ_are_warnings():
    silent = only(looked([replica("one", ago=8), replica("one", died=True)]))
    assert "has not heard of it for 8 s" in silent.seen
    assert {each.seen for each in ill(looked([replica("one"), replica("one")]))} == {"2 live under this name"}
    versions = [
        each for each in ill(looked([replica("one"), replica("two", version="2.0")])) if each.check == "replicas"
    ]
    assert [each.seen for each in versions] == ["their versions differ: one has 1.0, two has 2.0"]


# Files


def test_log_and_audit_files_are_looked_at(tmp_path):
    on = yard({"log": {"file": f"{tmp_path}/new/log"}, "audit": {"file": f"{tmp_path}/audit"}})
    assert {status for status, _ in told(files, on)} == {"ok"}
    assert not list(tmp_path.iterdir())
    assert not told(files, yard({}))


def test_files_that_cannot_be_written_are_failures(tmp_path):
    deep = only(files(yard({"log": {"file": f"{tmp_path}/two/deep/log"}})))
    assert (deep.status, deep.todo) == ("failure", f"mkdir -p {tmp_path}/two/deep")
    assert only(files(yard({"audit": {"file": str(tmp_path)}}))).seen == f"{tmp_path} is not a file"
    full = only(files(yard({"audit": {"file": f"{tmp_path}/audit", "maxBytes": 2**39, "backups": 1000}})))
    assert (full.status, "maxBytes" in full.todo) == ("warning", True)


# How checks are run


def test_a_check_that_breaks_or_does_not_end_is_in_nobodys_way():
    released = threading.Event()

    def broken(_):
        yield ok("first", "was seen")
        raise ValueError("s3cret")

    def endless(_):
        released.wait()
        yield ok("never", "")

    found = run((broken, endless, lambda _: iter([ok("last", "was seen")])), yard({}), secs=0.2)
    released.set()
    assert [(each.status.value, each.check) for each in found] == [
        *(("ok", "first"), ("warning", "broken"), ("warning", "endless"), ("ok", "last"))
    ]
    assert "s3cret" not in str(found)
