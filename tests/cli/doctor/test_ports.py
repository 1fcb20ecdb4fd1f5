"""What the doctor says of ports: free, taken by another program, or by the server itself."""

import os
import socket

import psutil
import pytest

from taskyard_server.cli.doctor.ports import listeners, ports
from taskyard_server.settings.config import Settings
from tests.cli.doctor.yards import READY, ill, only, told, yard


@pytest.fixture
def taken():
    """An address at which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_free_ports_are_well():
    on = yard({})
    s = on.settings
    assert told(ports, on) == [
        ("ok", f"port grpc: {s.grpc} is free"),
        ("ok", f"port rest: {s.rest} is free"),
        ("ok", f"port metrics: {s.metrics} is free"),
    ]


def test_a_port_that_another_program_has_is_a_failure_that_names_it(taken):
    found = only(ports(yard({"rest": taken})))
    assert (found.status, found.check) == ("failure", "port rest")
    assert found.seen.startswith(f"{taken} is taken by {psutil.Process().name()}, process {os.getpid()}")
    assert found.todo == "stop that one, or set rest to another port"


def test_a_program_that_cannot_be_seen_is_not_named(taken, monkeypatch):
    def refuse(_):
        raise psutil.AccessDenied

    monkeypatch.setattr(psutil, "net_connections", refuse)
    assert "by a program that cannot be seen from here" in only(ports(yard({"grpc": taken}))).seen


def test_where_the_server_answers_and_nothing_can_be_seen_the_ports_are_its_own(taken):
    assert not ill(ports(yard({"grpc": taken}, reply=READY)))


def test_an_address_of_another_machine_and_an_unknown_name_are_failures():
    found = ill(ports(yard({"grpc": "192.0.2.7:4711", "metrics": "no.such.invalid:4712"})))
    assert [(each.status, each.check) for each in found] == [("failure", "port grpc"), ("failure", "port metrics")]
    assert found[1].seen == "no.such.invalid:4712: the name is not known"


def test_one_port_for_two_is_a_failure():
    on = yard({"metrics": "127.0.0.1:4713", "grpc": "127.0.0.1:4713"})
    assert only(ports(on)).seen == "127.0.0.1:4713 is that of grpc too"


def test_the_listeners_are_those_of_the_settings():
    settings = Settings.model_validate(
        {"gateway": False, "replicas": {"advertise": "one.example:443", "listen": "[::]:444"}}
    )
    assert [name for name, _ in listeners(settings)] == ["grpc", "metrics", "replicas.listen"]
    assert dict(listeners(settings))["replicas.listen"] == "[::]:444"
