"""Starts a control plane on free ports."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc

START_SECS = 30
DRAIN_SECS = 5
STOP_SECS = 15


def free_port() -> int:
    """Find a port of the loopback interface on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.asynccontextmanager
async def running_server(
    folder: Path, scheduler: Mapping[str, Any], port: int | None = None, rest_port: int | None = None
) -> AsyncIterator[str]:
    """Run a control plane. Yields its gRPC address, `HOST:PORT`, once it serves.

    `scheduler` is that section of its configuration. It has a gateway if `rest_port` is given. Configuration and log
    are written to `folder`. Raises RuntimeError if it does not start.
    """
    config, log = folder / "taskyard.json", folder / "taskyard.log"
    config.write_text(json.dumps({"scheduler": scheduler}), encoding="utf-8")
    address, metrics = f"127.0.0.1:{port or free_port()}", f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--config", str(config), "--store", "memory://"]
    command += ["--no-gateway"] if rest_port is None else ["--rest", f"127.0.0.1:{rest_port}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TASKYARD_")}
    with log.open("ab") as output:
        server = await asyncio.create_subprocess_exec(
            *command, "--grpc", address, "--metrics", metrics, env=environment, stdout=output, stderr=output
        )
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            try:
                await asyncio.wait_for(channel.channel_ready(), START_SECS)
            except TimeoutError:
                raise RuntimeError(f"the server does not start:\n{log.read_text(encoding='utf-8')}") from None
        yield address
    finally:
        # The first signal drains it; the second one ends it at once, whatever still runs.
        for secs in (DRAIN_SECS, STOP_SECS):
            with contextlib.suppress(ProcessLookupError):
                server.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(server.wait(), secs)
        if server.returncode is None:
            server.kill()
            await server.wait()
