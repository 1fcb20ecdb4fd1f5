"""The pytest plugin in projects of users, each with a run of pytest of its own."""

import subprocess
import sys
from pathlib import Path

from tests.environment import without_settings

ASYNCIO = ("-p", "pytest_asyncio.plugin", "-o", "asyncio_default_fixture_loop_scope=function")
ANYIO = ("-p", "anyio.pytest_plugin")

UNUSED = """
import sys

def test_nothing_heavy_is_imported():
    heavy = {"taskyard", "taskyard_server", "grpc", "google.protobuf", "asyncio"}
    assert not heavy & set(sys.modules)
"""

STRICT = """
import asyncio
import os

import pytest
import pytest_asyncio

from taskyard import Client


@pytest_asyncio.fixture
async def working(yard):
    yard.host({"work": lambda task: task.params})
    return yard


@pytest.mark.asyncio
async def test_fixtures_of_the_program_take_the_yard(working):
    async with Client(agent_id="program") as client:
        assert await client.run("work", params={"n": 1}) == {"n": 1}
    assert os.environ["TASKYARD_ADDRESS"] == working.address


@pytest.mark.asyncio(loop_scope="session")
async def test_in_the_loop_of_the_session(yard):
    yard.host({"work": lambda task: 2})
    assert await yard.client.run("work") == 2
    test_in_the_loop_of_the_session.loop = asyncio.get_running_loop()


@pytest.mark.asyncio(loop_scope="session")
async def test_in_the_loop_of_the_session_again(yard):
    yard.host({"work": lambda task: 3})
    assert await yard.client.run("work") == 3
    assert test_in_the_loop_of_the_session.loop is asyncio.get_running_loop()


def test_plain_functions_take_the_other(sync_yard):
    assert sync_yard.now.year == 2029


def test_plain_functions_cannot_take_it(yard):
    pass


@pytest.mark.asyncio
async def test_async_tests_cannot_take_the_plain_one(sync_yard):
    pass
"""

OPTIONS = """
from datetime import UTC, datetime, timedelta

import pytest

START = datetime(2031, 5, 1, tzinfo=UTC)


@pytest.mark.yard(start=START, store=True)
async def test_the_marker_says_how_it_is_made(yard):
    assert yard.now == START
    submitted = await yard.client.submit("later", hold=True)
    await yard.restart()
    assert (await yard.task(submitted)).state == "pending"


@pytest.mark.yard(settings={"scheduler": {"maxQueueSize": 1}})
def test_settings_are_those_of_the_server(sync_yard):
    from taskyard import QueueFull

    sync_yard.client.submit("work")
    with pytest.raises(QueueFull):
        sync_yard.client.submit("work")


@pytest.mark.yard(settings={"scheduler": {"maxQueueSize": "many"}})
def test_wrong_settings_are_named(sync_yard):
    pass


@pytest.mark.yard(begin=START)
def test_wrong_options_are_named(sync_yard):
    pass
"""

WITH_ANYIO = """
import pytest

pytestmark = [pytest.mark.gate("a run of pytest a test"), pytest.mark.anyio]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def test_anyio_runs_it(yard):
    yard.host({"work": lambda task: 1})
    assert await yard.client.run("work") == 1
    await yard.advance(days=1)
"""


def run(folder: Path, source: str, *options: str) -> tuple[dict[str, int], str]:
    """Run the tests of a file. Returns how many ended how, and what pytest has printed."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "--disable-plugin-autoload", *options]
    done = subprocess.run(
        [*command, "-p", "pytest_taskyard"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        env=without_settings() | {"PYTEST_ADDOPTS": ""},
    )
    assert "BlockingIOError" not in done.stderr
    words = done.stdout.strip().splitlines()[-1].split(" in ")[0].split(", ")
    return {word.split()[1].rstrip("s"): int(word.split()[0]) for word in words}, done.stdout + done.stderr


def test_who_does_not_use_it_does_not_pay_for_it(tmp_path):
    assert run(tmp_path, UNUSED)[0] == {"passed": 1}


def test_pytest_asyncio_runs_the_yard_in_the_loop_of_the_test(tmp_path):
    outcomes, text = run(tmp_path, STRICT, *ASYNCIO)
    assert outcomes == {"passed": 4, "error": 2}, text
    assert "yard: is for async tests; a plain function takes sync_yard" in text
    assert "sync_yard: is for plain functions; an async test takes yard" in text


def test_options_come_by_a_marker(tmp_path):
    outcomes, text = run(tmp_path, OPTIONS, *ASYNCIO, "-o", "asyncio_mode=auto")
    assert outcomes == {"passed": 2, "error": 2}, text
    assert "YardError: scheduler.maxQueueSize: Input should be a valid integer" in text
    assert "pytest.mark.yard takes settings, start, store as keywords" in text


def test_anyio_runs_the_yard_on_asyncio(tmp_path):
    outcomes, text = run(tmp_path, WITH_ANYIO, *ANYIO)
    assert outcomes == {"passed": 1, "error": 1}, text
    assert "yard: gRPC needs asyncio" in text
