"""What a command costs before it does anything: it imports what it needs, and no command imports the server."""

import json
import resource
import subprocess
import sys

import pytest

from taskyard_server.cli.commands import ENTRIES
from taskyard_server.cli.lazy_commands import Listed
from tests.cli.every_command import every_command
from tests.ports import free_port

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
    "taskyard_server.app",
    "taskyard_server.config",
    "taskyard_server.core.scheduler",
    "prometheus_client",
    "uvloop",
}


def imported(*words):
    """The modules that are there once a command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("words", [(), ("--help",), ("--version",), ("lst",)], ids=str)
def test_the_list_of_commands_imports_no_command(words):
    assert not imported(*words) & {"grpc", "google.protobuf", *SERVER}


@pytest.mark.parametrize("words", ["get tsk_1", "list", "watch", "token list", "schedule list", "store check --help"])
def test_a_command_imports_no_server(words):
    nobody = ("--server", f"127.0.0.1:{free_port()}")
    assert not imported(*words.split(), *(() if "--help" in words else nobody)) & SERVER


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
    words = [each for each, _ in every_command()]
    assert ("token", "create") in words
    assert ("replicas",) in words
    assert len(words) == len(set(words))
