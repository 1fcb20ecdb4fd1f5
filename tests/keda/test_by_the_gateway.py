"""KEDA may come by the gateway, as every gRPC caller (docs/operate/keda.md)."""

import json

import grpc
import pytest

from taskyard_server.keda import externalscaler_pb2 as pb
from taskyard_server.keda.externalscaler_pb2_grpc import ExternalScalerStub
from tests.gateway.control_plane import control_plane


def test_the_gateway_passes_calls_and_refusals_on(tmp_path):
    config = tmp_path / "taskyard.json"
    config.write_text(json.dumps({"scheduler": {"pools": {"crawlers": {}}}}))
    with (
        control_plane("--config", str(config), "--store", "memory://") as plane,
        grpc.insecure_channel(plane.url.removeprefix("http://")) as channel,
    ):
        scaler = ExternalScalerStub(channel)
        known, unknown = (pb.ScaledObjectRef(scalerMetadata={"pool": name}) for name in ("crawlers", "nobody"))
        assert scaler.IsActive(known, timeout=20).result is False
        assert next(scaler.StreamIsActive(known, timeout=20)).result is False
        with pytest.raises(grpc.RpcError) as refused:
            scaler.IsActive(unknown, timeout=20)
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        assert refused.value.details() == "pool: 'nobody' is not among scheduler.pools"
