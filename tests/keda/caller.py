"""Calls an external scaler as KEDA does, with stubs made of KEDA's own proto.

It is a process of its own, since the stubs of the server have the same names. Each line that it reads is a call as
JSON: method, address, ca, cert, key, and what the method takes. It prints the answer as a line of JSON, with `status`
and `message` where the call failed.
"""

import json
import sys
from typing import Any

import externalscaler_pb2 as pb
import externalscaler_pb2_grpc as pb_grpc
import grpc
from google.protobuf import json_format

SECS = 20.0


def call(asked: dict[str, Any]) -> Any:
    """The answer of one call; of a stream the first message."""
    method, pair = asked["method"], (asked["key"].encode(), asked["cert"].encode())
    credentials = grpc.ssl_channel_credentials(asked["ca"].encode(), *pair)
    about = pb.ScaledObjectRef(name="crawlers", namespace="kube", scalerMetadata=asked["metadata"])
    request: Any = about
    if method == "GetMetrics":
        request = pb.GetMetricsRequest(scaledObjectRef=about, metricName=asked.get("metric", ""))
    with grpc.secure_channel(asked["address"], credentials) as channel:
        try:
            answer = getattr(pb_grpc.ExternalScalerStub(channel), method)(request, timeout=SECS)
            if method.startswith("Stream"):
                answer = next(answer)
        except grpc.RpcError as error:
            return {"status": error.code().name, "message": error.details()}
    return json_format.MessageToDict(answer, always_print_fields_with_no_presence=True)


for line in sys.stdin:
    print(json.dumps(call(json.loads(line))), flush=True)
