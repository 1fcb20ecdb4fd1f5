"""The executor behind TLS: `executorCa`, `executorCert` and `executorKey`, and files that change.

See docs/operate/settings.md.
"""

import asyncio
import ssl

import pytest

from taskyard_server.executors import from_settings
from taskyard_server.executors.connections import Connections
from taskyard_server.executors.tab_resolver import Endpoint, TabMap
from taskyard_server.executors.tls_files import TlsFiles, TlsFilesError
from taskyard_server.settings.config import Settings
from tests.certificates import Authority


class SecureInstance:
    """An HTTPS server that notes the serial number of each client certificate, and answers `{"success":true}`."""

    def __init__(self):
        self.serials = []
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.url = ""
        self.opened = asyncio.Event()
        self.opened.set()
        self.arrived = asyncio.Event()

    async def serve(self, reader, writer):
        peer = writer.get_extra_info("peercert")
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next(line for line in head.split("\r\n") if line.startswith("content-length:"))
                await reader.readexactly(int(length.partition(":")[2]))
                self.serials.append(int(peer["serialNumber"], 16) if peer else None)
                self.arrived.set()
                await self.opened.wait()
                body = b'{"success":true}'
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
def authority():
    return Authority()


@pytest.fixture
def clients():
    return Authority("clients")


@pytest.fixture
async def instance(authority, clients, tmp_path):
    instance = SecureInstance()
    instance.context.load_cert_chain(*authority.leaf().write(tmp_path, "instance"))
    instance.context.verify_mode = ssl.CERT_OPTIONAL
    instance.context.load_verify_locations(cadata=clients.cert.decode())
    server = await asyncio.start_server(instance.serve, "127.0.0.1", 0, ssl=instance.context)
    instance.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield instance
    instance.opened.set()
    server.close()


@pytest.fixture
def files(authority, tmp_path):
    return TlsFiles(ca=authority.write(tmp_path))


def at(instance, **tabs):
    """All tabs are at the instance, but those that are at an endpoint of their own."""
    return TabMap(tabs, Endpoint(instance.url, None, is_executor=True))


async def start(start_server, instance, files, **tabs):
    return await start_server(at(instance, **tabs), connections=Connections(4, files))


async def test_the_executor_is_trusted_by_its_authority(start_server, instance, files):
    server = await start(start_server, instance, files)
    assert (await server.run()).state == "done"


async def test_an_executor_of_another_authority_is_not_trusted(start_server, instance, tmp_path):
    server = await start(start_server, instance, TlsFiles(ca=Authority("other").write(tmp_path, "other")))
    task = await server.run()
    assert task.state == "failed"
    assert "certificate" in task.error.lower()
    assert instance.serials == []


async def test_without_an_authority_of_its_own_that_of_the_system_counts(start_server, instance):
    server = await start(start_server, instance, None)
    assert (await server.run()).state == "failed"


async def test_a_name_that_is_not_in_the_certificate_is_not_trusted(start_server, instance, files, authority, tmp_path):
    instance.context.load_cert_chain(*authority.leaf(names=["other"], addresses=[]).write(tmp_path, "instance"))
    server = await start(start_server, instance, files)
    assert (await server.run()).state == "failed"


async def test_the_client_certificate_is_shown_to_the_executor(start_server, instance, files, clients, tmp_path):
    leaf = clients.leaf()
    cert, key = leaf.write(tmp_path, "client")
    server = await start(start_server, instance, TlsFiles(files.ca, cert, key))
    await server.run()
    assert instance.serials == [leaf.serial]


async def test_the_client_certificate_is_not_shown_to_the_instance_of_a_tab(
    start_server, instance, files, clients, tmp_path
):
    cert, key = clients.leaf().write(tmp_path, "client")
    own = Endpoint(instance.url)
    server = await start(start_server, instance, TlsFiles(files.ca, cert, key), own=own)
    # The authority of the executor counts for the executor alone too.
    assert (await server.run(tab_id="own")).state == "failed"
    assert instance.serials == []


async def test_files_that_change_hold_for_later_requests(start_server, instance, files, clients, tmp_path):
    first, second = clients.leaf(), clients.leaf()
    cert, key = first.write(tmp_path, "client")
    server = await start(start_server, instance, TlsFiles(files.ca, cert, key))
    await server.run()
    second.write(tmp_path, "client")
    await server.run()
    assert instance.serials == [first.serial, second.serial]


async def test_an_authority_that_changes_is_the_only_one_from_then_on(start_server, instance, files, tmp_path):
    server = await start(start_server, instance, files)
    assert (await server.run()).state == "done"
    Authority("other").write(tmp_path)
    assert (await server.run()).state == "failed"


async def test_a_request_under_way_ends_over_the_old_connection(start_server, instance, files, clients, tmp_path, soon):
    first, second = clients.leaf(), clients.leaf()
    cert, key = first.write(tmp_path, "client")
    server = await start(start_server, instance, TlsFiles(files.ca, cert, key))
    instance.opened.clear()
    task = await server.submit()
    await soon(instance.arrived.wait())
    second.write(tmp_path, "client")
    instance.arrived.clear()
    other = await server.submit()
    await soon(instance.arrived.wait())
    instance.opened.set()
    assert {(await server.ended(each)).state for each in (task, other)} == {"done"}
    assert instance.serials == [first.serial, second.serial]


async def test_files_that_do_not_fit_together_leave_the_old_ones_in_force(
    start_server, instance, files, clients, tmp_path
):
    leaf = clients.leaf()
    cert, key = leaf.write(tmp_path, "client")
    server = await start(start_server, instance, TlsFiles(files.ca, cert, key))
    await server.run()
    key.write_bytes(clients.leaf().key)
    assert (await server.run()).state == "done"
    assert instance.serials == [leaf.serial] * 2


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"executorCa": "missing.pem"}, "executorCa: .*missing.pem: no such file or directory"),
        ({"executorCa": "rubbish"}, "executorCa: .*rubbish: holds no certificate"),
        ({"executorCert": "client.pem"}, "executorKey: is missing"),
        ({"executorKey": "client.key"}, "executorCert: is missing"),
        ({"executorCert": "client.pem", "executorKey": "other.key"}, "executorCert: .*client.pem with .*other.key"),
        ({"executorCert": "client.pem", "executorKey": "locked.key"}, "executorCert: .*client.pem with .*locked.key"),
    ],
)
def test_files_that_cannot_be_used_are_one_line_at_the_start(keys, message, clients, tmp_path):
    leaf = clients.leaf()
    leaf.write(tmp_path, "client")
    clients.leaf().write(tmp_path, "other")
    (tmp_path / "rubbish").write_text("rubbish")
    (tmp_path / "locked.key").write_bytes(leaf.encrypted_key(b"password"))
    paths = {key: str(tmp_path / name) for key, name in keys.items()}
    settings = Settings.model_validate({"executor": "https://127.0.0.1:1", **paths})
    with pytest.raises(TlsFilesError, match=message) as refused:
        from_settings.configured_executor(None, settings)
    assert "\n" not in str(refused.value)
