"""Artifacts between callers and the engine: parts that are checked, artifacts as they are shown, ranges of bytes."""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from taskyard.v1 import artifact_pb2 as pb
from taskyard_server.core.errors import BadRequest, OutOfRange
from taskyard_server.core.history import Artifact
from taskyard_server.core.runs.artifacts import Part

from .requests import path_name
from .timestamps import timestamp

MEDIA_TYPE: Final = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}( *;[\x20-\x7e]{0,127})?", re.ASCII)
DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"
SHA256: Final = re.compile("[0-9a-fA-F]{64}")
RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
MAX_WHOLE: Final = 1 << 53


Uploading: TypeAlias = pb.UploadArtifactRequest | pb.AttachArtifactRequest


def new_part(request: Uploading) -> Part:
    """The part of an artifact that a request carries. Raises `BadRequest`."""
    media_type = request.content.content_type or DEFAULT_MEDIA_TYPE
    if not MEDIA_TYPE.fullmatch(media_type):
        raise BadRequest("content.content_type: must be a media type, such as image/png")
    if request.sha256 and not SHA256.fullmatch(request.sha256):
        raise BadRequest("sha256: must be 64 hex digits")
    if not request.content.data and not request.sha256:
        raise BadRequest("content: is required, but for the last part, which has the sha256")
    name, offset, data = path_name(request.name, "name"), _whole(request.offset, "offset"), request.content.data
    size, sha256 = _whole(request.size_bytes, "size_bytes") or None, bytes.fromhex(request.sha256) or None
    come = offset + len(data)
    if size is not None and (come > size or (sha256 and come < size)):
        raise BadRequest(f"size_bytes: is {size}, but with this part {come} bytes have come")
    return Part(name, media_type, offset, data, size, sha256)


def artifact_message(artifact: Artifact) -> pb.Artifact:
    """An artifact as it is shown."""
    return pb.Artifact(
        name=artifact.name,
        media_type=artifact.media_type,
        size_bytes=artifact.size,
        sha256=artifact.sha256.hex(),
        attempt=artifact.attempt or None,
        created_at=timestamp(artifact.at),
    )


def bytes_of(request: pb.ReadArtifactRequest | pb.FetchArtifactRequest, size: int) -> tuple[int, int]:
    """The bytes of an artifact of this size that a request asks for, from one place to before another.

    Raises `BadRequest`, and `OutOfRange` for an offset behind the end.
    """
    start, length = _whole(request.offset, "offset"), _whole(request.length, "length")
    if start > size:
        raise OutOfRange(f"offset: the artifact has {size} bytes")
    return start, min(start + length, size) if length else size


def range_of(header: str, size: int) -> tuple[int, int] | None:
    """The bytes for which a header `Range` asks, as RFC 9110 has it; None if it asks for anything else than one range.

    Raises `OutOfRange` if there are none of them.
    """
    found = RANGE.fullmatch(header.strip())
    if found is None or (not found[1] and not found[2]):
        return None
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(int(found[2] or size) + 1, size)
        if found[2] and int(found[2]) < start:
            return None
    if start >= size or start >= end:
        raise OutOfRange(f"range: the artifact has {size} bytes")
    return start, end


def _whole(number: float, field: str) -> int:
    # Written so that NaN is refused, too.
    if not 0 <= number <= MAX_WHOLE or number != int(number):
        raise BadRequest(f"{field}: must be a whole number from 0 to 2^53")
    return int(number)
