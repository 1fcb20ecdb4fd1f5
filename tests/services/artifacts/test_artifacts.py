"""Artifacts over gRPC and as REST gets them: what is refused names the field, and what is read is what was put."""

import hashlib

import grpc
import pytest
from google.api.httpbody_pb2 import HttpBody

from taskyard.v1 import artifact_pb2 as pb
from taskyard.v1 import task_pb2
from tests.cases import every_case
from tests.services.host_streams import held_lease

PART_BYTES = 65_536
DATA = bytes(range(256)) * 300
BAD = "bad_request"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
async def lease(server):
    """The lease of a running task, as fields of requests."""
    stream = await server.connect(credit=10)
    await server.submit()
    held = held_lease(await stream.task())
    return {"host_id": "host", "task_id": held.task_id, "fencing_token": held.fencing_token}


async def upload(server, lease, name="data", data=b"", media_type="", **fields):
    content = HttpBody(data=data, content_type=media_type)
    return await server.artifacts.UploadArtifact(
        pb.UploadArtifactRequest(name=name, content=content, **lease, **fields)
    )


async def put(server, lease, name="data", data=DATA, media_type="image/png"):
    """Upload an artifact in two parts."""
    await upload(server, lease, name, data[:PART_BYTES], media_type)
    rest = data[PART_BYTES:]
    return await upload(server, lease, name, rest, media_type, offset=min(PART_BYTES, len(data)), sha256=sha256(data))


async def read(server, task_id, name="data", metadata=None, **fields):
    """The bytes that a reader gets, the media type, and the metadata."""
    call = server.artifacts.ReadArtifact(
        pb.ReadArtifactRequest(task_id=task_id, name=name, **fields), metadata=metadata
    )
    bodies = [body async for body in call]
    return b"".join(body.data for body in bodies), bodies[0].content_type, dict(tuple(await call.initial_metadata()))


async def test_what_was_put_is_read_whole_and_by_range(server, lease):
    uploaded = await put(server, lease)
    assert (uploaded.received_bytes, uploaded.artifact.size_bytes) == (len(DATA), len(DATA))
    assert (uploaded.artifact.sha256, uploaded.artifact.media_type) == (sha256(DATA), "image/png")
    task_id = lease["task_id"]
    assert (await read(server, task_id))[:2] == (DATA, "image/png")
    assert (await read(server, task_id, offset=PART_BYTES - 1, length=2))[0] == DATA[PART_BYTES - 1 : PART_BYTES + 1]
    assert (await read(server, task_id, offset=len(DATA)))[0] == b""
    fetched = server.artifacts.FetchArtifact(pb.FetchArtifactRequest(name="data", offset=7, length=3, **lease))
    assert [body.data async for body in fetched] == [DATA[7:10]]


async def test_a_task_shows_its_artifacts(server, lease):
    uploaded = await put(server, lease)
    task = await server.tasks.GetTask(task_pb2.GetTaskRequest(task_id=lease["task_id"]))
    assert list(task.artifacts) == [uploaded.artifact]
    assert uploaded.artifact.attempt == 1


@every_case(
    ("fields", "said"),
    {
        "no name": ({"data": b"x", "name": ""}, "name: must have 1 to 128"),
        "a path": ({"data": b"x", "name": "../x"}, "name: must have 1 to 128"),
        "a hidden one": ({"data": b"x", "name": ".x"}, "name: must have 1 to 128"),
        "a long one": ({"data": b"x", "name": "x" * 129}, "name: must have 1 to 128"),
        "no bytes": ({}, "content: is required"),
        "a hash of another length": ({"data": b"x", "sha256": "00"}, "sha256: must be 64 hex digits"),
        "another hash": ({"data": b"x", "sha256": sha256(b"y")}, "sha256: what has come, 1 bytes, has another"),
        "a fraction": ({"data": b"x", "offset": 0.5}, "offset: must be a whole number"),
        "below zero": ({"data": b"x", "size_bytes": -1}, "size_bytes: must be a whole number"),
        "more than it said": ({"data": b"xy", "size_bytes": 1}, "size_bytes: is 1, but with this part 2 bytes"),
        "less": (
            {"data": b"x", "size_bytes": 2, "sha256": sha256(b"x")},
            "size_bytes: is 2, but with this part 1 bytes",
        ),
        "no number": ({"data": b"x", "offset": float("nan")}, "offset: must be a whole number"),
        "a gap": ({"data": b"x", "offset": 5}, "offset: must be "),
        "no media type": ({"data": b"x", "media_type": "text"}, "content.content_type: must be a media type"),
        "a line break": ({"data": b"x", "media_type": "a/b\r\nx: y"}, "content.content_type: must be a media type"),
        "too much at once": ({"data": bytes((1 << 20) + 1)}, "content: must have at most 1048576 bytes"),
    }.values(),
)
async def test_a_malformed_part_is_refused_and_names_the_field(server, lease, refused, fields, said):
    error = await refused(upload(server, lease, **fields))
    assert (error.code, error.message.startswith(said)) == (BAD, True), error.message


async def test_a_reader_that_goes_in_the_middle_is_no_fault(server, lease, refused, log_lines, monkeypatch):
    await put(server, lease)

    async def gone(*_):
        yield DATA[:PART_BYTES]
        # As grpc raises it where it writes, mostly before it cancels the call.
        raise grpc.aio.InternalError

    monkeypatch.setattr(server.engine.artifacts, "read", gone)
    assert (await refused(read(server, lease["task_id"]))).code == "unavailable"
    assert [line for line in log_lines if line["log_level"] == "error"] == []


async def test_without_a_token_or_under_another_lease_nothing_is_taken(server, lease, refused):
    error = await refused(upload(server, {**lease, "fencing_token": 0}, data=b"x"))
    assert (error.code, error.message) == (BAD, "fencing_token: is required")
    error = await refused(upload(server, {**lease, "fencing_token": lease["fencing_token"] + 1}, data=b"x"))
    assert error.code == "lease_lost"
    error = await refused(upload(server, {**lease, "task_id": "tsk_none"}, data=b"x"))
    assert error.code == "not_found"


async def test_an_offset_behind_the_end_is_out_of_range(server, lease, refused):
    await put(server, lease)
    error = await refused(read(server, lease["task_id"], offset=len(DATA) + 1))
    assert (error.code, error.message) == ("out_of_range", f"offset: the artifact has {len(DATA)} bytes")
    error = await refused(read(server, lease["task_id"], name="other"))
    assert (error.code, error.message) == ("not_found", "artifact not found")


@every_case(
    ("asked", "status", "answered"),
    {
        "nothing": ({}, "200", (0, 10)),
        "a part": ({"range": "bytes=2-4"}, "206", (2, 5)),
        "from a place on": ({"range": "bytes=7-"}, "206", (7, 10)),
        "beyond the end": ({"range": "bytes=7-99"}, "206", (7, 10)),
        "the last ones": ({"range": "bytes=-3"}, "206", (7, 10)),
        "more than there are": ({"range": "bytes=-30"}, "206", (0, 10)),
        "several": ({"range": "bytes=0-1,4-5"}, "200", (0, 10)),
        "another unit": ({"range": "lines=0-1"}, "200", (0, 10)),
        "turned round": ({"range": "bytes=4-2"}, "200", (0, 10)),
        "of the same": ({"range": "bytes=2-4", "if-range": f'"{sha256(b"0123456789")}"'}, "206", (2, 5)),
        "of another": ({"range": "bytes=2-4", "if-range": '"another"'}, "200", (0, 10)),
    }.values(),
)
async def test_over_rest_a_range_is_taken(server, lease, by_rest, asked, status, answered):
    await put(server, lease, data=b"0123456789")
    data, _, told = await read(server, lease["task_id"], metadata=(*by_rest, *asked.items()))
    start, end = answered
    assert (data, told["x-http-status"]) == (b"0123456789"[start:end], status)
    assert told.get("content-range") == (f"bytes {start}-{end - 1}/10" if status == "206" else None)
    assert told["x-rest-length"] == str(end - start)


@every_case("asked", ["bytes=10-", "bytes=99-100", "bytes=-0"])
async def test_over_rest_a_range_behind_the_end_is_out_of_range(server, lease, by_rest, refused, asked):
    await put(server, lease, data=b"0123456789")
    error = await refused(read(server, lease["task_id"], metadata=(*by_rest, ("range", asked))))
    assert error.code == "out_of_range"


async def test_over_rest_an_answer_is_marked_so_that_nothing_of_it_runs(server, lease, by_rest):
    await put(server, lease, data=b"<script>", media_type="text/html")
    _, media_type, told = await read(server, lease["task_id"], metadata=by_rest)
    assert (media_type, told["x-rest-type"]) == ("text/html", "text/html")
    assert told["content-security-policy"].startswith("sandbox;")
    assert told["content-disposition"] == 'attachment; filename="data"'
    assert told["x-content-type-options"] == "nosniff"
    assert told["etag"] == f'"{sha256(b"<script>")}"'


async def test_a_submitter_attaches_to_a_held_task(server, refused):
    task_id = await server.submit(hold=True)
    content = HttpBody(data=b"params", content_type="application/json")
    request = pb.AttachArtifactRequest(task_id=task_id, name="params", content=content, sha256=sha256(b"params"))
    attached = await server.artifacts.AttachArtifact(request)
    assert (attached.artifact.name, attached.artifact.HasField("attempt")) == ("params", False)
    await server.tasks.ResumeTask(task_pb2.ResumeTaskRequest(task_id=task_id))
    error = await refused(server.artifacts.AttachArtifact(request))
    assert (error.code, error.message) == ("conflict", "task is not held")
