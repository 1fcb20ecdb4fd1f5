"""ParkService: hosts park their tasks, people and agents see the questions that these ask, and answer them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.struct_pb2 import NULL_VALUE, Value

from taskyard.v1 import park_pb2 as pb
from taskyard.v1.park_pb2_grpc import ParkServiceServicer
from taskyard.v1.wait_pb2 import Question
from taskyard_server.conversion import requests
from taskyard_server.conversion.answer_links import NO_LINK, AnswerLink, link_in, link_path, link_secs, link_token
from taskyard_server.conversion.page_tokens import page_size
from taskyard_server.conversion.report_requests import fencing_token, parked
from taskyard_server.conversion.responses import MAX_PAGE_BYTES
from taskyard_server.conversion.task_encoding import STATES
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.waits import check_answer
from taskyard_server.core.errors import NotFound, Refusal
from taskyard_server.core.history import Wait
from taskyard_server.core.task import Task
from taskyard_server.engine.engine import Engine
from taskyard_server.engine.questions import NewAnswer
from taskyard_server.interceptors.callers import current_call

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

EMPTY_QUESTIONS: Final = ("x-rest-empty", "questions")
"""The gateway adds an empty list of this name (gateway/README.md)."""


class ParkService(ParkServiceServicer):
    """Serves `taskyard.v1.ParkService`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def ParkTask(self, request: pb.ParkTaskRequest, context: Context) -> pb.ParkTaskResponse:  # noqa: N802
        del context
        call, host_id = current_call(), requests.host_id(request.host_id)
        token = fencing_token(request.fencing_token)
        tokens = request.tokens_used if request.HasField("tokens_used") else None
        report = parked(request.task_id, token, request, tokens, self._engine.now())
        (outcome,) = await self._engine.leases.report(
            call.namespace, host_id, [report], own_only=call.access.hosts is not None
        )
        if isinstance(outcome, Refusal):
            raise outcome
        return pb.ParkTaskResponse(task_id=request.task_id, state=STATES[outcome])

    async def AnswerQuestion(  # noqa: N802
        self, request: pb.AnswerQuestionRequest, context: Context
    ) -> pb.AnswerQuestionResponse:
        del context
        call = current_call()
        question = requests.path_name(request.question_id, "question_id")
        answer = _answer(request, request.task_id, question, _principal())
        state = await self._engine.questions.answer(call.namespace, answer, agents=call.access.agents)
        return pb.AnswerQuestionResponse(task_id=request.task_id, state=STATES[state])

    async def CreateAnswerLink(  # noqa: N802
        self, request: pb.CreateAnswerLinkRequest, context: Context
    ) -> pb.CreateAnswerLinkResponse:
        del context
        call, task_id = current_call(), request.task_id
        question = requests.path_name(request.question_id, "question_id")
        until = None
        if request.HasField("life_secs"):
            until = self._engine.now() + link_secs(request.life_secs)
        _, wait = await self._engine.questions.find(call.namespace, task_id, question, agents=call.access.agents)
        ends = [each for each in (until, wait.until) if each is not None]
        link = AnswerLink(task_id, question, wait.until, until, _principal())
        token = link_token(link, call.namespace, call.seal)
        return pb.CreateAnswerLinkResponse(
            token=token, href=link_path(token, call.namespace), until=timestamp(min(ends)) if ends else None
        )

    async def ReadAnswerLink(  # noqa: N802
        self, request: pb.ReadAnswerLinkRequest, context: Context
    ) -> pb.ReadAnswerLinkResponse:
        del context
        call = current_call()
        link = self._link(request.token)
        task, wait = await self._engine.questions.find(call.namespace, link.task_id, link.question)
        _check_question(link, wait)
        ends = [each for each in (link.until, wait.until) if each is not None]
        return pb.ReadAnswerLinkResponse(
            question_id=link.question,
            question=Question.FromString(wait.question or b""),
            action=task.action,
            until=timestamp(min(ends)) if ends else None,
        )

    async def AnswerByLink(  # noqa: N802
        self, request: pb.AnswerByLinkRequest, context: Context
    ) -> pb.AnswerByLinkResponse:
        del context
        call = current_call()
        link = self._link(request.token)
        answer = _answer(request, link.task_id, link.question, link.answerer, link)
        await self._engine.questions.answer(call.namespace, answer)
        return pb.AnswerByLinkResponse(question_id=link.question)

    def _link(self, token: str) -> AnswerLink:
        """The link of a token. Raises `NotFound`, also once its time is over."""
        call = current_call()
        link = link_in(token, call.namespace, call.seal)
        if link.until is not None and link.until <= self._engine.now():
            raise NotFound(NO_LINK)
        return link

    async def ListQuestions(  # noqa: N802
        self, request: pb.ListQuestionsRequest, context: Context
    ) -> pb.ListQuestionsResponse:
        call = current_call()
        listing = call.listing("questions", request.agent_id)
        questions, next_after = await self._engine.questions.list(
            call.namespace,
            listing.start(request.page_token),
            page_size(request.page_size),
            MAX_PAGE_BYTES,
            agent_id=request.agent_id or None,
            agents=call.access.agents,
            payloads=call.access.payloads,
            show=_open_question,
        )
        if not questions and call.by_rest:
            await context.send_initial_metadata((EMPTY_QUESTIONS,))
        token = None if next_after is None else listing.token(next_after)
        return pb.ListQuestionsResponse(questions=questions, next_page_token=token)


def _principal() -> str | None:
    """The name of who calls, None where nobody has to sign in."""
    principal = current_call().access.principal
    return None if principal is None else principal.name


def _answer(
    request: pb.AnswerQuestionRequest | pb.AnswerByLinkRequest,
    task_id: str,
    question: str,
    by: str | None,
    link: AnswerLink | None = None,
) -> NewAnswer:
    value = request.answer if request.HasField("answer") else Value(null_value=NULL_VALUE)

    def check(wait: Wait) -> None:
        if link is not None:
            _check_question(link, wait)
        check_answer(Question.FromString(wait.question or b""), value)

    serialized = value.SerializeToString()
    return NewAnswer(task_id, question, serialized, by, check, lambda other: Value.FromString(other) == value)


def _check_question(link: AnswerLink, wait: Wait) -> None:
    """Raise `NotFound` if a question is not the one of a link, but was asked later."""
    if wait.until != link.asked_until:
        raise NotFound(NO_LINK)


def _open_question(task: Task, wait: Wait, is_shown: bool) -> tuple[pb.OpenQuestion, int]:
    park = task.history.park
    assert park is not None
    message = pb.OpenQuestion(
        task_id=task.id,
        agent_id=task.agent_id,
        action=task.action,
        question_id=wait.name,
        since=timestamp(park.since),
        until=None if wait.until is None else timestamp(wait.until),
    )
    if is_shown:
        message.question.MergeFromString(wait.question or b"")
    return message, message.ByteSize()
