"""`taskyard doctor`: examine a yard, before its start or beside its server. It changes nothing."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from taskyard_server.cli.connection import Connection, with_connection
from taskyard_server.cli.console import out
from taskyard_server.cli.failure import Failure, Misuse
from taskyard_server.cli.listing import ListingTable
from taskyard_server.cli.output_form import print_data, with_output
from taskyard_server.cli.progress import waiting_line
from taskyard_server.cli.server import shown
from taskyard_server.cli.settings_options import ConfigOption, StoreOption

from .findings import Finding

SecureOption = Annotated[Path | None, typer.Option(help="The folder that `taskyard up --secure` serves with.")]
COLOURS: Final = {"ok": "green", "warning": "yellow", "failure": "red"}


@with_output
@with_connection
def doctor(
    connection: Connection,
    config_file: ConfigOption = None,
    store: StoreOption = None,
    secure: SecureOption = None,
    as_json: bool = False,
) -> None:
    """Look at what may be wrong with a yard, before a start or beside a running server, and say what to do.

    Changes nothing. Exit status 1 if there are failures.
    """
    if config_file is not None and secure is not None:
        raise Misuse("give only one of --config and --secure")
    # It imports the server.
    from .examination import examine

    with waiting_line("looking"):
        findings = examine(connection, config_file, store, secure)
    counts = Counter(finding.status.value for finding in findings)
    if as_json:
        rows: list[dict[str, Any]] = [finding._asdict() for finding in findings]
        print_data({"findings": rows, "failures": counts["failure"], "warnings": counts["warning"]})
    else:
        _print_table(findings)
    told = f"{_counted(counts['failure'], 'failure')}, {_counted(counts['warning'], 'warning')}"
    if counts["failure"]:
        raise Failure(told)
    if not as_json:
        out.print(told)


def _print_table(findings: Sequence[Finding]) -> None:
    """Print a line for each finding; on a terminal what to do stands below what was seen."""
    is_fitted = out.is_fitted
    table = ListingTable("", "check", *(["seen, and what to do"] if is_fitted else ["seen", "what to do"]))
    for status, check, seen, todo in findings:
        below = Text("\n").join([shown(seen), shown(f"-> {todo}")]) if todo else shown(seen)
        table.add(Text(status, COLOURS[status]), check, *([below] if is_fitted else [shown(seen), shown(todo)]))
    table.print()


def _counted(count: int, word: str) -> str:
    return f"{count or 'no'} {word}{'' if count == 1 else 's'}"
