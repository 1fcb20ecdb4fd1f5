"""The places where callers reach a server: its servers of gRPC, the gateway, and the certificates of both."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import grpc

from taskyard_server.gateway.gateway import Gateway
from taskyard_server.net.certificates import CertificateError, CertificateFiles, certificate_files, replica_files
from taskyard_server.net.exposure import authentication_is_on
from taskyard_server.replicas.serving import ReplicaServing
from taskyard_server.settings.config import Settings

from .listening import Servers, gateway_of
from .service_set import ServiceSet


class StartError(Exception):
    """The control plane cannot start; the text is one line for the operator."""


class Endpoints:
    """The servers of gRPC and the gateway. Raises `StartError` for settings that do not fit.

    `interceptor` makes the one of a server, and is told whether its callers may show certificates. A guest listens at
    the address `of_guest` instead of that of the settings.
    """

    def __init__(
        self,
        settings: Settings,
        interceptor: Callable[[bool], grpc.aio.ServerInterceptor],
        sharing: ReplicaServing | None,
        of_guest: str | None,
    ) -> None:
        is_replica = settings.replicas.advertise is not None
        if is_replica and not settings.gateway:
            raise StartError("replicas.advertise: needs the gateway, since that carries calls to other replicas")
        self._sharing = sharing
        self._address = of_guest or settings.replicas.listens_on or settings.grpc
        by_grpc, by_gateway = settings.tls.client_ca is not None, settings.gateway_tls.client_ca is not None
        self._servers = Servers(
            None if is_replica else interceptor(by_grpc),
            interceptor(by_gateway or (is_replica and by_grpc)) if settings.gateway else None,
            is_limited=authentication_is_on(settings),
            has_replicas=is_replica,
            is_guest=of_guest is not None,
        )
        try:
            self.certificates: CertificateFiles | None = certificate_files("tls", settings.tls)
            self._replica_files = replica_files(settings.replicas)
            self._gateway: Gateway | None = None
            if settings.gateway:
                self._gateway = gateway_of(settings, self.certificates, self._replica_files)
        except CertificateError as error:
            raise StartError(str(error)) from None

    @property
    def has_gateway(self) -> bool:
        """True if callers of REST are served."""
        return self._gateway is not None

    def listen(self, services: ServiceSet) -> None:
        """Take the ports, for these services. Raises `StartError`."""
        services.add_to(self._servers)
        try:
            if self._replica_files is None:
                self._servers.listen(self._address, self.certificates)
            else:
                self._servers.listen_for_replicas(self._address, self._replica_files)
        except CertificateError as error:
            raise StartError(str(error)) from None
        except RuntimeError:
            raise StartError(
                f"cannot listen on {self._address}: the port is taken or the address is not ours"
            ) from None
        if self._gateway is not None:
            self._servers.listen_for_gateway(self._gateway.make_server_socket())

    async def start(self) -> None:
        """Serve. Raises `GatewayError`."""
        await self._servers.start()
        if self._gateway is not None:
            await self._gateway.start()
            if self._sharing is not None:
                self._sharing.carry_by(self._gateway.carrier)

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """The work that goes on as long as the server serves."""
        # Where there are files of a replica the gateway shows the certificates, and looks after them.
        return [self.certificates.watch()] if self.certificates is not None and self._replica_files is None else []

    async def stop(self, grace_secs: float | None) -> None:
        """Stop; calls under way have this many seconds, and none if it is None."""
        if self._gateway is not None:
            await self._gateway.stop()
        await self._servers.stop(grace_secs)
