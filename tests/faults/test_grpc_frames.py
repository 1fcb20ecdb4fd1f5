"""Bodies that are no gRPC messages: nothing comes of them, and the others are served."""

import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, ResponseReceived, StreamReset, TrailersReceived

from taskyard.v1 import task_pb2, task_pb2_grpc
from tests.access.yards import Yard, yard
from tests.gateway.control_plane import ControlPlane, control_plane

pytestmark = pytest.mark.gate("fleets of processes")

SECS = 20.0
SEED = 20_261_122
RANDOM_BODIES = 60
MESSAGE = task_pb2.SubmitTaskRequest(agent_id="ann", action="click").SerializeToString()


def framed(message: bytes, length: int | None = None, compressed: int = 0) -> bytes:
    """A gRPC message, whose prefix may lie."""
    return struct.pack(">BI", compressed, len(message) if length is None else length) + message


BODIES = {
    "nothing": b"",
    "half a prefix": framed(MESSAGE)[:3],
    "a prefix without its message": framed(b"", 10),
    "less than the prefix says": framed(MESSAGE, len(MESSAGE) + 1),
    "more than the prefix says": framed(MESSAGE, len(MESSAGE) - 1),
    "a message of 4 GiB": framed(MESSAGE, 2**32 - 1),
    "compressed without an encoding": framed(b"\xff" * 50, compressed=1),
    "a flag that means nothing": framed(b"\xff" * 50, compressed=255),
    "a message of other bytes": framed(b"\xff" * 50),
    "text": b"GET / HTTP/1.1\r\n\r\n" * 20,
}


def random_bodies() -> dict[str, bytes]:
    """Bytes by chance, the same in each run."""
    source = random.Random(SEED)
    bodies = {}
    for number in range(RANDOM_BODIES):
        message = source.randbytes(source.choice((0, 1, 5, 40, 3_000)))
        length = source.choice((len(message), source.randrange(2**32)))
        prefixed = framed(message, length, source.choice((0, 0, 1, 7)))
        bodies[f"{SEED}-{number}"] = prefixed if source.random() < 0.7 else message
    return bodies


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with control_plane() as plane:
        yield plane


@contextmanager
def call_with(port: int, body: bytes) -> Iterator[tuple[socket.socket, H2Connection]]:
    """A call with this body, on a connection of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECS) as wire:
        connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        connection.initiate_connection()
        stream = connection.get_next_available_stream_id()
        path = "/taskyard.v1.TaskService/SubmitTask"
        named = {":method": "POST", ":scheme": "http", ":authority": f"localhost:{port}", ":path": path}
        connection.send_headers(stream, [*named.items(), ("content-type", "application/grpc"), ("te", "trailers")])
        connection.send_data(stream, body, end_stream=True)
        wire.sendall(connection.data_to_send())
        yield wire, connection


def status_of(wire: socket.socket, connection: H2Connection) -> str:
    """The gRPC status of a call, once it has come."""
    while data := wire.recv(65_536):
        for event in connection.receive_data(data):
            if isinstance(event, StreamReset | ConnectionTerminated):
                return f"reset: {event.error_code}"
            if isinstance(event, ResponseReceived | TrailersReceived):
                if "grpc-status" in (found := dict(event.headers)):
                    return str(found["grpc-status"])
                if event.stream_ended:
                    return f"HTTP {found[':status']}"
        wire.sendall(connection.data_to_send())
    return "closed"


@pytest.mark.parametrize("door", ["grpc", "rest"])
def test_calls_with_such_bodies_are_refused_at_once_and_hold_up_nobody(plane, door):
    port = plane.ports[door]
    with ExitStack() as opened:
        calls = [opened.enter_context(call_with(port, body)) for body in (BODIES | random_bodies()).values()]
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            for _ in range(20):
                request = task_pb2.SubmitTaskRequest(agent_id="bob", action="click")
                assert task_pb2_grpc.TaskServiceStub(channel).SubmitTask(request, timeout=SECS).task_id
            listed = task_pb2_grpc.TaskServiceStub(channel).ListTasks(
                task_pb2.ListTasksRequest(agent_id="ann"), timeout=SECS
            )
        assert "0" not in [status_of(*call) for call in calls]
    assert listed.count == 0


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("yard")) as made:
        yield made


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_stranger_is_refused_before_its_message_has_come(guarded, body):
    with call_with(guarded.plane.ports["grpc"], body) as call:
        assert status_of(*call) == str(grpc.StatusCode.UNAUTHENTICATED.value[0])
