"""The recipes of docs/use/fencing.md: what an earlier task writes late is refused, whatever keeps it."""

import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import boto3
import httpx
import moto
import pytest

from examples.fencing import http, s3, sql

ROOT = Path(__file__).parents[2]
URL = "/ada"


@pytest.fixture
def in_sql(tmp_path):
    """Writes and reads a row. Each write has a connection of its own, as hosts have."""
    path = tmp_path / "pages.db"
    sqlite3.connect(path).execute(sql.TABLE)

    def write(token: int) -> bool:
        return sql.write_links(sqlite3.connect(path), token, URL, token)

    return write, lambda: sqlite3.connect(path).execute("SELECT links FROM pages").fetchone()[0]


@pytest.fixture
def over_http():
    """Writes and reads a page of a service."""
    http.Pages.kept.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), http.Pages) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        with httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}") as service:
            yield (
                lambda token: http.put_page(service, token, URL, str(token).encode()),
                lambda: int(http.Pages.kept[URL][1]),
            )
        server.shutdown()


@pytest.fixture
def in_s3(monkeypatch):
    """Writes and reads an object of a bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with moto.mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="pages")
        put_object, lock = client.put_object, Lock()

        def put_in_one_step(**words):
            # S3 looks at the condition and writes in one step. moto does so in two, between which others may write.
            with lock:
                return put_object(**words)

        monkeypatch.setattr(client, "put_object", put_in_one_step)
        yield (
            lambda token: s3.put_object(client, token, "pages", URL, str(token).encode()),
            lambda: int(client.get_object(Bucket="pages", Key=URL)["Body"].read()),
        )


@pytest.fixture(params=["in_sql", "over_http", "in_s3"])
def kept(request):
    return request.getfixturevalue(request.param)


def test_a_later_task_overwrites_an_earlier_one(kept):
    write, read = kept
    assert [write(5), read(), write(7), read()] == [True, 5, True, 7]


def test_what_an_earlier_task_writes_late_is_refused(kept):
    write, read = kept
    assert [write(7), write(5), read()] == [True, False, 7]


def test_a_task_may_write_twice(kept):
    write, read = kept
    assert [write(7), write(7), read()] == [True, True, 7]


def test_of_many_at_once_the_last_task_wins(kept):
    write, read = kept
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, [3, 9, 1, 8, 2, 7, 4, 6, 5]))
    assert read() == 9


def test_an_object_that_changes_between_look_and_write_is_looked_at_again():
    class Bucket:
        """Another task writes between the look and the write."""

        tokens = iter([5, 9])

        def head_object(self, **_):
            return {"ETag": "old", "Metadata": {s3.TOKEN: str(next(self.tokens))}}

        def put_object(self, **_):
            raise s3.ClientError({"Error": {"Code": "PreconditionFailed"}}, "PutObject")

    assert not s3.put_object(Bucket(), 7, "pages", URL, b"")


def test_the_recipes_are_those_of_the_page():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/use/fencing.md").read_text(), re.DOTALL)
    code = "".join((ROOT / "examples" / "fencing" / f"{name}.py").read_text() for name in ("sql", "http", "s3"))
    assert len(blocks) == 4
    # The first one shows a handler.
    assert [block for block in blocks[1:] if block not in code] == []
