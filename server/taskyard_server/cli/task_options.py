"""The options that make up a task, whether it is submitted at once or by a schedule."""

import json
from typing import Any, Final

import typer

from .failure import Failure
from .server import given

AGENT: Final = typer.Option(help="The submitting agent.")
ACTION: Final = typer.Option(help="The kind of action to run.")
TAB: Final = typer.Option(help="The tab that the action is for.")
REF: Final = typer.Option(help="The element that the action is for.")
PARAMS: Final = typer.Option(help="Fields for the action, a JSON object.")
PRIORITY: Final = typer.Option(help="The lower number runs first.")
CALLBACK: Final = typer.Option(help="Where the task is posted when it ends.")
TARGET: Final = typer.Option(help="Its serial queue: one of its tasks runs at a time.")
PROJECT: Final = typer.Option(help="The project that it belongs to.")
REQUIRES: Final = typer.Option(help="What its host must be capable of. Repeatable.")
LABEL: Final = typer.Option(metavar="KEY=VALUE", help="A mark. Repeatable.")
TOKEN_LIMIT: Final = typer.Option(help="The most tokens that it may use.", min=0)
MAX_ATTEMPTS: Final = typer.Option(help="Attempts in all, the first included.", min=1)


def task_fields(
    *,
    agent: str | None,
    action: str | None,
    tab: str | None,
    ref: str | None,
    params: str | None,
    priority: int | None,
    callback: str | None,
    target: str | None,
    project: str | None,
    requires: list[str] | None,
    label: list[str] | None,
    token_limit: int | None,
    max_attempts: int | None,
) -> dict[str, Any]:
    """The JSON fields of the options that were given. Raises `Failure` for malformed values."""
    fields = {
        "agentId": agent,
        "action": action,
        "tabId": tab,
        "ref": ref,
        "params": _object(params, "--params"),
        "priority": priority,
        "callbackUrl": callback,
        "target": target,
        "project": project,
        "requires": requires or None,
        "labels": dict(map(_label, label)) if label else None,
        "tokenLimit": token_limit,
        "retryPolicy": None if max_attempts is None else {"maxAttempts": max_attempts},
    }
    return given(fields)


def _label(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark:
        raise Failure("--label: must be KEY=VALUE")
    return key, value


def _object(text: str | None, option: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text) if text is not None else None
    except (ValueError, RecursionError) as error:
        raise Failure(f"{option}: {error}") from None
    if value is not None and not isinstance(value, dict):
        raise Failure(f"{option}: must be a JSON object")
    return value
