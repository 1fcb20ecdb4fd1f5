"""The address that Prometheus scrapes: taken at the start, and released at the stop."""

import asyncio
import errno
import socket
from urllib.error import URLError

import pytest

from taskyard_server.metrics.metrics import Metrics
from taskyard_server.webhooks.webhooks import WebhookCounts


async def test_a_taken_port_raises_an_os_error(harness):
    other = Metrics(harness.engine.admin.totals, WebhookCounts(), harness.snapshots)
    with pytest.raises(OSError, match="in use") as error:
        other.serve(harness.address)
    assert error.value.errno == errno.EADDRINUSE


async def test_a_server_whose_port_was_taken_can_be_stopped(harness):
    other = Metrics(harness.engine.admin.totals, WebhookCounts(), harness.snapshots)
    with pytest.raises(OSError, match="in use"):
        other.serve(harness.address)
    other.stop()
    assert (await harness.scrape()).value("taskyard_namespaces") == 0


async def test_an_address_of_another_machine_raises_an_os_error(harness):
    other = Metrics(harness.engine.admin.totals, WebhookCounts(), harness.snapshots)
    with pytest.raises(OSError, match="annot assign"):
        other.serve(f"203.0.113.1:{harness.port}")


async def test_metrics_are_served_on_the_given_address_only(harness):
    await harness.scrape()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", harness.port), timeout=1)


async def test_the_port_is_free_after_the_stop(harness):
    await harness.scrape()
    await asyncio.to_thread(harness.metrics.stop)
    with pytest.raises(URLError, match="refused"):
        await harness.scrape()
    with socket.create_server(("127.0.0.1", harness.port)):
        pass


async def test_two_servers_of_one_process_show_their_own_figures(harness, make_harness):
    other = await make_harness()
    await harness.submit()
    assert (await harness.scrape()).value("taskyard_tasks_submitted_total") == 1
    assert (await other.scrape()).value("taskyard_tasks_submitted_total") == 0
