"""The conformance programs, and how each is started once it is built. Paths are relative to `clients`."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CLIENTS: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Language:
    """The program of a language.

    `built` is the file that its Makefile builds. `arguments` is its command line, in which `{}` stands for that file.
    `has_host` says whether it has a host loop.
    """

    name: str
    arguments: tuple[str, ...]
    built: str
    has_host: bool = True

    @property
    def command(self) -> list[str]:
        """The command line, without the arguments of the scenario."""
        return [argument.format(CLIENTS / self.built) for argument in self.arguments]

    def missing(self) -> str | None:
        """Say what is missing to run it, in a text for people. Returns None if nothing is."""
        if not (CLIENTS / self.built).exists():
            return f"clients/{self.built} is not built: make -C clients/{self.name} setup conformance"
        if shutil.which(self.command[0]) is None:
            return f"{self.command[0]} is not installed"
        return None


LANGUAGES: Final = (
    Language("python", (sys.executable, "{}"), "python/conformance.py"),
    Language("go", ("{}",), "go/bin/conformance"),
    Language("typescript", ("node", "{}"), "typescript/dist/conformance.js"),
    Language("java", ("java", "@{}"), "java/target/conformance.args"),
)
