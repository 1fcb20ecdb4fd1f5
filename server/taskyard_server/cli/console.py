"""Where commands print for people, and how wide that is."""

import os
from typing import Final

from rich.console import Console, ConsoleDimensions

PROGRAM_COLUMNS: Final = 1_000


class Output(Console):
    """Standard output: as wide as the terminal, and wide for a program, so that no id is cut.

    `is_wide` and `is_yaml` are what the options of a command ask for.
    """

    is_wide = False
    is_yaml = False

    @property
    def is_fitted(self) -> bool:
        """Whether what is printed has to fit into the columns of a terminal."""
        return not self.is_wide and (self.is_terminal or "COLUMNS" in os.environ)

    @property  # type: ignore[misc]
    def size(self) -> ConsoleDimensions:
        size = super().size
        return size if self.is_fitted else ConsoleDimensions(PROGRAM_COLUMNS, size.height)


out: Final = Output(highlight=False)
