"""The bytes of artifacts: the same from a folder, from memory and from S3; and an S3 that is slow, wrong or away."""

import socket
from contextlib import contextmanager
from threading import Event, Thread
from wsgiref.simple_server import WSGIRequestHandler, make_server

import boto3
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app

from taskyard_server.store import objects
from taskyard_server.store.objects import NoObject, Objects, ObjectsError

BUCKET = "yard"


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_):
        """See above."""


@contextmanager
def serving(app):
    """The port of an HTTP server."""
    server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def as_s3(monkeypatch):
    """Makes a port the S3 of this process."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return lambda port: monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")


@pytest.fixture(params=["folder", "memory", "s3"])
def stored(request, tmp_path, as_s3):
    if request.param == "folder":
        yield Objects(f"file://{tmp_path}/artifacts")
    elif request.param == "memory":
        yield Objects("memory:///")
    else:
        with serving(DomainDispatcherApplication(create_backend_app)) as port:
            as_s3(port)
            boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
            yield Objects(f"s3://{BUCKET}/artifacts")


async def paths(stored, prefix):
    return sorted([each.path async for found in stored.listed(prefix) for each in found])


async def test_an_object_is_read_as_it_was_written(stored):
    await stored.put("yard/1/2/0", b"hello")
    assert await stored.get("yard/1/2/0", 0, 5) == b"hello"
    assert await stored.get("yard/1/2/0", 1, 3) == b"el"
    await stored.put("yard/1/2/0", b"other")
    assert await stored.get("yard/1/2/0", 0, 5) == b"other"
    with pytest.raises(NoObject):
        await stored.get("yard/1/2/1", 0, 1)


async def test_what_is_below_a_folder_is_listed_and_removed(stored):
    for path in ("y/1/2/0", "y/1/2/1", "y/1/22/0", "y/2/2/0"):
        await stored.put(path, b"x" * 7)
    assert await paths(stored, "y/1/2") == ["y/1/2/0", "y/1/2/1"]
    assert await paths(stored, "y/1") == ["y/1/2/0", "y/1/2/1", "y/1/22/0"]
    assert await paths(stored, "y/3") == []
    assert [each.size async for found in stored.listed("y/2") for each in found] == [7]
    await stored.remove_below("y/1/2")
    await stored.remove(["y/2/2/0", "y/2/2/9"])
    assert await paths(stored, "y") == ["y/1/22/0"]


async def test_nothing_is_made_before_it_is_needed(tmp_path):
    stored = Objects(f"file://{tmp_path}/artifacts")
    assert stored.has_none
    assert list(tmp_path.iterdir()) == []
    await stored.put("a", b"x")
    assert not stored.has_none
    assert (tmp_path / "artifacts").stat().st_mode & 0o777 == 0o700


async def test_a_folder_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ObjectsError, match="exists"):
        await Objects(f"file://{tmp_path}/file").put("a", b"x")


@pytest.mark.parametrize(
    ("status", "body"),
    [("403 Forbidden", b"<Error><Code>AccessDenied</Code></Error>"), ("404 Not Found", b"<html>not S3</html>")],
)
async def test_an_s3_that_refuses_or_is_something_else_fails_each_call(as_s3, status, body):
    def app(environ, start):
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start(status, [("content-length", str(len(body)))])
        return [body]

    with serving(app) as port:
        as_s3(port)
        stored = Objects(f"s3://{BUCKET}/artifacts")
        for call in (stored.put("a", b"x"), paths(stored, "a")):
            with pytest.raises(ObjectsError):
                await call


async def test_an_s3_that_is_away_fails_each_call(as_s3):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        as_s3(taken.getsockname()[1])
        stored = Objects(f"s3://{BUCKET}/artifacts")
        with pytest.raises(ObjectsError):
            await stored.put("a", b"x")


async def test_an_s3_that_does_not_answer_fails_each_call_after_its_time(as_s3, monkeypatch):
    monkeypatch.setattr(objects, "TIMEOUT_SECS", 0.1)
    may_answer = Event()

    def app(_environ, start):
        may_answer.wait()
        start("200 OK", [])
        return []

    with serving(app) as port:
        as_s3(port)
        try:
            with pytest.raises(ObjectsError, match="no answer within"):
                await Objects(f"s3://{BUCKET}/artifacts").put("a", b"x")
        finally:
            may_answer.set()
