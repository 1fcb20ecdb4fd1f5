"""The help of every command and group ends with an example, which is one that the command takes."""

import shlex

from typer.main import get_command

from taskyard_server.cli.commands import ENTRIES
from taskyard_server.cli.examples import ALIASES, EXAMPLES
from taskyard_server.cli.lazy_commands import Listed
from taskyard_server.cli.main import app
from tests.cases import every_case
from tests.cli.every_command import every_command


def groups_and_commands():
    groups = [(entry.name,) for entry in ENTRIES]
    return sorted({*groups, *every_command()})


def test_the_help_begins_with_the_words_and_ends_with_an_example(anywhere, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = {}
    for words in [(), *groups_and_commands()]:
        help_text = anywhere(*words, "--help")
        first, *_, last = help_text.out.strip().splitlines()
        shown[words] = help_text.code, " ".join(first.split("[")[0].split()), last.strip()
    assert shown == {
        words: (0, " ".join(("Usage: taskyard", *words)), f"Example: taskyard {EXAMPLES[' '.join(words)]}")
        for words in shown
    }


@every_case("example", EXAMPLES, ids=str)
def test_an_example_is_taken_by_its_command(example):
    words = shlex.split(EXAMPLES[example])
    if example and example.split()[0] not in ALIASES.values():
        assert words[: len(example.split())] == example.split()
    command = get_command(app)
    with command.make_context("taskyard", words) as context:
        while context.protected_args if hasattr(context, "protected_args") else context._protected_args:
            rest = [*context._protected_args, *context.args]
            name, inner, rest = context.command.resolve_command(context, rest)
            context = inner.make_context(name, rest, parent=context)
    assert not getattr(context.command, "commands", {}) or context.command.invoke_without_command


def test_no_example_is_of_a_command_that_is_not_there():
    known = {"", *(" ".join(words) for words in groups_and_commands())}
    assert set(EXAMPLES) <= known


def test_bare_words_show_the_help_and_are_no_mistake(anywhere):
    for words in ((), ("schedule",), ("store",)):
        shown = anywhere(*words)
        assert (shown.code, shown.err) == (0, "")
        assert "Usage: taskyard" in shown.out


def test_the_version_is_told(anywhere):
    from importlib.metadata import version

    shown = anywhere("--version")
    assert (shown.code, shown.out) == (0, f"taskyard {version('taskyard')}\n")


def test_a_word_that_is_none_is_a_mistake_and_near_ones_are_named(anywhere):
    shown = anywhere("lst")
    assert (shown.code, shown.err) == (2, "taskyard: No such command 'lst'. Did you mean 'list'?\n")


def test_a_listed_command_is_the_one_that_is_loaded():
    for entry in ENTRIES:
        assert Listed(entry).loaded().name == entry.name
