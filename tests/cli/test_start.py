"""What a command costs before it does anything: it imports what it needs, and no command imports the server.

What `taskyard up` and the writer of a store import is counted too, since how long that takes depends on the machine.
"""

import json
import resource
import subprocess
import sys

import pytest

from taskyard_server.cli.commands import ENTRIES
from taskyard_server.cli.lazy_commands import Listed
from taskyard_server.store.sqlite.pipe import command
from tests.cli.every_command import every_command
from tests.ports import free_port

pytestmark = pytest.mark.gate("a fresh interpreter a test")

MAX_CPU_SECS = 0.8
"""Twice what it is without a profiler, a cold disk or a busy neighbour."""
PROGRAM = """
import json, sys
from taskyard_server.cli.main import main
try:
    main()
except SystemExit:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
SERVER = {
    "taskyard_server.app.app",
    "taskyard_server.settings.config",
    "taskyard_server.core.scheduler",
    "prometheus_client",
    "uvloop",
}
ONLY_SOMETIMES = {
    "a callbackUrl, an executor or an issuer": {"anyio", "h11", "h2", "httpcore", "httpx"},
    "a store in PostgreSQL": {"asyncpg", "taskyard_server.store.postgres.store"},
    "certificates and JWTs": {"cryptography", "jwt", "taskyard_server.access.jwt"},
    "telemetry": {"opentelemetry", "taskyard_server.telemetry.signals"},
    "a file in TOML": {"tomllib"},
}
"""What some servers import, by what they do it for."""
NEVER = {"pygments", "rich"}
"""What no server has any use for."""
SERVER_MODULES = 1_050
COMMAND_MODULES = 560
WRITER_MODULES = 70
"""A tenth more than there are."""


def imported(*words):
    """The modules that are there once a command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def imported_by(code, *options):
    """The modules that are there once this code has run in an interpreter of its own."""
    code += "; import sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("words", [(), ("--help",), ("--version",), ("lst",)], ids=str)
def test_the_list_of_commands_imports_no_command(words):
    assert not imported(*words) & {"grpc", "google.protobuf", *SERVER}


@pytest.mark.parametrize("words", ["get tsk_1", "list", "watch", "token list", "schedule list", "store check --help"])
def test_a_command_imports_no_server(words):
    nobody = ("--server", f"127.0.0.1:{free_port()}")
    assert not imported(*words.split(), *(() if "--help" in words else nobody)) & SERVER


@pytest.mark.parametrize("words", ["get tsk_1", "list", "submit --agent a --action b"])
def test_a_short_command_imports_few_modules(words):
    found = imported(*words.split(), "--server", f"127.0.0.1:{free_port()}")
    assert len(found) < COMMAND_MODULES
    assert not found & set().union(*ONLY_SOMETIMES.values())


@pytest.fixture(scope="module")
def imported_by_up():
    return imported("up", "--store", "nowhere://", "--no-gateway")


@pytest.mark.parametrize("names", [pytest.param(names, id=why) for why, names in ONLY_SOMETIMES.items()])
def test_a_server_imports_nothing_that_only_some_settings_need(imported_by_up, names):
    assert not (imported_by_up | imported_by("import taskyard_server.app.app")) & names


def test_a_server_imports_nothing_that_none_needs(imported_by_up):
    assert "taskyard_server.app.app" in imported_by_up
    assert not imported_by_up & NEVER
    assert len(imported_by_up) < SERVER_MODULES


def test_imports_are_lean_for_their_block_alone():
    code = (
        "import gc, sys; from taskyard_server.cli.up.lean_imports import lean_imports\n"
        "with lean_imports(): import structlog; assert not gc.isenabled()\n"
        "assert gc.isenabled(); assert not {'rich', 'rich.console'} & sys.modules.keys(); import rich.console"
    )
    assert "rich.console" in imported_by(code)


def test_the_writer_of_a_store_imports_little():
    _, *options, _, _, folder = command("writer")
    writer = f"import sys; sys.path.append({folder!r}); import taskyard_server.store.sqlite.writer"
    found = imported_by(writer, *options)
    assert len(found) < WRITER_MODULES
    assert not found & {"asyncio", "dataclasses", "json", "logging", "re", "subprocess", "typing"}


@pytest.mark.parametrize("words", [("--help",), ("get", "--help"), ("list", "--help")], ids=" ".join)
def test_a_command_begins_soon(words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "taskyard_server", *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MAX_CPU_SECS


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_the_list_says_of_a_command_what_its_own_help_begins_with(entry):
    told = " ".join(Listed(entry).loaded().help.split())
    assert told.startswith(entry.help.removesuffix("."))


def test_every_command_is_found_by_its_words():
    words = list(every_command())
    assert ("token", "create") in words
    assert ("replicas",) in words
    assert len(words) == len(set(words))
