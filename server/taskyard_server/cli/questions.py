"""`taskyard questions` and `taskyard answer`: the open questions of parked tasks, and answers to them."""

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import grpc
import typer
from google.protobuf.struct_pb2 import Value

from taskyard.v1 import park_pb2 as pb
from taskyard.v1.park_pb2_grpc import ParkServiceStub
from taskyard.v1.wait_pb2 import Question
from taskyard.values.convert import plain_object, plain_value, value_from
from taskyard_server.conversion.payload import message_to_json

from . import completed
from .connection import Connection, with_connection
from .console import out
from .failure import Failure, Misuse
from .listing import Head, ListingTable, task_id
from .output_form import print_data, with_output
from .server import local_time, shown, time_ago, word
from .task_ids import TaskArgument, whole_id


@with_output
@with_connection
def questions(
    connection: Connection,
    agent: Annotated[str | None, typer.Option("--agent", help="Only those of tasks of this agent.")] = None,
    as_json: bool = False,
) -> None:
    """List the questions that tasks ask and nobody has answered, by the order of the tasks' submission."""
    with connection.opened() as channel:
        found = list(_open_questions(channel, connection, agent))
    if as_json:
        print_data({"questions": [message_to_json(each) for each in found]})
        return
    heads = (Head("agent", 3), Head("action", 2), Head("choices", 1), Head("asked", 4), Head("until", 5))
    table = ListingTable(task_id("task"), "question", "text", *heads)
    for each in found:
        choices = ", ".join(map(_json, map(plain_value, each.question.choices.values)))
        text, asked = each.question.text or each.question.url, time_ago(each.since)
        table.add(
            *(each.task_id, each.question_id, " ".join(text.split()), each.agent_id, each.action),
            *(choices, asked, local_time(each.until)),
        )
    table.print()


@with_output
@with_connection
def answer(
    task: TaskArgument,
    question: Annotated[
        str, typer.Argument(help="The id of the question.", autocompletion=completed.questions, metavar="QUESTION")
    ],
    connection: Connection,
    said: Annotated[
        str | None,
        typer.Argument(
            metavar="ANSWER",
            help="The answer: JSON, or a text where it is none. Default: on a terminal the question is shown, and the "
            "answer asked for.",
        ),
    ] = None,
    text: Annotated[bool, typer.Option("--text", help="It is a text, also where it could be JSON.")] = False,
    link: Annotated[
        bool, typer.Option("--link", help="Do not answer: print a link by which people without a credential can.")
    ] = False,
    as_json: bool = False,
) -> None:
    """Answer a question that a task asks, which lets the task go on."""
    if link and (said is not None or text):
        raise Misuse("--link: takes no answer")
    with connection.opened() as channel:
        whole = whole_id(channel, connection, task)
        if link:
            made = pb.CreateAnswerLinkRequest(task_id=whole, question_id=question)
            linked = ParkServiceStub(channel).CreateAnswerLink(made, **connection.call())
            print_data(message_to_json(linked)) if as_json else out.print(linked.href, soft_wrap=True)
            return
        if said is None:
            said = _asked(channel, connection, whole, question)
        request = pb.AnswerQuestionRequest(
            task_id=whole, question_id=question, answer=json_value(said, "ANSWER", is_text=text)
        )
        response: pb.AnswerQuestionResponse = ParkServiceStub(channel).AnswerQuestion(request, **connection.call())
    if as_json:
        print_data(message_to_json(response))
    else:
        out.print(f"{response.task_id} is {word(response.state)}", soft_wrap=True)


def _open_questions(channel: grpc.Channel, connection: Connection, agent: str | None) -> Iterator[pb.OpenQuestion]:
    request = pb.ListQuestionsRequest(agent_id=agent)
    while True:
        page = ParkServiceStub(channel).ListQuestions(request, **connection.call())
        yield from page.questions
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _asked(channel: grpc.Channel, connection: Connection, whole: str, question: str) -> str:
    """The answer of the person at the terminal, who is shown the question."""
    if not sys.stdin.isatty():
        raise Misuse("ANSWER: is needed where there is no terminal")
    for each in _open_questions(channel, connection, None):
        if (each.task_id, each.question_id) == (whole, question):
            break
    else:
        raise Failure("question not found")
    # On standard error, so that what is printed remains the answer of the server.
    for line in _lines(each.question):
        print(shown(line).plain, file=sys.stderr)
    print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise Failure("no answer was given")
    return line.strip()


def _lines(question: Question) -> list[str]:
    lines = question.text.expandtabs().splitlines()
    if question.url:
        lines.append(question.url)
    if question.choices.values:
        lines.append("One of " + ", ".join(_json(plain_value(each)) for each in question.choices.values))
    if question.HasField("schema"):
        lines.append("JSON for the schema " + _json(plain_object(question.schema)))
    if question.HasField("default"):
        lines.append("Without an answer in time it is " + _json(plain_value(question.default)))
    return lines


def _json(plain: Any) -> str:
    return json.dumps(plain, ensure_ascii=False)


def json_value(said: str, what: str, *, is_text: bool = False) -> Value:
    """A value as it was typed: JSON, or a text. Raises `Misuse`, which names `what` it is."""
    plain: Any = said
    if not is_text:
        try:
            plain = json.loads(said, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            # A text needs no quotes.
            plain = said
    try:
        return value_from(plain)
    except (TypeError, ValueError) as error:
        raise Misuse(f"{what}: {error}") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
