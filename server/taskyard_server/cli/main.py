"""The command line: its commands, and how they fail.

Every error is one line on standard error. The exit codes are those of `failure`.
"""

import os
import sys
from errno import EDQUOT, EIO, ENOSPC
from io import TextIOWrapper
from typing import Annotated, Final

# grpc would write to standard error beside our one line.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# The server starts Envoy as a child while it serves. The fork handlers of grpc break busy connections, and only a child
# that runs grpc would need them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# The settings are no concern of plugins, and to look for some reads what every installed package says of itself.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

import typer

from .commands import ENTRIES
from .failure import FAILED, MISUSED, Failure
from .lazy_commands import Commands, escaped_example

NAME: Final = "taskyard"
UNWRITABLE: Final = (ENOSPC, EDQUOT, EIO)


class Taskyard(Commands):
    """All commands."""

    entries = ENTRIES


def _tell_version(is_asked: bool) -> None:
    if is_asked:
        from importlib.metadata import version

        print(f"{NAME} {version(NAME)}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_tell_version)
]

app: Final = typer.Typer(
    cls=Taskyard,
    name=NAME,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=escaped_example(""),
)


@app.callback()
def taskyard(version: VersionOption = False) -> None:
    """Queue, lease and track tasks for fleets of agents."""


def _take_any_text() -> None:
    """Let what a terminal cannot show be a question mark, and no reason to fail."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def main() -> None:
    """The entry point of the `taskyard` script."""
    exit_code = FAILED
    _take_any_text()
    try:
        exit_code = app(standalone_mode=False, prog_name=NAME)
        if sys.stdout is not None:
            sys.stdout.flush()
        sys.exit(exit_code)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except Failure as error:
        problem, exit_code = str(error), error.exit_code
    except UnicodeEncodeError:
        # Words come with surrogates for the bytes that are none.
        problem, exit_code = "a word is no text in the encoding of this terminal", MISUSED
    except typer.Abort:
        problem = "aborted"
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        # What could not be written is not tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        problem, exit_code = f"cannot write: {os.strerror(error.errno).lower()}", FAILED
    except Exception as error:
        # Only usage errors have this method. Anything else is a bug, and its traceback helps to find it.
        if not hasattr(error, "format_message"):
            raise
        problem = error.format_message()
        exit_code = MISUSED if problem else 0  # It is empty if the help was shown, since there were no words.
    if problem:
        print(f"taskyard: {problem}", file=sys.stderr)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
