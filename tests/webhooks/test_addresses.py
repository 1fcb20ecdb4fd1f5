"""An address is checked after its name is resolved, and that address is dialled (docs/rules.md, Webhooks)."""

import socket
import ssl
import subprocess

import pytest

from taskyard_server.settings.config import WebhookSettings
from taskyard_server.webhooks import posts as webhook_posts
from taskyard_server.webhooks.addresses import is_public
from tests.cases import every_case

NAME = "hooks.example"

NOT_PUBLIC = {
    "loopback": ["127.0.0.1", "127.8.9.10", "::1"],
    "unspecified": ["0.0.0.0", "::"],
    "private": ["10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "fc00::1", "fd00:ec2::254"],
    "link-local": ["169.254.0.1", "169.254.169.254", "fe80::1", "fe80::1%1"],
    "shared": ["100.64.0.1", "100.127.255.254"],
    "documentation and benchmarks": ["192.0.2.1", "198.18.0.1", "203.0.113.9", "2001:db8::1"],
    "multicast": ["224.0.0.1", "239.1.2.3", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "255.255.255.255"],
    "mapped": ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:224.0.0.1"],
    "NAT64": ["64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b::224.0.0.1"],
    "6to4": ["2002:7f00:1::1", "2002:a00:1::1", "2002:a9fe:a9fe::1"],
    "Teredo": ["2001:0:53aa:64c:0:0:80ff:fffe", "2001:0:53aa:64c:0:0:5601:5601"],
}
PUBLIC = [
    "8.8.8.8",
    "100.63.255.255",
    "172.32.0.1",
    "2606:4700:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
]
REFUSED = [address for addresses in NOT_PUBLIC.values() for address in addresses]


@pytest.fixture
def resolve(monkeypatch):
    """Sets what `NAME` resolves to: each argument is one answer, the last one is repeated."""
    real = socket.getaddrinfo

    def set_answers(*answers):
        left = list(answers)
        asked = []

        def getaddrinfo(host, port, *args, **kwargs):
            if host not in (NAME, NAME.encode()):
                return real(host, port, *args, **kwargs)
            asked.append(host)
            return [entry for address in (left.pop(0) if len(left) > 1 else left[0]) for entry in found(address, port)]

        def found(address, port):
            return real(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        return asked

    return set_answers


@every_case("address", REFUSED)
def test_a_special_address_is_not_public(address):
    assert not is_public(address)


@every_case("address", PUBLIC)
def test_any_other_address_is_public(address):
    assert is_public(address)


@pytest.mark.parametrize("address", [addresses[0] for addresses in NOT_PUBLIC.values()], ids=list(NOT_PUBLIC))
async def test_a_name_that_resolves_to_a_special_address_is_not_dialled(make_server, resolve, dialled, logged, address):
    resolve([address])
    server = await make_server(allow_private=False)
    (task,) = await server.end(f"http://{NAME}/hook")
    await server.settled()
    assert dialled == []
    assert server.counts == (0, 1, 0)
    (line,) = logged
    assert (line["event"], line["task_id"], line["tries"]) == ("webhook_failed", task.id, 1)
    assert line["problem"] == f"{NAME} is not a public address"


@pytest.mark.parametrize("address", PUBLIC)
async def test_a_name_that_resolves_to_a_public_address_is_dialled(make_server, resolve, dialled, address):
    resolve([address])
    server = await make_server(allow_private=False)
    await server.end(f"http://{NAME}/hook")
    await server.settled()
    assert set(dialled) == {address}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "[::1]", "[::ffff:127.0.0.1]"],
)
async def test_loopback_is_refused_in_every_spelling(make_server, receiver, host):
    server = await make_server(allow_private=False)
    await server.end(f"http://{host}:{receiver.port}/hook")
    await server.settled()
    assert receiver.connections == 0
    assert server.counts == (0, 1, 0)


async def test_private_addresses_are_refused_unless_the_settings_allow_them(make_server, receiver):
    strict = await make_server(allow_private=False)
    await strict.end(receiver.url)
    await strict.settled()
    assert receiver.connections == 0
    lenient = await make_server(allow_private=True)
    await lenient.end(receiver.url)
    await lenient.settled()
    assert receiver.connections == 1
    assert (strict.counts, lenient.counts) == ((0, 1, 0), (1, 0, 0))


def test_private_addresses_are_refused_by_default():
    assert WebhookSettings().allow_private is False


async def test_the_host_header_is_the_name_and_not_the_address(server, receiver, resolve):
    resolve(["127.0.0.1"])
    await server.end(f"http://{NAME}:{receiver.port}/hook")
    (post,) = await receiver.received()
    assert post.header("host") == f"{NAME}:{receiver.port}"


async def test_only_the_public_ones_of_several_addresses_are_dialled(make_server, resolve, dialled):
    resolve(["10.0.0.1", "::1", "8.8.8.8", "169.254.169.254"])
    server = await make_server(allow_private=False)
    await server.end(f"http://{NAME}/hook")
    await server.settled()
    assert set(dialled) == {"8.8.8.8"}


async def test_a_name_that_does_not_resolve_is_a_failure_after_three_tries(server, monkeypatch, logged):
    def getaddrinfo(*_args, **_kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    await server.end(f"http://{NAME}/hook")
    await server.settled()
    assert server.counts == (0, 1, 0)
    assert [(line["event"], line["tries"]) for line in logged] == [("webhook_failed", 3)]


# DNS rebinding: two servers listen on the same port of two loopback addresses, of which these tests declare the first
# one public. So real connections show which address was dialled.

OUTSIDE, INSIDE = "127.0.0.1", "127.0.0.2"


@pytest.fixture
async def rebound(make_receiver, monkeypatch):
    """The public server, and the private one on the same port."""
    monkeypatch.setattr(webhook_posts, "is_public", lambda address: address == OUTSIDE)
    outside = await make_receiver(host=OUTSIDE)
    inside = await make_receiver(host=INSIDE, port=outside.port)
    return outside, inside


async def test_the_checked_address_is_dialled_though_the_name_resolves_to_another_one(make_server, resolve, rebound):
    outside, inside = rebound
    asked = resolve([OUTSIDE], [INSIDE])
    server = await make_server(allow_private=False)
    await server.end(f"http://{NAME}:{outside.port}/hook")
    await server.settled()
    assert (outside.connections, inside.connections) == (1, 0)
    assert len(asked) == 1
    assert server.counts == (1, 0, 0)


async def test_the_address_of_each_try_is_checked(make_server, resolve, rebound):
    outside, inside = rebound
    resolve([OUTSIDE], [INSIDE])
    outside.answers = [503]
    server = await make_server(allow_private=False)
    await server.end(f"http://{NAME}:{outside.port}/hook")
    await server.settled()
    assert (outside.connections, inside.connections) == (1, 0)
    assert server.counts == (0, 1, 0)


async def test_a_redirect_cannot_lead_to_a_private_address(make_server, resolve, rebound):
    outside, inside = rebound
    resolve([OUTSIDE])
    outside.answers = [f"HTTP/1.1 307 Inside\r\nlocation: {inside.url}\r\ncontent-length: 0\r\n\r\n".encode()]
    server = await make_server(allow_private=False)
    await server.end(f"http://{NAME}:{outside.port}/hook")
    await server.settled()
    assert (outside.connections, inside.connections) == (1, 0)


# https


@pytest.fixture
def certificate(tmp_path):
    """A key and a certificate for `NAME`, in one file that can also be trusted as an authority."""
    file = tmp_path / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    named = ["-keyout", "-", "-out", "-", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    file.write_bytes(subprocess.run([*make, *named], check=True, capture_output=True).stdout)
    return file


@pytest.fixture
async def secure(certificate, make_receiver):
    """A receiver with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return await make_receiver(tls=context)


async def test_https_is_delivered_to_a_server_whose_certificate_is_trusted_for_the_name(
    server, secure, certificate, resolve, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    resolve(["127.0.0.1"])
    (task,) = await server.end(f"https://{NAME}:{secure.port}/hook")
    (post,) = await secure.received()
    assert post.json()["taskId"] == task.id


async def test_https_does_not_deliver_to_a_server_whose_certificate_is_not_trusted(server, secure, resolve):
    resolve(["127.0.0.1"])
    await server.end(f"https://{NAME}:{secure.port}/hook")
    await server.settled()
    assert secure.posts == []
    assert server.counts == (0, 1, 0)


async def test_https_does_not_deliver_to_a_server_whose_certificate_is_for_another_name(
    server, secure, certificate, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    await server.end(f"https://127.0.0.1:{secure.port}/hook")
    await server.settled()
    assert secure.posts == []
    assert server.counts == (0, 1, 0)
