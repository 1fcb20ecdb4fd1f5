"""What telemetry costs a server: processor time a call and a task, with 1 % of the calls traced, all, and without it.

The ceiling is the same server without telemetry, in the same run. What is sent goes to a collector in this process that
reads nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import servers
from end_to_end import flow_flags
from rows import Aim, Case, Figure, Measure, Row

REMARK = "the ceiling is the same server without telemetry"
UNARY = {"connections": 4, "inflight": 32}
SECS = 4.0
CALL, TASK = "unary submit, server CPU a call", "end to end, server CPU a task"


def cases() -> list[Case]:
    """Rows for calls alone, and for tasks that are submitted, handed out and reported."""
    flow = flow_flags(4)
    return [
        _case(f"{CALL}, 1 % traced", "submit", UNARY, 0.01),
        _case(f"{TASK}, 1 % traced", "flow", flow, 0.01),
        _case(f"{CALL}, all traced", "submit", UNARY, 1.0),
    ]


def _case(name: str, mode: str, flags: dict[str, Any], ratio: float) -> Case:
    return Case(
        (Row(name, "us", better="less", aim=Aim(1.1) if ratio < 1 else None, remark=REMARK),),
        lambda: _observed(mode, flags, ratio),
        lambda: _alone(mode, flags),
        secs=SECS,
    )


@contextmanager
def _observed(mode: str, flags: dict[str, Any], ratio: float) -> Iterator[Measure]:
    with _collector() as endpoint:
        telemetry = {"endpoint": endpoint, "sampleRatio": ratio}
        with servers.taskyard(settings={**servers.SETTINGS, "telemetry": telemetry}) as server:
            yield _cpu(server, mode, flags)


@contextmanager
def _alone(mode: str, flags: dict[str, Any]) -> Iterator[Measure]:
    with servers.taskyard() as server:
        yield _cpu(server, mode, flags)


def _cpu(server: servers.Server, mode: str, flags: dict[str, Any]) -> Callable[[float], list[Figure]]:
    def measure(secs: float) -> list[Figure]:
        result = servers.load(mode, server, secs, **flags)
        return [Figure(result.server_cpu_secs / result.operations * 1e6)]

    return measure


class _Everything(grpc.GenericRpcHandler):
    """Answers every call with a message in which nothing is set."""

    def service(self, _: grpc.HandlerCallDetails) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda _, __: b"")


@contextmanager
def _collector() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((_Everything(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop(None).wait()
