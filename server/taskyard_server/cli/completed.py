"""The completions of arguments, which are imported when the shell asks for one."""

import typer


def tasks(incomplete: str) -> list[tuple[str, str]]:
    """The ids of tasks that begin with this text, with what they are."""
    from .completion import task_ids

    return task_ids(incomplete)


def artifacts(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The names of the artifacts of the task that stands before."""
    from .completion import artifact_names

    return artifact_names(ctx.params["task_id"], incomplete)


def questions(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """The ids of the open questions of the task that stands before."""
    from .completion import question_ids

    return question_ids(ctx.params["task"], incomplete)


def hosts(incomplete: str) -> list[tuple[str, str]]:
    """The ids of hosts, likewise."""
    from .completion import host_ids

    return host_ids(incomplete)


def schedules(incomplete: str) -> list[tuple[str, str]]:
    """The ids of schedules, likewise."""
    from .completion import schedule_ids

    return schedule_ids(incomplete)
