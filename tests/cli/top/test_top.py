"""`taskyard top` in a terminal, over a restart of the server, and where there is no terminal."""

import signal

import pytest

from tests.cli.top.top_server import Answers, Terminal, serving
from tests.ports import free_port

BESIDE = "AGENTS by share" + " " * 61 + "HOSTS by load"
"""Where the terminal has 150 columns."""


def queued(count):
    """What the screen says of so many tasks."""
    return f"queued     {count:>9}"


@pytest.fixture
def answers():
    return Answers()


@pytest.fixture
def server(answers):
    with serving(answers) as address:
        yield address


@pytest.fixture
def terminal():
    """Opens a terminal in which `taskyard top` runs, until the test ends."""
    opened = []

    def start(address, *words):
        opened.append(Terminal(address, *words))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_it_is_live_and_ends_with_q(terminal, server, answers):
    top = terminal(server)
    assert "crawler-2" in top.shows(queued("12"))
    answers.queued = 1_234
    top.shows(queued("1,234"))
    top.press("q")
    assert top.ended() == 0
    assert top.is_as_before()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_and_is_no_failure(terminal, server, number):
    top = terminal(server)
    top.shows("AGENTS by share")
    top.process.send_signal(number)
    assert top.ended() == 0
    assert top.is_as_before()


def test_keys_sort_pause_and_change_the_namespace(terminal, server, answers):
    top = terminal(server, "--namespace", "default")
    top.shows("default at")
    top.press("ss")
    top.shows("AGENTS by in flight")
    top.press("\ts")
    top.shows("HOSTS by leases")
    top.press("n")
    top.shows("top  acme at")
    assert answers.asked[-1] == "acme"
    top.press("p")
    top.shows("paused")
    answers.queued = 77
    top.press("?")
    assert queued("12") in top.shows("read at once")
    top.press("p")
    top.shows(queued("77"))


def test_it_follows_the_size_of_the_terminal(terminal, server):
    top = terminal(server)
    assert BESIDE not in top.shows("HOSTS by load")
    top.resize(150, 40)
    top.shows(BESIDE)


def test_it_goes_on_after_a_restart_of_the_server(terminal, answers):
    address = f"127.0.0.1:{free_port()}"
    with serving(answers, address):
        top = terminal(address)
        top.shows(queued("12"))
    assert queued("12") in top.shows("no figures for")
    again = Answers()
    again.queued, again.submitted = 5, 0
    with serving(again, address):
        top.shows(queued("5"))
        assert "no figures for" not in top.screen
        top.press("q")
        assert top.ended() == 0


def test_whoever_may_see_only_own_figures_sees_these(terminal, server, answers):
    answers.denied = {"ListSamples", "GetFairness", "ListHosts", "ListNamespaces"}
    top = terminal(server)
    assert queued("12") in top.shows("need the role viewer")


def test_a_program_gets_one_picture(anywhere, server):
    got = anywhere("top", "--server", server)
    assert got.code == 0
    assert got.out.startswith("taskyard top  default at")
    assert "crawler-1" in got.out
    assert "\x1b" not in got.out
    assert "quit" not in got.out


def test_a_program_that_asks_for_data_gets_all_of_it(anywhere, server):
    found = anywhere("top", "--json", "--server", server, "--namespace", "acme").json
    assert found["namespace"] == "acme"
    assert found["stats"]["queue"]["totalQueued"] == 12
    assert [each["agentId"] for each in found["agents"]] == ["ann", "bob"]
    assert [each["id"] for each in found["hosts"]] == ["crawler-1", "crawler-2"]
    assert len(found["samples"]) == 3


def test_without_a_server_it_fails_at_once(anywhere):
    got = anywhere("top", "--server", f"127.0.0.1:{free_port()}")
    assert (got.code, got.out) == (3, "")
    assert got.err.count("\n") == 1


def test_a_real_server_answers_all_of_it(taskyard, submit):
    submit()
    found = taskyard("top", "--json").json
    assert found["stats"]["queue"]["totalQueued"] == 1
    assert found["agents"][0]["agentId"] == "ann"
    assert isinstance(found["samples"], list)
    assert "ann" in taskyard("top").out
