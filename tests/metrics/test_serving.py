"""The address where Prometheus scrapes: when it is taken, and when it is given back."""

import asyncio
import errno
import socket
from urllib.error import URLError

import pytest

from taskyard_server.metrics import Metrics
from taskyard_server.webhooks import WebhookCounts


async def test_a_port_that_is_taken_is_an_error_of_the_system(yard):
    other = Metrics(yard.engine.admin.totals, WebhookCounts(), yard.snapshots)
    with pytest.raises(OSError, match="in use") as error:
        other.serve(yard.address)
    assert error.value.errno == errno.EADDRINUSE


async def test_whoever_found_the_port_taken_can_still_stop(yard):
    other = Metrics(yard.engine.admin.totals, WebhookCounts(), yard.snapshots)
    with pytest.raises(OSError, match="in use"):
        other.serve(yard.address)
    other.stop()
    assert (await yard.scrape()).value("taskyard_namespaces") == 0


async def test_a_host_that_is_not_ours_is_an_error_of_the_system(yard):
    other = Metrics(yard.engine.admin.totals, WebhookCounts(), yard.snapshots)
    with pytest.raises(OSError, match="annot assign"):
        other.serve(f"203.0.113.1:{yard.port}")


async def test_metrics_are_served_on_the_given_address_only(yard):
    await yard.scrape()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", yard.port), timeout=1)


async def test_after_the_stop_nobody_answers_and_the_port_is_free(yard):
    await yard.scrape()
    await asyncio.to_thread(yard.metrics.stop)
    with pytest.raises(URLError, match="refused"):
        await yard.scrape()
    with socket.create_server(("127.0.0.1", yard.port)):
        pass


async def test_two_servers_of_one_process_show_their_own_figures(yard, make_yard):
    other = make_yard()
    await yard.submit()
    assert (await yard.scrape()).value("taskyard_tasks_submitted_total") == 1
    assert (await other.scrape()).value("taskyard_tasks_submitted_total") == 0
