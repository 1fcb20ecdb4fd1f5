"""The settings of what is told to a collector of OpenTelemetry (docs/operate/telemetry.md)."""

from typing import Annotated

from pydantic import AfterValidator, Field, HttpUrl
from pydantic_core import PydanticCustomError

from .setting_types import Float, Section


def _check_endpoint(url: HttpUrl) -> HttpUrl:
    if url.username or url.password or (url.path or "/") != "/" or url.query or url.fragment:
        raise PydanticCustomError("endpoint", "must be http:// or https://, a host and a port, and nothing more")
    return url


Endpoint = Annotated[HttpUrl, AfterValidator(_check_endpoint)]


class TelemetrySettings(Section):
    """Traces, metrics and logs by OTLP."""

    endpoint: Endpoint | None = Field(
        default=None,
        description="Collector that takes OTLP over gRPC, such as `http://127.0.0.1:4317`. Without it "
        "`OTEL_EXPORTER_OTLP_ENDPOINT` counts, and without that nothing is sent. It needs the extra `otel`.",
    )
    sample_ratio: Annotated[Float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Share of the calls that are traced of those whose caller has not decided. Without it "
        "`OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG` count.",
    )
