"""How answers are printed: the options that say in which form, and the printing of one in that form."""

import json
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from .console import out
from .failure import Misuse
from .shared_options import with_options

PANEL: Final = "Output"


class Form(StrEnum):
    """A form of answers."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def chosen_form(
    output: Annotated[
        Form | None,
        typer.Option(
            "--output",
            "-o",
            help="How to print: a table that fits, a wide one with all columns and whole ids, JSON as REST answers it, "
            "or the same as YAML.",
            rich_help_panel=PANEL,
            show_default=Form.TABLE.value,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --output json.", rich_help_panel=PANEL)] = False,
    wide: Annotated[bool, typer.Option("--wide", help="The same as --output wide.", rich_help_panel=PANEL)] = False,
) -> bool:
    """True if the answer is printed as data. Raises `Misuse` for options that exclude each other."""
    asked = {output, Form.JSON if json else None, Form.WIDE if wide else None} - {None}
    if len(asked) > 1:
        raise Misuse("give only one of --output, --json and --wide")
    form = next(iter(asked), None) or Form.TABLE
    out.is_wide = form is Form.WIDE
    out.is_yaml = form is Form.YAML
    return form in (Form.JSON, Form.YAML)


with_output: Final = with_options("as_json", chosen_form)
"""Give a command the options, in the place of its parameter `as_json`."""


def print_data(fields: Mapping[str, Any]) -> None:
    """Print an answer as JSON or YAML, whichever was asked for."""
    if out.is_yaml:
        from .yaml_text import yaml_text

        print(yaml_text(fields))
    else:
        print(json.dumps(fields, indent=2, ensure_ascii=_is_limited()))


def print_line(fields: Mapping[str, Any]) -> None:
    """Print one of many answers: a line of JSON, or a document of YAML."""
    if out.is_yaml:
        from .yaml_text import yaml_text

        print(f"---\n{yaml_text(fields)}", flush=True)
    else:
        print(json.dumps(fields, ensure_ascii=_is_limited()), flush=True)


def _is_limited() -> bool:
    """True if standard output cannot take every character."""
    return sys.stdout is not None and not (sys.stdout.encoding or "").lower().startswith("utf")
