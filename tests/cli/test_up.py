"""What `taskyard up` says when it serves."""

import subprocess
import sys

import pytest

from taskyard_server.cli.spoken_lines import SpokenLines
from taskyard_server.cli.up import command as up
from taskyard_server.cli.up.serving import _replica_words
from taskyard_server.settings.config import Settings
from tests.environment import without_settings
from tests.ports import free_port


@pytest.fixture
def said():
    """Starts a server with these flags. Returns its first lines."""

    def start(*flags):
        addresses = [word for name in ("--grpc", "--metrics") for word in (name, f"127.0.0.1:{free_port()}")]
        command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway", *addresses, *flags]
        with subprocess.Popen(
            command, env=without_settings(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            try:
                return [server.stdout.readline() for _ in range(3)]
            finally:
                server.kill()

    return start


def test_it_says_where_tasks_are_kept_and_how_to_keep_nothing(said, tmp_path):
    lines = said("--store", f"sqlite:///{tmp_path}/yard.db")
    assert lines[2] == f"Tasks are kept in {tmp_path}/yard.db; --store memory:// keeps nothing.\n"


def test_it_says_that_nothing_is_kept(said):
    assert said("--store", "memory://")[2] == "Nothing is kept: tasks are gone when it ends.\n"


@pytest.mark.parametrize(
    ("advertise", "others", "words"),
    [
        ("h.example:443", 2, "and others reach it at h.example:443; 2 more live."),
        ("h.example:443", 1, "and others reach it at h.example:443; 1 more lives."),
        (
            None,
            0,
            "without --advertise, so that no other one can carry calls to it; no other one lives.",
        ),
    ],
)
def test_a_replica_says_who_it_is_and_how_many_others_live(advertise, others, words):
    settings = Settings.model_validate({"replicas": {"name": "one", "advertise": advertise}})
    assert _replica_words(SpokenLines(), settings, others) == f"This is the replica one, {words}"


def test_the_help_names_the_addresses_of_the_settings():
    settings = Settings()
    assert (settings.grpc, settings.rest, settings.metrics) == (up.GRPC, up.REST, up.METRICS)
