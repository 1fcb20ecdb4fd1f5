"""Handlers that take inputs, of all kinds. Worker processes import them from here."""

from dataclasses import dataclass
from typing import Any, TypedDict

from pydantic import BaseModel

from taskyard import Action, RunningTask


@dataclass
class Job:
    """What a typed handler does."""

    title: str


@dataclass
class Page:
    """An input."""

    url: str
    size: int = 0


class Image(TypedDict):
    """An input."""

    width: int


class Style(BaseModel):
    """An input."""

    font: str


summarise = Action[Job, list[Any]]("summarise")


async def typed(job: Job, task: RunningTask, *, page: Page, image: Image | None = None, style: Style) -> list[Any]:
    """Take them in their types, beside the task."""
    return [job.title, page.url, page.size, image, style.font, task.inputs["page"].value]


def typed_plainly(job: Job, *, page: Page, image: Image | None = None, style: Style) -> list[Any]:
    """Take them in their types, in a plain function."""
    return [job.title, page.url, page.size, image, style.font, {"url": page.url, "size": page.size}]


async def untyped(task: RunningTask, *, page: Page, image: Image | None = None, style: Style) -> list[Any]:
    """Take them without a typed action."""
    return await typed(Job(task.params["title"]), task, page=page, image=image, style=style)


def untyped_plainly(task: RunningTask, *, page: Page, image: Image | None = None, style: Style) -> list[Any]:
    """Take them without a typed action, in a plain function."""
    return [*typed_plainly(Job(task.params["title"]), page=page, image=image, style=style)]
