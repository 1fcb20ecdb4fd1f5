"""What has to be set before other machines may call (server/taskyard_server/net/exposure.py)."""

from typing import Any

import pytest
from pydantic import ValidationError

from taskyard_server.net.exposure import authentication_is_on, exposed, is_loopback
from taskyard_server.settings.config import Settings
from tests.cases import every_case
from tests.ports import free_port

TLS = {"cert": "/cert.pem", "key": "/key.pem"}
EVERYWHERE = {"grpc": "0.0.0.0:1", "rest": "0.0.0.0:2", "metrics": "0.0.0.0:3"}


def problems(**settings: Any) -> list[str]:
    return exposed(Settings.model_validate({"metrics": "127.0.0.1:3", **settings}))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "127.255.255.254"])
def test_loopback_is_what_only_this_machine_can_reach(host: str) -> None:
    assert is_loopback(f"{host}:80")


@every_case("host", ["0.0.0.0", "0", "192.0.2.1", "10.0.0.1", "no-such-host.invalid", "255.255.255.255"])
def test_everything_else_is_not_loopback(host: str) -> None:
    assert not is_loopback(f"{host}:80")


@every_case("scheme", ["unix", "UNIX", "unix-abstract", "vsock", "dns", "ipv4", "ipv6"])
def test_an_address_is_a_host_and_no_scheme_of_grpc(scheme: str) -> None:
    """Who calls by a unix socket is taken for the gateway."""
    with pytest.raises(ValidationError, match="must be a host and a port"):
        Settings.model_validate({"grpc": f"{scheme}:50051"})


def test_on_loopback_nothing_has_to_be_set() -> None:
    assert problems() == []


def test_each_exposed_listener_is_a_line_that_names_what_to_set() -> None:
    assert problems(**EVERYWHERE) == [
        "grpc: 0.0.0.0:1 can be reached from other machines: set tls.cert, tls.key, or listen on 127.0.0.1, "
        "or pass --insecure",
        "rest: 0.0.0.0:2 can be reached from other machines: set gatewayTls.cert, gatewayTls.key, auth.required, "
        "or listen on 127.0.0.1, or pass --insecure",
        "metrics: 0.0.0.0:3 can be reached from other machines: set metricsToken, tls.cert, tls.key, "
        "or listen on 127.0.0.1, or pass --insecure",
    ]


def test_tls_switches_authentication_on_and_is_enough_for_grpc() -> None:
    assert authentication_is_on(Settings.model_validate({"tls": TLS}))
    assert problems(grpc="0.0.0.0:1", tls=TLS) == []


def test_authentication_without_tls_is_not_enough() -> None:
    for auth in ({"required": True}, {"adminToken": "x" * 20}):
        assert len(problems(grpc="0.0.0.0:1", rest="0.0.0.0:2", auth=auth)) == 2


def test_the_gateway_needs_tls_and_authentication() -> None:
    (line,) = problems(rest="0.0.0.0:2", gatewayTls=TLS)
    assert "set auth.required, or" in line
    (line,) = problems(rest="0.0.0.0:2", tls=TLS)
    assert "set gatewayTls.cert, gatewayTls.key, or" in line
    assert problems(rest="0.0.0.0:2", gatewayTls=TLS, tls=TLS) == []
    assert problems(rest="0.0.0.0:2", gatewayTls=TLS, auth={"adminToken": "x" * 20}) == []


def test_a_gateway_that_does_not_run_needs_nothing() -> None:
    assert problems(rest="0.0.0.0:2", gateway=False) == []


def test_an_exposed_listener_is_refused_at_the_start_by_a_line_each(refused: Any) -> None:
    refusal = refused(None, "--grpc", "0.0.0.0:1", "--metrics", "0.0.0.0:3")
    assert refusal.exit_code == 1
    assert [line.partition(":")[0] for line in (*refusal.errors, *refusal.others)] == ["grpc", "metrics"]


async def test_with_insecure_it_starts_and_says_that_everybody_is_admin(up: Any) -> None:
    server = await up(None, "--insecure", "--metrics", f"0.0.0.0:{free_port()}")
    (line,) = await server.logged("everybody_is_admin")
    assert line["level"] == "warning"
    assert await server.health() == "SERVING"


async def test_on_loopback_the_start_says_that_everybody_is_admin(up: Any) -> None:
    (line,) = await (await up()).logged("everybody_is_admin")
    assert line["level"] == "info"


async def test_with_authentication_the_start_says_no_such_thing(up: Any) -> None:
    server = await up(TASKYARD_ADMIN_TOKEN="x" * 20)
    assert server.events("everybody_is_admin", "started") == ["started"]
