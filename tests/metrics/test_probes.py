"""Probes of supervisors at the port of the metrics (docs/rules.md, Health)."""

import asyncio
import http.client
import socket

import pytest
from prometheus_client import CollectorRegistry

from taskyard_server.metrics.server import MetricsServer

SECRET = "s" * 32


@pytest.fixture
def obstacles():
    """Why not, by path."""
    return {"/healthz": None, "/readyz": None}


@pytest.fixture
def ask(obstacles):
    """Asks the port, which wants a token from scrapes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    probes = {path: (lambda path=path: obstacles[path]) for path in obstacles}
    server = MetricsServer(f"127.0.0.1:{port}", CollectorRegistry(), SECRET, probes=probes)

    def get(path, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body

    yield lambda *words: asyncio.to_thread(get, *words)
    server.stop()


async def test_a_probe_needs_no_token(ask):
    assert await ask("/healthz") == (200, '{"status":"ok"}')
    assert await ask("/readyz?verbose=1") == (200, '{"status":"ok"}')


async def test_what_is_not_well_is_said(ask, obstacles):
    obstacles["/readyz"] = "the server is shutting down"
    body = '{"code":"unavailable","error":"the server is shutting down","retryable":true}'
    assert await ask("/readyz") == (503, body)
    assert await ask("/healthz") == (200, '{"status":"ok"}')


async def test_head_has_no_body(ask):
    assert await ask("/healthz", "HEAD") == (200, "")


async def test_all_else_needs_the_token(ask):
    for path in ("/metrics", "/", "/healthz/", "/readyz/../metrics"):
        assert (await ask(path))[0] == 401
