"""Lines that a running server says on standard output, in colour on a terminal.

By hand, since rich, by which the other commands print, takes a tenth of the time in which a server starts.
"""

from __future__ import annotations

import os
import sys
from typing import Final

CYAN: Final = "36"
BOLD: Final = "1"
PLAIN: Final = "0"


class SpokenLines:
    """Standard output as it is now."""

    def __init__(self) -> None:
        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        # As no-color.org has it.
        self._has_colours = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def say(self, line: str) -> None:
        """Write a line at once. Ends the program where nobody reads any more."""
        try:
            print(line, flush=True)
        except BrokenPipeError:
            # What was not read is not tried again at the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            sys.exit(1)

    def bold(self, text: str) -> str:
        """A part of a line."""
        return self._in(BOLD, text)

    def cyan(self, text: object) -> str:
        """A part of a line: what people copy."""
        return self._in(CYAN, str(text))

    def _in(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[{PLAIN}m" if self._has_colours else text
