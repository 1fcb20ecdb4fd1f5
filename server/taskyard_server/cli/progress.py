"""Signs of life of what takes long: on standard error, where that is a terminal, and gone in the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.markup import escape


class Advance(Protocol):
    """Says how far it is, and if that was not known, how far it goes."""

    def __call__(self, done: int, total: int | None = None) -> None:
        """Show it."""


@contextmanager
def waiting_line(text: str = "") -> Iterator[Callable[[str], None]]:
    """Shows a line that moves; what is given to the function is its new text."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(escape(text)) as status:
        yield lambda line: status.update(escape(line))


@contextmanager
def progress_bar(text: str, total: int | None = None) -> Iterator[Advance]:
    """Shows a bar with how many of how many are done."""
    # It takes a while to import.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(escape(text), total=total)

        def advance(done: int, total: int | None = None) -> None:
            if total is None:
                progress.update(bar, completed=done)
            else:
                progress.update(bar, completed=done, total=total)

        yield advance
