"""How commands fail, and with which exit codes (docs/use/cli.md, Exit codes)."""

from typing import Final

FAILED: Final = 1
MISUSED: Final = 2
UNREACHED: Final = 3


class Failure(Exception):
    """A command failed. The text is one line for the terminal; without one nothing is said."""

    exit_code = FAILED


class Misuse(Failure):
    """A command was called in a way that it does not have."""

    exit_code = MISUSED


class NoServer(Failure):
    """No server answered, or the one that did cannot serve now."""

    exit_code = UNREACHED
