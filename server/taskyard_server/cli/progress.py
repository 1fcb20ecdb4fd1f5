"""Signs of life of what takes long: on standard error, where that is a terminal, and gone in the end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape


@contextmanager
def waiting_line(text: str = "") -> Iterator[Callable[[str], None]]:
    """Shows a line that moves; what is given to the function is its new text."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(escape(text)) as status:
        yield lambda line: status.update(escape(line))
