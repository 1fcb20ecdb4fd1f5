"""All commands of the command line, by their words."""

from collections.abc import Iterator
from typing import Any

from taskyard_server.cli.lazy_commands import Listed
from taskyard_server.cli.main import Taskyard


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command that can be run, with its words, such as `("token", "list")`; no groups."""
    for name, listed in Taskyard(name="taskyard").commands.items():
        assert isinstance(listed, Listed)
        yield from _commands(listed.loaded(), (name,))


def command_words() -> list[tuple[str, ...]]:
    """The words alone."""
    return [words for words, _ in every_command()]


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner or command.invoke_without_command:
        yield words, command
    for name, each in inner.items():
        yield from _commands(each, (*words, name))
