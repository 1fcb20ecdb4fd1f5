"""Where commands print for people, and how wide that is."""

import os
from typing import Final

from rich.console import Console, ConsoleDimensions

PROGRAM_COLUMNS: Final = 1_000
USUAL_COLUMNS: Final = 80
LEAST_COLUMNS: Final = 20
"""Terminals that do not know their size say 0, and nothing can be read in a few columns."""


class Output(Console):
    """Standard output: as wide as the terminal, and wide for a program, so that no id is cut.

    `is_wide` and `is_yaml` are what the options of a command ask for.
    """

    is_wide = False
    is_yaml = False

    @property
    def is_fitted(self) -> bool:
        """True if what is printed has to fit into the columns of a terminal."""
        return not self.is_wide and (self.is_terminal or "COLUMNS" in os.environ)

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        size = super().size
        if not self.is_fitted:
            return ConsoleDimensions(PROGRAM_COLUMNS, size.height)
        return ConsoleDimensions(max(size.width, LEAST_COLUMNS) if size.width else USUAL_COLUMNS, size.height)


out: Final = Output(highlight=False)
