"""Traces, metrics and logs by OTLP (docs/operate/telemetry.md).

Nothing here is imported until an endpoint is set: what is needed of OpenTelemetry comes with the extra `otel`.
"""
