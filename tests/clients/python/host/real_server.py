"""A `taskyard up` for tests of hosts, and a namespace of its own for each test."""

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from taskyard import Host
from taskyard.v1 import lease_pb2, lease_pb2_grpc, runtime_host_pb2, runtime_host_pb2_grpc
from tests.environment import without_settings
from tests.ports import free_port
from tests.waiting import until

CONFIG = "taskyard.json"


def configure(folder: Path, scheduler: Mapping[str, Any]) -> None:
    """Write this scheduler section to the configuration file in the folder."""
    (folder / CONFIG).write_text(json.dumps({"scheduler": dict(scheduler)}))


@contextmanager
def running(folder: Path, scheduler: Mapping[str, Any]) -> Iterator[str]:
    """Run a server with this scheduler section. Yields its address once it serves."""
    configure(folder, scheduler)
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", "--config", str(folder / CONFIG)]
    command += ["--grpc", address, "--metrics", f"127.0.0.1:{free_port()}"]
    with subprocess.Popen(
        command, env=without_settings(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            with grpc.insecure_channel(address) as channel:
                grpc.channel_ready_future(channel).result(timeout=20)
            yield address
        finally:
            process.kill()


class Namespace:
    """One namespace of the server, with its hosts."""

    def __init__(self, address, channel):
        self.address = address
        self.name = uuid.uuid4().hex
        self._hosts = runtime_host_pb2_grpc.RuntimeHostServiceStub(channel)
        self._leases = lease_pb2_grpc.LeaseServiceStub(channel)
        self._metadata = (("taskyard-namespace", self.name),)

    def host(self, host_id="host-1", address=None, **options):
        given = {"namespace": self.name} | options
        return Host(address or self.address, host_id, **given)

    async def connected(self, *host_ids):
        """Wait until exactly these hosts are connected. Returns the hosts by id."""
        return await until(self._connected, lambda hosts: set(hosts) == set(host_ids))

    async def drain(self, host_id="host-1"):
        await self._hosts.DrainHost(runtime_host_pb2.DrainHostRequest(host_id=host_id), metadata=self._metadata)

    async def deregister(self, host_id="host-1"):
        request = runtime_host_pb2.DeregisterHostRequest(host_id=host_id)
        await self._hosts.DeregisterHost(request, metadata=self._metadata)

    async def lease_end(self, task_id):
        """When the lease of a task ends, in seconds."""
        listed = await self._leases.ListLeases(lease_pb2.ListLeasesRequest(), metadata=self._metadata)
        (end,) = (lease.expires_at.ToNanoseconds() / 1e9 for lease in listed.leases if lease.task_id == task_id)
        return end

    async def _connected(self):
        hosts = (await self._hosts.ListHosts(runtime_host_pb2.ListHostsRequest(), metadata=self._metadata)).hosts
        return {host.id: host for host in hosts if host.HasField("instance")}
