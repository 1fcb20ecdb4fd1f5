"""RuntimeHostService: the registry of hosts, their streams and their watches (docs/rules.md, Hosts)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import grpc

from taskyard.v1 import runtime_host_pb2 as pb
from taskyard.v1.runtime_host_pb2_grpc import RuntimeHostServiceServicer
from taskyard_server.access.authorization import check_offer
from taskyard_server.conversion import requests
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.task_encoding import assignment_encoder
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.core.hosts import Host, HostStatus
from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from taskyard_server.interceptors.callers import current_call

from .host_connection import HostConnection
from .host_reading import RequestStream
from .host_watches import HostWatches

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

STATUSES: Final = {status: pb.RuntimeHost.Status.Value(status.value) for status in HostStatus}


class RuntimeHostService(RuntimeHostServiceServicer):
    """Serves `taskyard.v1.RuntimeHostService`. Hosts are told of a task what `handed` makes of it."""

    def __init__(self, engine: Engine, max_payload_bytes: int, handed: Callable[[Task], Task] | None = None) -> None:
        self._encode = assignment_encoder(handed)
        self._engine = engine
        self._max_payload_bytes = max_payload_bytes
        self.watches = HostWatches(engine, self._message)

    async def Connect(  # type: ignore[override]  # noqa: N802
        self, request_iterator: RequestStream, context: Context
    ) -> None:
        connection = HostConnection(self._engine, self._max_payload_bytes, context, self._encode)
        await connection.serve(request_iterator)

    async def RegisterHost(  # noqa: N802
        self, request: pb.RegisterHostRequest, context: Context
    ) -> pb.RegisterHostResponse:
        del context
        namespace = current_call().namespace
        host_id, profile = requests.host_id(request.host_id), requests.host_profile(request)
        check_offer(current_call().access, host_id, profile)
        machine = requests.machine(request, self._max_payload_bytes)
        host = await self._engine.hosts.register(
            namespace,
            host_id,
            requests.name(request.display_name, "display_name"),
            profile,
            slots=request.slots if request.HasField("slots") else None,
            labels=requests.labels(request.labels, "labels"),
            show=self._message,
        )
        if machine is not None:
            host = await self._engine.hosts.heartbeat(namespace, host_id, None, machine, show=self._message)
        return pb.RegisterHostResponse(host=host)

    async def HeartbeatHost(  # noqa: N802
        self, request: pb.HeartbeatHostRequest, context: Context
    ) -> pb.HeartbeatHostResponse:
        del context
        host = await self._engine.hosts.heartbeat(
            current_call().namespace,
            requests.host_id(request.host_id),
            requests.host_status(request.status),
            requests.machine(request, self._max_payload_bytes),
            show=self._message,
        )
        return pb.HeartbeatHostResponse(host=host)

    async def DeregisterHost(  # noqa: N802
        self, request: pb.DeregisterHostRequest, context: Context
    ) -> pb.DeregisterHostResponse:
        del context
        await self._engine.hosts.deregister(current_call().namespace, requests.host_id(request.host_id))
        return pb.DeregisterHostResponse(deregistered=True)

    async def DrainHost(self, request: pb.DrainHostRequest, context: Context) -> pb.DrainHostResponse:  # noqa: N802
        del context
        secs = request.grace_period_secs if request.HasField("grace_period_secs") else None
        host = await self._engine.hosts.drain(
            current_call().namespace, requests.host_id(request.host_id), secs, show=self._message
        )
        return pb.DrainHostResponse(host=host)

    async def ListHosts(self, request: pb.ListHostsRequest, context: Context) -> pb.ListHostsResponse:  # noqa: N802
        del context
        listing = current_call().listing("hosts")
        after = listing.start(request.page_token)
        limit = page_size(request.page_size)

        def page(listed: list[Host]) -> pb.ListHostsResponse:
            hosts = [host for host in listed if not host.built_in]
            response = pb.ListHostsResponse(hosts=[self._message(host) for host in hosts[:limit]])
            if len(hosts) > limit:
                response.next_page_token = listing.token(hosts[limit - 1].number)
            return response

        return await self._engine.hosts.list_hosts(current_call().namespace, after, show=page)

    async def WatchHosts(self, request: pb.WatchHostsRequest, context: Context) -> None:  # type: ignore[override]  # noqa: N802
        del request
        await self.watches.watch(current_call().namespace, context)

    def _message(self, host: Host) -> pb.RuntimeHost:
        """A host in its current state as a message (docs/rules.md, Liveness)."""
        now, limits = self._engine.now(), self._engine.limits
        status = host.status(now, limits.heartbeat_timeout_secs, limits.dead_heartbeat_threshold)
        message = pb.RuntimeHost(
            id=host.id,
            display_name=host.display_name,
            capabilities=sorted(host.profile.capabilities),
            registered_at=timestamp(host.registered_at),
            last_heartbeat_at=timestamp(host.last_heartbeat_at),
            online=host.online(now, limits.heartbeat_timeout_secs),
            status=STATUSES[status],
            slots=host.slots,
            leases=len(host.leases),
            project=host.profile.project,
            actions=sorted(host.profile.actions or ()),
            labels=dict(host.labels),
            draining=host.draining or None,
            instance=host.instance if host.stream is not None else None,
            lost_at=None if host.lost_at is None else timestamp(host.lost_at),
        )
        if host.machine is not None:
            message.machine.MergeFromString(host.machine)
        return message
