"""The conformance programs: how each is started once its Makefile has built it. Paths are relative to `clients`."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CLIENTS: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Language:
    """A language's program. `has_host` tells whether it has a host loop.

    `built` is the file that its Makefile makes, `words` is how it is started, `{}` standing for that file.
    """

    name: str
    words: tuple[str, ...]
    built: str
    has_host: bool = True

    @property
    def command(self) -> list[str]:
        """How it is started, without the scenario's own arguments."""
        return [word.format(CLIENTS / self.built) for word in self.words]

    def missing(self) -> str | None:
        """What it lacks, for people, or None."""
        if not (CLIENTS / self.built).exists():
            return f"clients/{self.built} is not built: make -C clients/{self.name} setup conformance"
        if shutil.which(self.command[0]) is None:
            return f"{self.command[0]} is not installed"
        return None


LANGUAGES: Final = (
    Language("python", (sys.executable, "{}"), "python/conformance.py"),
    Language("go", ("{}",), "go/bin/conformance"),
    Language("typescript", ("node", "{}"), "typescript/dist/conformance.js"),
    Language("java", ("java", "@{}"), "java/target/conformance.args", has_host=False),
)
