"""What a running server says on standard output, in colour on a terminal alone."""

import io
import subprocess
import sys

import pytest

from taskyard_server.cli.spoken_lines import SpokenLines


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(monkeypatch):
    """What standard output is from here on, in an environment that says nothing against colours."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal


def test_what_people_copy_has_a_colour_on_a_terminal(monkeypatch):
    terminal = on_a_terminal(monkeypatch)
    lines = SpokenLines()
    lines.say(f"{lines.bold('Taskyard')} is at {lines.cyan('127.0.0.1:1')}.")
    assert terminal.getvalue() == "\x1b[1mTaskyard\x1b[0m is at \x1b[36m127.0.0.1:1\x1b[0m.\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_can_go_without_colours(monkeypatch, name, value):
    on_a_terminal(monkeypatch)
    monkeypatch.setenv(name, value)
    assert SpokenLines().cyan("x") == "x"


def test_what_is_no_terminal_gets_plain_lines(capsys):
    lines = SpokenLines()
    lines.say(lines.bold("x"))
    assert capsys.readouterr().out == "x\n"


def test_nobody_who_reads_ends_the_program():
    code = "from taskyard_server.cli.spoken_lines import SpokenLines as S; import sys; sys.stdin.read(); S().say('x')"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as said:
        said.stdout.close()
        said.stdin.close()
        assert said.stderr.read() == b""
        assert said.wait() == 1
