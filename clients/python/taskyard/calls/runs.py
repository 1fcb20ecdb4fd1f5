"""Calls about runs of tasks: the steps that they leave behind, and what parked ones wait for: answers and events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from taskyard.records.questions import OpenQuestion, WaitFor
from taskyard.records.steps import Step
from taskyard.records.tasks import STATE_OF_NUMBER, Task, TaskState
from taskyard.v1 import park_pb2 as pb
from taskyard.v1.event_pb2 import SendEventRequest
from taskyard.v1.event_pb2_grpc import EventServiceStub
from taskyard.v1.park_pb2_grpc import ParkServiceStub
from taskyard.v1.step_pb2 import ListStepsRequest
from taskyard.v1.step_pb2_grpc import StepServiceStub
from taskyard.values.convert import Span, seconds, value_from
from taskyard.values.payloads import Codec

if TYPE_CHECKING:
    from taskyard.connection.servers import Servers
    from taskyard.streams.task_desk import TaskDesk

    from .calls import Calls


class Runs:
    """Calls about the runs of tasks, for the client and its handles.

    Args:
        calls: The calls of the client.
        servers: The servers of the client.
        codec: Reads what is encoded, None for nothing.
    """

    def __init__(self, calls: Calls, servers: Servers, codec: Codec | None) -> None:
        self._calls = calls
        self._steps = StepServiceStub(servers.unary)
        self._parks = ParkServiceStub(servers.unary)
        self._events = EventServiceStub(servers.unary)
        self._codec = codec

    async def steps(self, task_id: str) -> tuple[Step, ...]:
        """Get the steps of a task, see `Client.steps`.

        Args:
            task_id: The task.

        Returns:
            The steps, in the order in which they were recorded.

        Raises:
            TaskyardError: They cannot be read.
        """
        answer = await self._calls.sure(self._steps.ListSteps, ListStepsRequest(task_id=task_id))
        return tuple(Step.from_message(each, self._codec) for each in answer.steps)

    def questions(self, agent_id: str | None, page_size: int | None) -> AsyncGenerator[OpenQuestion, None]:
        """List the questions that are open, see `Client.questions`.

        Args:
            agent_id: Only questions of tasks of this agent, None for all.
            page_size: Tasks per page, None for the default.

        Returns:
            An iterator over the questions.
        """
        request = pb.ListQuestionsRequest(agent_id=agent_id, page_size=page_size)
        return self._calls.listed(self._parks.ListQuestions, request, "questions", OpenQuestion.from_message)

    async def answer(self, task_id: str, question_id: str, answer: Any) -> TaskState:
        """Answer a question, see `Client.answer`.

        Args:
            task_id: The task that asks.
            question_id: The id of the question.
            answer: The answer, a JSON value.

        Returns:
            The state of the task now.

        Raises:
            TaskyardError: The answer is refused.
            TypeError: It is no JSON.
        """
        value = value_from(answer, "answer")
        request = pb.AnswerQuestionRequest(task_id=task_id, question_id=question_id, answer=value)
        return STATE_OF_NUMBER[(await self._calls.sure(self._parks.AnswerQuestion, request)).state]

    async def answer_link(self, task_id: str, question_id: str, life: Span | None) -> str:
        """Make a link to a question, see `Client.answer_link`.

        Args:
            task_id: The task that asks.
            question_id: The id of the question.
            life: How long it is good, None for as long as the question is open.

        Returns:
            The path of its page at the gateway.

        Raises:
            TaskyardError: It is refused.
        """
        secs = None if life is None else seconds(life)
        request = pb.CreateAnswerLinkRequest(task_id=task_id, question_id=question_id, life_secs=secs)
        return (await self._calls.sure(self._parks.CreateAnswerLink, request)).href

    async def send_event(self, name: str, payload: Any, life: Span | None, event_id: str | None) -> int:
        """Send an event, see `Client.send_event`.

        Args:
            name: Its name.
            payload: What those get that wait for it, a JSON value.
            life: For how long it is kept, None for the default.
            event_id: Its id, None for one that is made.

        Returns:
            How many tasks waited for it.

        Raises:
            TaskyardError: It is refused.
            TypeError: The payload is no JSON.
        """
        request = SendEventRequest(
            name=name,
            payload=value_from(payload, "payload"),
            life_secs=None if life is None else seconds(life),
            # So that it can be repeated.
            event_id=event_id or token_hex(16),
        )
        return (await self._calls.sure(self._events.SendEvent, request)).waiting


def questions_of(task: Task) -> tuple[OpenQuestion, ...]:
    """List the questions that a task asks now.

    Args:
        task: The task.

    Returns:
        The questions, none unless it is parked.
    """
    if (park := task.park) is None:
        return ()
    return tuple(
        OpenQuestion(task.id, task.agent_id, task.action, each.name, park.since, each.question, each.until)
        for each in park.waits
        if each.kind is WaitFor.ANSWER
    )


class RunCalls:
    """The part of `Client` that shows steps, and questions, and answers them, and that sends events."""

    if TYPE_CHECKING:
        _desk: TaskDesk

    async def steps(self, task_id: str) -> tuple[Step, ...]:
        """Get the steps that the runs of a task have done, and what came while it was parked.

        Args:
            task_id: The task.

        Returns:
            The steps, in the order in which they were recorded.

        Raises:
            NotFound: There is no such task.
        """
        return await self._desk.runs.steps(task_id)

    def questions(
        self, *, agent_id: str | None = None, page_size: int | None = None
    ) -> AsyncGenerator[OpenQuestion, None]:
        """List the questions that are open, by the order in which their tasks were submitted.

        Args:
            agent_id: Only questions of tasks of this agent. Default all.
            page_size: Tasks per page, at most 1,000. Default 1,000.

        Returns:
            An iterator over the questions.
        """
        return self._desk.runs.questions(agent_id, page_size)

    async def answer(self, task_id: str, question_id: str, answer: Any) -> TaskState:
        """Answer a question. The first answer wins, and the same again is the same.

        Args:
            task_id: The task that asks.
            question_id: The id of the question.
            answer: The answer, a JSON value.

        Returns:
            The state of the task now: `queued` where it was parked.

        Raises:
            NotFound: There is no such task, or it has not asked this.
            BadRequest: The question does not allow the answer.
            Conflict: It has another answer, or its time is over.
            TooLarge: The answer has more than 64 KiB.
            TypeError: It is no JSON.
        """
        return await self._desk.runs.answer(task_id, question_id, answer)

    async def answer_link(self, task_id: str, question_id: str, life: Span | None = None) -> str:
        """Make a link to one question, by which people without a credential can answer it.

        Args:
            task_id: The task that asks.
            question_id: The id of the question.
            life: How long it is good, in seconds or as a timedelta. Default as long as the question is open.

        Returns:
            The path of its page, which begins with `/ui/`: put the address of the gateway before it.

        Raises:
            NotFound: There is no such task, or no such question of it is open.
            BadRequest: The life is below 1 s or above 366 days.
        """
        return await self._desk.runs.answer_link(task_id, question_id, life)

    async def send_event(
        self, name: str, payload: Any = None, *, life: Span | None = None, event_id: str | None = None
    ) -> int:
        """Send an event to all tasks that wait for its name, see `RunningTask.event`.

        Args:
            name: Its name: 1 to 256 letters, digits, `.`, `_` or `-`.
            payload: What they get, a JSON value of at most 64 KiB. Default None.
            life: For how long those get it, too, that begin to wait later, in seconds or as a timedelta, at most a day.
                Default a minute.
            event_id: Its id: within its life the same id of the same name is the same event. Default one is made.

        Returns:
            How many tasks waited for it when it came.

        Raises:
            BadRequest: The name, the id or the life is malformed.
            AlreadyExists: The id is that of an event with another payload.
            TooLarge: The payload has more than 64 KiB.
            QueueFull: Too many events are kept.
            TypeError: The payload is no JSON.
        """
        return await self._desk.runs.send_event(name, payload, life, event_id)
