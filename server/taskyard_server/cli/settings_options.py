"""The options that say which settings are meant, those of a server that is started or of one that runs."""

from pathlib import Path
from typing import Annotated

import typer

from taskyard_server.settings.store_url import DOCUMENTED_DEFAULT

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="JSON or TOML file; environment variables TASKYARD_* and flags come after it."),
]
StoreOption = Annotated[
    str | None,
    typer.Option(
        help="Where tasks are kept: sqlite:///PATH, or memory:// for nowhere.", show_default=DOCUMENTED_DEFAULT
    ),
]
