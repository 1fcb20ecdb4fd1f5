"""Output between hosts, the engine and readers: chunks that are checked and encoded once, as readers get them.

A chunk is encoded without its number, which the engine gives it. Then it stands as a field `chunks` of the answers that
readers get, so that a row of a store is a part of an answer (docs/rules.md, Output).
"""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

from taskyard.v1 import output_pb2 as pb
from taskyard_server.core.errors import BadRequest, Refusal, TooLarge
from taskyard_server.core.runs.outputs import Appended, Saying

from .payload import MAX_DEPTH, is_json, is_too_deep, message_to_json
from .report_requests import fencing_token
from .wire import LAST, add_nested, add_text, add_timestamp, add_varint, nested, tag

MAX_CHUNK_BYTES: Final = 65_536
CHANNEL: Final = re.compile(r"[\w./-]{1,64}", re.ASCII)
DEFAULT_CHANNEL: Final = "output"
CHUNKS: Final = tag(pb.ReadOutputResponse, "chunks")
SEQUENCE: Final = tag(pb.OutputChunk, "sequence")
CHANNEL_FIELD: Final = tag(pb.OutputChunk, "channel")
ATTEMPT: Final = tag(pb.OutputChunk, "attempt")
TAKEN_AT: Final = tag(pb.OutputChunk, "taken_at")
TEXT: Final = tag(pb.OutputChunk, "text")
JSON: Final = tag(pb.OutputChunk, "json")
BINARY: Final = LAST[pb.OutputChunk.DESCRIPTOR.fields_by_name["binary"].number << 3 | 2]

Said: TypeAlias = pb.LeaseOutput | pb.AppendOutputRequest


class NewChunks(Saying):
    """Chunks that a host says under a lease, and each of them encoded without its own number."""

    __slots__ = ("bodies",)

    def __init__(self, task_id: str, token: int, number: int, bodies: list[bytes]) -> None:
        super().__init__(task_id, token, number, [len(body) for body in bodies])
        self.bodies = bodies


def new_chunks(said: Said) -> NewChunks:
    """The chunks that a host says under one lease. Raises `BadRequest` or `TooLarge`."""
    token = fencing_token(said.fencing_token)
    number, chunks = said.number, said.chunks
    if not number:
        raise BadRequest("number: is required; the first chunk of a lease is 1")
    if not chunks:
        raise BadRequest("chunks: is required")
    return NewChunks(said.task_id, token, number, [_body(chunk, index) for index, chunk in enumerate(chunks)])


def new_chunks_of(leases: Sequence[pb.LeaseOutput]) -> list[NewChunks | Refusal]:
    """The chunks of each lease of a message; those with anything wrong are returned as their refusal."""
    converted: list[NewChunks | Refusal] = []
    for said in leases:
        try:
            converted.append(new_chunks(said))
        except Refusal as refusal:
            converted.append(refusal.with_traceback(None))
    return converted


def encoder(all_chunks: Sequence[NewChunks]) -> Callable[[int, Appended, float], list[bytes]]:
    """Makes of the chunks of a saying that were not taken before what is told of them."""

    def encode(index: int, taken: Appended, at: float) -> list[bytes]:
        attempt = taken.task.history.last_number + 1
        return numbered(all_chunks[index].bodies[taken.repeated :], taken.first, attempt, at)

    return encode


def numbered(bodies: Sequence[bytes], first: int, attempt: int, at: float) -> list[bytes]:
    """The fields `chunks` of answers, of chunks that were taken at a time; the first has the number `first`."""
    end: list[bytes] = [ATTEMPT]
    add_varint(end, attempt)
    add_timestamp(end, TAKEN_AT, at)
    tail = b"".join(end)
    fields = []
    for number, body in enumerate(bodies, first):
        parts: list[bytes] = [SEQUENCE]
        add_varint(parts, number)
        parts += (body, tail)
        fields.append(nested(CHUNKS, b"".join(parts)))
    return fields


def selected(chunks: bytes, after: int, channels: frozenset[str]) -> bytes:
    """Encoded chunks, without those up to a number, and without those of other channels if any are given."""
    message = pb.ReadOutputResponse.FromString(chunks)
    wanted = [each for each in message.chunks if each.sequence > after and (not channels or each.channel in channels)]
    return pb.ReadOutputResponse(chunks=wanted).SerializeToString()


def channels_of(names: Iterable[str]) -> frozenset[str]:
    """The channels that a request selects. Raises `BadRequest`."""
    for index, name in enumerate(names):
        if not CHANNEL.fullmatch(name):
            raise BadRequest(f"channels[{index}]: {CHANNEL_RULE}")
    return frozenset(names)


def chunk_event(chunk: pb.OutputChunk) -> bytes:
    """A chunk as a server-sent event."""
    return event(json.dumps(message_to_json(chunk), ensure_ascii=False, separators=(",", ":")), number=chunk.sequence)


def event(data: str, name: str = "", number: int | None = None) -> bytes:
    """A server-sent event whose data is one line."""
    lines = [f"event: {name}"] if name else []
    lines += [f"id: {number}"] if number is not None else []
    return "\n".join([*lines, f"data: {data}", "", ""]).encode()


def chunk_text(chunk: pb.OutputChunk) -> bytes:
    """A chunk as text: text and bytes as they are, JSON as a line."""
    kind = chunk.WhichOneof("data")
    if kind == "text":
        return chunk.text.encode()
    if kind == "binary":
        return chunk.binary
    return (json.dumps(_plain(chunk), ensure_ascii=False) + "\n").encode()


def _plain(chunk: pb.OutputChunk) -> Any:
    return message_to_json(chunk).get("json")


CHANNEL_RULE: Final = "must have 1 to 64 letters, digits, `.`, `_`, `-` or `/`"


def _body(chunk: pb.NewChunk, index: int) -> bytes:
    """An `OutputChunk` without its number, attempt and time."""
    channel: str = chunk.channel
    parts: list[bytes] = []
    if channel and not CHANNEL.fullmatch(channel):
        raise BadRequest(f"chunks[{index}].channel: {CHANNEL_RULE}")
    add_text(parts, CHANNEL_FIELD, channel or DEFAULT_CHANNEL)
    kind = chunk.WhichOneof("data")
    if kind == "text":
        data = chunk.text.encode()
        add_nested(parts, TEXT, data)
    elif kind == "binary":
        data = chunk.binary
        add_nested(parts, BINARY, data)
    elif kind == "json":
        data = chunk.json.SerializeToString()
        if is_too_deep(chunk.json, data):
            raise BadRequest(f"chunks[{index}].json: must not nest deeper than {MAX_DEPTH} levels")
        if not is_json(chunk.json, data):
            raise BadRequest(f"chunks[{index}].json: must not hold a number that JSON has not, such as NaN")
        add_nested(parts, JSON, data)
    else:
        raise BadRequest(f"chunks[{index}]: one of text, json and binary is required")
    if len(data) > MAX_CHUNK_BYTES:
        raise TooLarge(f"chunks[{index}].{kind}: must be at most {MAX_CHUNK_BYTES} bytes when encoded, is {len(data)}")
    return b"".join(parts)
