"""How several addresses are written."""

import pytest

from taskyard.connection.credentials import find_credentials
from tests.cases import every_case


def found(address=None, **variables):
    return find_credentials(address, environment={f"TASKYARD_{name.upper()}": each for name, each in variables.items()})


@every_case(
    ("address", "addresses"),
    [
        ("a:1", ("a:1",)),
        ("a:1,b:2", ("a:1", "b:2")),
        (" a:1 , b:2 ", ("a:1", "b:2")),
        (["a:1", "b:2"], ("a:1", "b:2")),
        (("a:1", "b:2,c:3"), ("a:1", "b:2", "c:3")),
        ("a:1,b:2,a:1", ("a:1", "b:2")),
        ("dns:///a:1,unix:/run/b.sock,[::1]:2", ("dns:///a:1", "unix:/run/b.sock", "[::1]:2")),
        ("ipv4:10.0.0.1:1,10.0.0.2:2", ("ipv4:10.0.0.1:1", "ipv4:10.0.0.2:2")),
        ("ipv4:10.0.0.1,10.0.0.2", ("ipv4:10.0.0.1", "ipv4:10.0.0.2")),
        ("ipv6:[::1]:1,[::2]:2", ("ipv6:[::1]:1", "ipv6:[::2]:2")),
        ("ipv4:10.0.0.1:1,a:2,10.0.0.2:2", ("ipv4:10.0.0.1:1", "a:2", "10.0.0.2:2")),
    ],
)
def test_addresses_are_separated_by_commas_or_come_in_a_list(address, addresses):
    assert found(address).addresses == addresses


@pytest.mark.parametrize("address", ["https://a:1,b:2", "https://a:1,https://b:2", ["https://a:1", "b:2"]])
def test_https_before_the_first_holds_for_all(address):
    credentials = found(address)
    assert credentials.is_encrypted
    assert credentials.addresses == ("a:1", "b:2")


@every_case(
    "address",
    ["a:1,https://b:2", "a:1,", ",a:1", "a:1,,b:2", "a:1,b", "https://a:1,unix:/b", [], ["a:1", ""], "a:1 b:2"],
)
def test_malformed_ones_are_refused(address):
    with pytest.raises(ValueError, match=r"^address: "):
        found(address)


def test_they_come_from_the_environment_and_from_profiles(tmp_path):
    assert found(address="a:1,b:2").addresses == ("a:1", "b:2")
    (tmp_path / "taskyard").mkdir()
    file = tmp_path / "taskyard" / "config.toml"
    for written in ('"a:1,b:2"', '["a:1", "b:2"]'):
        file.write_text(f"[profiles.p]\naddress = {written}\n")
        variables = {"XDG_CONFIG_HOME": str(tmp_path)}
        assert find_credentials(profile="p", environment=variables).addresses == ("a:1", "b:2")


def test_a_token_is_sent_in_the_clear_only_where_all_servers_are_on_this_machine():
    find_credentials("localhost:1,127.0.0.1:2,unix:/run/x", token="secret", environment={})
    with pytest.raises(ValueError, match=r"not sent in the clear to yard.example:1: .*https://localhost:1,yard"):
        find_credentials("localhost:1,yard.example:1", token="secret", environment={})
