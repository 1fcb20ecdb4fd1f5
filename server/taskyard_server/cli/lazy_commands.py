"""Commands that are imported when one is called: the help of all of them needs their first lines only."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from .examples import EXAMPLES

PACKAGE: Final = __name__.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One command: its name, where it is as `module:attribute`, the first line of its help, and its panel there."""

    name: str
    attribute: str
    help: str
    panel: str | None = None
    hidden: bool = False


class Listed(TyperCommand):
    """A placeholder of a command until it is called."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, help=entry.help, hidden=entry.hidden, rich_help_panel=entry.panel)
        self._entry = entry

    def loaded(self) -> Any:
        """The command itself."""
        module, _, name = self._entry.attribute.partition(":")
        found = getattr(import_module(f".{module}", PACKAGE), name)
        # The script goes without it until here, and commands may run for long.
        gc.enable()
        if not isinstance(found, typer.Typer):
            command = found
            found = typer.Typer(add_completion=False)
            found.command()(command)
        built = get_command(found)
        built.name = self._entry.name
        _give_examples(built, self._entry.name)
        return built


def _give_examples(command: Any, words: str) -> None:
    """Let the help of a command, and of those in it, end with an example."""
    command.epilog = escaped_example(words) if words in EXAMPLES else None
    for name, inner in getattr(command, "commands", {}).items():
        _give_examples(inner, f"{words} {name}")


def escaped_example(words: str) -> str:
    """The last line of the help of these words, in rich's markup."""
    return "Example: " + f"taskyard {EXAMPLES[words]}".replace("[", "\\[")


class Commands(TyperGroup):
    """A group of commands that are imported when one is called, or completed."""

    entries: Sequence[CommandEntry] = ()

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for entry in self.entries:
            self.add_command(Listed(entry))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that is called."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.loaded() if isinstance(command, Listed) else command, rest
