"""The options that make up a task, whether it is submitted at once or by a schedule.

An option is a parameter of `task_fields` and a field in its answer, and stands nowhere else.
"""

from base64 import b64encode
from collections.abc import Callable
from typing import Annotated, Any

import typer

from taskyard_server.json_text import read_json

from .failure import Misuse
from .server import given, milliseconds
from .shared_options import with_options


def task_fields(
    agent: Annotated[str | None, typer.Option(help="The submitting agent.")] = None,
    action: Annotated[str | None, typer.Option(help="The kind of action to run.")] = None,
    tab: Annotated[str | None, typer.Option(help="The tab that the action is for.")] = None,
    ref: Annotated[str | None, typer.Option(help="The element that the action is for.")] = None,
    selector: Annotated[str | None, typer.Option(help="The same as a selector, such as '#btn'.")] = None,
    params: Annotated[str | None, typer.Option(help="Fields for the action, a JSON object.")] = None,
    priority: Annotated[int | None, typer.Option(help="The lower number runs first; 0 unless given.")] = None,
    callback: Annotated[str | None, typer.Option(help="Where the task is posted when it ends.")] = None,
    target: Annotated[str | None, typer.Option(help="Its serial queue: one of its tasks runs at a time.")] = None,
    project: Annotated[str | None, typer.Option(help="The project that it belongs to.")] = None,
    requires: Annotated[list[str] | None, typer.Option(help="What its host must be capable of. Repeatable.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A mark. Repeatable.")] = None,
    token_limit: Annotated[int | None, typer.Option(help="The most tokens that it may use.", min=0)] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Attempts in all, the first included.", min=1)] = None,
    run_timeout: Annotated[
        str | None,
        typer.Option(metavar="SPAN", help="The longest that each attempt may run, such as 30s or 2h."),
    ] = None,
    input: Annotated[  # noqa: A002 - the name of the option
        str | None, typer.Option(metavar="JSON", help="The input of a typed action that params cannot hold.")
    ] = None,
    concurrency_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="A limit on it holds for all tasks that have it. Repeatable."),
    ] = None,
    on_target_failure: Annotated[
        str | None,
        typer.Option(metavar="block|continue", help="What its target does once it has failed after its start."),
    ] = None,
) -> dict[str, Any]:
    """The JSON fields of the options that were given. Raises `Misuse` for malformed values."""
    fields = {
        "agentId": agent,
        "action": action,
        "tabId": tab,
        "ref": ref,
        "selector": selector,
        "params": _object(params, "--params"),
        "priority": priority,
        "callbackUrl": callback,
        "target": target,
        "project": project,
        "requires": requires or None,
        "labels": dict(map(_label, label)) if label else None,
        "tokenLimit": token_limit,
        "retryPolicy": None if max_attempts is None else {"maxAttempts": max_attempts},
        "runTimeoutMs": None if run_timeout is None else milliseconds(run_timeout, "--run-timeout"),
        "input": None if input is None else _payload(input, "--input"),
        "concurrencyKeys": concurrency_key or None,
        "onTargetFailure": on_target_failure,
    }
    return given(fields)


def with_task_options(*required: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a task, in the place of its parameter `task`, which gets their JSON fields.

    The options named here are required.
    """
    return with_options("task", task_fields, *required)


def _label(text: str) -> tuple[str, str]:
    key, mark, value = text.partition("=")
    if not mark:
        raise Misuse("--label: must be KEY=VALUE")
    return key, value


def _payload(text: str, option: str) -> dict[str, str]:
    """JSON as it stands: numbers keep all of their digits."""
    _json(text, option)
    return {"data": b64encode(text.encode()).decode()}


def _json(text: str, option: str) -> Any:
    try:
        return read_json(text)
    except (ValueError, RecursionError) as error:
        raise Misuse(f"{option}: {error}") from None


def _object(text: str | None, option: str) -> dict[str, Any] | None:
    value = _json(text, option) if text is not None else None
    if value is not None and not isinstance(value, dict):
        raise Misuse(f"{option}: must be a JSON object")
    return value
