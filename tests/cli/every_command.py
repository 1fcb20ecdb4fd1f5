"""All commands of the command line, by their words."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from taskyard_server.cli.lazy_commands import Listed
from taskyard_server.cli.main import Taskyard


@cache
def every_command() -> dict[tuple[str, ...], Any]:
    """Each command that can be run, by its words, such as `("token", "list")`; no groups."""
    every: dict[tuple[str, ...], Any] = {}
    for name, listed in Taskyard(name="taskyard").commands.items():
        assert isinstance(listed, Listed)
        every.update(_commands(listed.loaded(), (name,)))
    return every


def options_of(command: Any) -> set[str]:
    """The options that a command shows."""
    return {name for each in command.params if not getattr(each, "hidden", False) for name in each.opts}


def _commands(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    inner = getattr(command, "commands", {})
    if not inner or command.invoke_without_command:
        yield words, command
    for name, each in inner.items():
        yield from _commands(each, (*words, name))
