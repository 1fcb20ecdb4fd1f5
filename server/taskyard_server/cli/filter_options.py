"""The options that say which tasks are meant, in a listing and in what is done to many at once."""

from typing import Annotated, Any, Final

import typer

from .server import moment

PANEL: Final = "Which tasks"


def filter_option(words: str, *names: str, panel: str | None = PANEL) -> Any:
    """An option of this panel."""
    return typer.Option(*names, help=words, rich_help_panel=panel)


def filter_fields(
    agent: Annotated[str | None, filter_option("Only tasks of this agent.")] = None,
    state: Annotated[
        str | None, filter_option("Only tasks in these states, separated by commas; live: all that have not ended.")
    ] = None,
    label: Annotated[
        list[str] | None,
        filter_option("Only tasks with such labels, such as site=shop or 'team in (a,b)'; repeatable."),
    ] = None,
    action: Annotated[str | None, filter_option("Only tasks with this action.")] = None,
    target: Annotated[str | None, filter_option("Only tasks of this target.")] = None,
    batch: Annotated[str | None, filter_option("Only tasks of this batch.")] = None,
    parent: Annotated[str | None, filter_option("Only tasks that the work of this task submitted.")] = None,
    host: Annotated[str | None, filter_option("Only tasks that this host holds, or held last.")] = None,
    concurrency_key: Annotated[str | None, filter_option("Only tasks with this concurrency key.")] = None,
    error: Annotated[str | None, filter_option("Only tasks whose error holds this text, in any case.")] = None,
    id_prefix: Annotated[str | None, filter_option("Only tasks whose ids begin so, 4 characters at least.")] = None,
    since: Annotated[str | None, filter_option("Only tasks submitted since, such as 2h or 2026-12-01.")] = None,
    until: Annotated[str | None, filter_option("Only tasks submitted before, likewise.")] = None,
    ended_since: Annotated[str | None, filter_option("Only tasks that ended since, likewise.")] = None,
    ended_until: Annotated[str | None, filter_option("Only tasks that ended before, likewise.")] = None,
) -> dict[str, Any]:
    """The fields of a `TaskFilter`, which `ListTasksRequest` has, too. Raises `Failure` for malformed times."""
    return {
        "agent_id": agent,
        "state": state,
        "batch_id": batch,
        "target": target,
        "parent_id": parent,
        "labels": ",".join(label) if label else None,
        "action": action,
        "host_id": host,
        "concurrency_key": concurrency_key,
        "error": error,
        "id_prefix": id_prefix,
        "created_from": moment(since, "--since"),
        "created_until": moment(until, "--until"),
        "ended_from": moment(ended_since, "--ended-since"),
        "ended_until": moment(ended_until, "--ended-until"),
    }
