"""The start of telemetry: if it is on, and what it needs. This is all that a server without it imports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from taskyard_server.settings.config import ConfigError, Settings

from .parts import OFF, Telemetry

ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
)
PROTOCOL: Final = "OTEL_EXPORTER_OTLP_PROTOCOL"
MISSING: Final = "what sends telemetry is not installed: pip install 'taskyard[otel]'"


def configured_telemetry(
    settings: Settings, environment: Mapping[str, str] = os.environ
) -> tuple[Telemetry, str | None]:
    """The parts by which a server is observed, and why there are none although a variable names a collector.

    Variables may be set for all programs of a machine, so that what they ask for in vain is no error. Raises
    `ConfigError` where the settings ask for it in vain, or a variable cannot be read.
    """
    given = settings.telemetry.endpoint
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return OFF, None
    if given is None and not any(environment.get(name) for name in ENDPOINTS):
        return OFF, None
    protocol = environment.get(PROTOCOL) or "grpc"
    if given is None and protocol != "grpc":
        return OFF, f"{PROTOCOL}: only grpc is spoken, not {protocol}"
    try:
        from .signals import Signals
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("taskyard"):
            raise
        if given is None:
            return OFF, MISSING
        raise ConfigError(f"telemetry.endpoint: {MISSING}") from None
    try:
        endpoint = None if given is None else str(given)
        signals = Signals(endpoint, settings.telemetry.sample_ratio, settings.replicas.name, environment)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return signals.telemetry, None
