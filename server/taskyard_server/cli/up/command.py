"""`taskyard up`: run the control plane until Ctrl-C. `serving.py` does it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from taskyard_server.cli.failure import Failure
from taskyard_server.cli.settings_options import ConfigOption, StoreOption

from .lean_imports import lean_imports

if TYPE_CHECKING:
    from .secure_folder import SecureFolder

GRPC: Final = "127.0.0.1:50051"
REST: Final = "127.0.0.1:9867"
METRICS: Final = "127.0.0.1:9464"
"""The addresses that the settings have by themselves, for the help."""


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


GrpcOption = Annotated[str | None, typer.Option(help="Where to serve gRPC, HOST:PORT.", show_default=GRPC)]
RestOption = Annotated[str | None, typer.Option(help="Where to serve REST, HOST:PORT.", show_default=REST)]
MetricsOption = Annotated[str | None, typer.Option(help="Where Prometheus scrapes, HOST:PORT.", show_default=METRICS)]
AcceptClockOption = Annotated[
    bool, typer.Option("--accept-clock", help="Start although the clock is behind what the store holds; shifts that.")
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Let other machines call although TLS and authentication are not set.")
]
SecureOption = Annotated[
    Path | None,
    typer.Option(help="Serve with TLS, roles and an audit log: the folder of what they need, made at the first start."),
]
SecureNamesOption = Annotated[
    list[str] | None,
    typer.Option("--secure-name", help="With --secure, a name or address that others call it by; may be repeated."),
]
AdvertiseOption = Annotated[
    str | None, typer.Option(help="Where other replicas on the same store reach this one, HOST:PORT.")
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(hidden=True),
]
ExecutorOption = Annotated[str | None, typer.Option(help="Base URL that tab actions go to.")]
GatewayOption = Annotated[bool | None, typer.Option("--gateway/--no-gateway", help="Run the Envoy gateway.")]
LogFileOption = Annotated[Path | None, typer.Option(help="A file to log to besides, as JSON; it is rotated.")]
LogLevelOption = Annotated[LogLevel, typer.Option(help="The least that is logged.")]


def up(
    config_file: ConfigOption = None,
    grpc: GrpcOption = None,
    rest: RestOption = None,
    metrics: MetricsOption = None,
    store: StoreOption = None,
    accept_clock: AcceptClockOption = False,
    insecure: InsecureOption = False,
    secure: SecureOption = None,
    secure_names: SecureNamesOption = None,
    advertise: AdvertiseOption = None,
    processes: ProcessesOption = None,
    executor: ExecutorOption = None,
    gateway: GatewayOption = None,
    log_file: LogFileOption = None,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Run the control plane: the gRPC server, the REST gateway, and the tab executor."""
    given = {
        "grpc": grpc,
        "rest": rest,
        "metrics": metrics,
        "store": None if store is None else {"url": store},
        "replicas": None if advertise is None else {"advertise": advertise},
        "processes": processes,
        "executor": executor,
        "gateway": gateway,
        "log": None if log_file is None else {"file": log_file},
    }
    flags: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    # What it needs takes long to import, which the help does not wait for.
    with lean_imports():
        from .serving import serve

        secured = _secured(secure, secure_names, config_file, flags)
    serve(config_file, flags, log_level.value, accept_clock=accept_clock, insecure=insecure, secured=secured)


def _secured(
    folder: Path | None, names: Sequence[str] | None, config_file: Path | None, flags: dict[str, Any]
) -> SecureFolder | None:
    if folder is None:
        if names:
            raise Failure("--secure-name: needs --secure")
        return None
    if config_file is not None:
        raise Failure(f"--config: with --secure the settings are in {folder / 'taskyard.json'}")
    # It takes a while to import, and few need it.
    from .secure_folder import secure_folder

    return secure_folder(folder, names or (), flags)
