"""A call whose headers came in time and whose message comes later is judged when that has come."""

import socket
import struct
import time
from collections.abc import Iterator

import grpc
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ResponseReceived, TrailersReceived

from taskyard.v1 import access_pb2, token_pb2, token_pb2_grpc
from tests.access.yards import Yard, yard

SECS = 20.0
CREATE_TOKEN = "/taskyard.v1.TokenService/CreateToken"
ADMIN = token_pb2.Grant(role=access_pb2.admin)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with yard(tmp_path_factory.mktemp("yard")) as made:
        yield made


class LateCall:
    """A call on a connection of its own, whose message comes when it is told so."""

    def __init__(self, wire: socket.socket, path: str, secret: str) -> None:
        self._wire = wire
        self._http = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._http.initiate_connection()
        self._stream = self._http.get_next_available_stream_id()
        named = {":method": "POST", ":scheme": "http", ":authority": "localhost", ":path": path}
        credential = ("authorization", f"Bearer {secret}")
        headers = [*named.items(), ("content-type", "application/grpc"), ("te", "trailers"), credential]
        self._http.send_headers(self._stream, headers)
        wire.sendall(self._http.data_to_send())

    def send(self, message: bytes) -> int:
        """The status of the call after its message."""
        self._http.send_data(self._stream, struct.pack(">BI", 0, len(message)) + message, end_stream=True)
        self._wire.sendall(self._http.data_to_send())
        while True:
            for event in self._http.receive_data(self._wire.recv(65_536)):
                if isinstance(event, ResponseReceived | TrailersReceived):
                    found = dict(event.headers)
                    if "grpc-status" in found:
                        return int(found["grpc-status"])


@pytest.mark.parametrize("ends", ["revoked", "expired", "not at all"])
def test_a_credential_that_ends_before_the_message_comes_does_not_hold(made, ends):
    request = token_pb2.CreateTokenRequest(name="made late", grants=[ADMIN])
    with grpc.insecure_channel(made.address) as channel:
        tokens = token_pb2_grpc.TokenServiceStub(channel)
        ttl = {"ttl_secs": 1} if ends == "expired" else {}
        first = tokens.CreateToken(
            token_pb2.CreateTokenRequest(name="first", grants=[ADMIN], **ttl), metadata=made.metadata("admin")
        )
        with socket.create_connection(made.address.split(":"), timeout=SECS) as wire:
            call = LateCall(wire, CREATE_TOKEN, first.secret)
            own = (("authorization", f"Bearer {first.secret}"),)
            tokens.WhoAmI(token_pb2.WhoAmIRequest(), metadata=own)
            if ends == "revoked":
                revoke = token_pb2.RevokeTokenRequest(token_id=first.token.token_id)
                tokens.RevokeToken(revoke, metadata=made.metadata("admin"))
            elif ends == "expired":
                time.sleep(max(0.0, first.token.expires_at.ToMilliseconds() / 1_000 - time.time() + 0.1))
            status = call.send(request.SerializeToString())
    expected = grpc.StatusCode.OK if ends == "not at all" else grpc.StatusCode.UNAUTHENTICATED
    assert status == expected.value[0]
