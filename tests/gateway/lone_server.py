"""The server of a replica as a process of its own, which a test can kill: NAME HOST:PORT CERT KEY CA."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from taskyard.v1 import runtime_host_pb2_grpc, task_pb2_grpc
from taskyard_server.app.listening import Servers
from taskyard_server.interceptors.calls import CallInterceptor
from taskyard_server.net.certificates import CertificateFiles
from tests.certificates import Authority
from tests.environment import without_settings
from tests.gateway.yards import Hosts, Tasks, gateway_leaf
from tests.ports import free_port, listening

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def lone_server(
    name: str, authority: Authority, folder: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The process, and where gateways reach it."""
    port = free_port()
    files = (*gateway_leaf(authority, name).write(folder, name), authority.write(folder, f"ca-{name}"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.gateway.lone_server", name, f"127.0.0.1:{port}", *map(str, files)),
        cwd=ROOT,
        env=without_settings(),
    )
    try:
        await listening(port, process)
        yield process, f"127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def main() -> None:
    """Serve until killed."""
    name, address, *paths = sys.argv[1:]
    cert, key, ca = map(Path, paths)
    servers: Any = Servers(None, CallInterceptor(), is_limited=False, has_replicas=True)
    task_pb2_grpc.add_TaskServiceServicer_to_server(Tasks(name), servers)
    runtime_host_pb2_grpc.add_RuntimeHostServiceServicer_to_server(Hosts(name), servers)
    servers.listen_for_replicas(address, CertificateFiles("replicas", cert, key, ca, ca_key="ca"))
    await servers.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
