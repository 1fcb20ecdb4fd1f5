"""Parked tasks: what they wait for, and the questions that they ask (docs/rules.md, Parked tasks)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from taskyard.v1 import park_pb2
from taskyard.v1 import wait_pb2 as pb
from taskyard.values.convert import datetime_from, optional, optional_time, plain_object, plain_value


class WaitFor(StrEnum):
    """The kinds of things that a parked task waits for."""

    ANSWER = "answer"
    """An answer to a question."""
    ENDS = "ends"
    """The end of tasks."""
    TIME = "time"
    """A time."""
    EVENT = "event"
    """An event."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a task to people or agents.

    Attributes:
        text: The question, empty if there is only a `url`.
        schema: The JSON Schema of the answer, None for any JSON.
        choices: The answers that there are, None for any.
        default: The answer that counts if nobody gives one in time. None also where there is none: see `has_default`.
        has_default: Whether there is one. Without it the task fails then.
        url: An address to visit for the answer.
    """

    text: str = ""
    schema: dict[str, Any] | None = None
    choices: tuple[Any, ...] | None = None
    default: Any = None
    has_default: bool = False
    url: str | None = None

    @classmethod
    def from_message(cls, message: pb.Question) -> Question:
        """Convert a message.

        Args:
            message: The question as the server sends it.

        Returns:
            The question.
        """
        has_default = message.HasField("default")
        return cls(
            text=message.text,
            schema=plain_object(message.schema) if message.HasField("schema") else None,
            choices=tuple(map(plain_value, message.choices.values)) if message.HasField("choices") else None,
            default=plain_value(message.default) if has_default else None,
            has_default=has_default,
            url=message.url or None,
        )


@dataclass(frozen=True, slots=True)
class Wait:
    """One thing that a parked task waits for. Any of them lets it go on.

    Attributes:
        kind: What it is. None for a kind of a later version.
        name: Its name, of a question its id.
        until: When it is over, None where that has no end.
        question: The question, None for other kinds, and for a viewer that is shown no payloads.
        task_ids: The tasks whose ends are waited for.
        event: The name of the event that is waited for, None for other kinds.
    """

    kind: WaitFor | None
    name: str
    until: datetime | None = None
    question: Question | None = None
    task_ids: tuple[str, ...] = ()
    event: str | None = None

    @classmethod
    def from_message(cls, message: pb.Wait) -> Wait:
        """Convert a message.

        Args:
            message: The wait as the server sends it.

        Returns:
            The wait.
        """
        return cls(
            kind=WAITS_FOR.get(message.kind),
            name=message.name,
            until=optional_time(message, "until"),
            question=Question.from_message(message.question) if message.HasField("question") else None,
            task_ids=tuple(message.task_ids),
            event=optional(message, "event_name"),
        )


@dataclass(frozen=True, slots=True)
class Park:
    """The waits of a parked task.

    Attributes:
        since: Since when it is parked.
        waits: What it waits for.
    """

    since: datetime
    waits: tuple[Wait, ...]

    @classmethod
    def from_message(cls, message: pb.Park) -> Park:
        """Convert a message.

        Args:
            message: The park as the server sends it.

        Returns:
            The park.
        """
        return cls(datetime_from(message.since), tuple(map(Wait.from_message, message.waits)))


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that nobody has answered yet.

    Attributes:
        task_id: The task that asks.
        agent_id: Its agent.
        action: Its action.
        question_id: The id of the question.
        since: Since when the task is parked, or was last.
        question: The question, None for a viewer that is shown no payloads.
        until: Until when it can be answered, None where that has no end.
    """

    task_id: str
    agent_id: str
    action: str
    question_id: str
    since: datetime
    question: Question | None = None
    until: datetime | None = None

    @classmethod
    def from_message(cls, message: park_pb2.OpenQuestion) -> OpenQuestion:
        """Convert a message.

        Args:
            message: The question as the server sends it.

        Returns:
            The question.
        """
        return cls(
            task_id=message.task_id,
            agent_id=message.agent_id,
            action=message.action,
            question_id=message.question_id,
            since=datetime_from(message.since),
            question=Question.from_message(message.question) if message.HasField("question") else None,
            until=optional_time(message, "until"),
        )


WAITS_FOR: Final[Mapping[int, WaitFor]] = {pb.Wait.Kind.Value(kind.value): kind for kind in WaitFor}
