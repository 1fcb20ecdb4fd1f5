"""Waits of parked tasks between hosts, the core and readers: waits that are checked, questions, their answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf.struct_pb2 import ListValue, Struct, Value

from taskyard.v1 import wait_pb2 as pb
from taskyard_server.core.errors import BadRequest, TooLarge
from taskyard_server.core.history import ANSWER, ENDS, EVENT, TIME, Park, Wait
from taskyard_server.core.task_ids import is_id

from . import requests
from .answer_schemas import AnswerSchema
from .payload import message_to_json
from .timestamps import timestamp

MAX_WAITS: Final = 100
MAX_QUESTIONS_BYTES: Final = 65_536
MAX_PATTERNS: Final = 100
"""Of all questions of a park: each takes up to a millisecond to compile."""
MAX_ANSWER_BYTES: Final = 65_536
MAX_TEXT_CHARS: Final = 10_000
MAX_CHOICES: Final = 100
MAX_AWAITED: Final = 10_000
MAX_WAIT_SECS: Final = 31_622_400.0
"""How long a wait lasts at most: none is for ever, so that tasks that wait for one another end, too."""
QUESTION_SECS: Final = 604_800.0
"""How long a question is open that says nothing else."""
KINDS: Final = {kind: pb.Wait.Kind.Value(kind) for kind in (ANSWER, ENDS, TIME, EVENT)}


def new_waits(messages: Sequence[pb.NewWait], now: float) -> tuple[Wait, ...]:
    """The waits that a host names. Raises `BadRequest` or `TooLarge`."""
    if not 1 <= len(messages) <= MAX_WAITS:
        raise BadRequest(f"waits: must be from 1 to {MAX_WAITS}")
    # The size first: all else takes as long as the questions are large.
    size = sum([message.question.ByteSize() for message in messages])
    if size > MAX_QUESTIONS_BYTES:
        raise TooLarge(f"waits: the questions must be at most {MAX_QUESTIONS_BYTES} bytes together, are {size}")
    waits = tuple([_new_wait(message, now, f"waits[{index}].") for index, message in enumerate(messages)])
    if len({wait.key for wait in waits}) < len(waits):
        raise BadRequest("waits: no two of a kind may have the same name")
    if sum([len(wait.about) for wait in waits if wait.kind == ENDS]) > MAX_AWAITED:
        raise BadRequest(f"waits: must name at most {MAX_AWAITED} tasks together")
    _check_schemas([message.question for message in messages])
    return waits


def _new_wait(message: pb.NewWait, now: float, prefix: str) -> Wait:
    awaited = message.WhichOneof("awaited")
    timeout = QUESTION_SECS if awaited == "question" else MAX_WAIT_SECS
    if message.HasField("timeout_secs"):
        timeout = message.timeout_secs
        _check_secs(timeout, f"{prefix}timeout_secs")
    until = now + timeout
    if awaited == "question":
        name = requests.path_name(message.name, "name", prefix)
        return _asked(name, message.question, until, f"{prefix}question.")
    name = requests.step_name(message.name, f"{prefix}name")
    if awaited == "ends":
        task_ids = tuple(dict.fromkeys(message.ends.task_ids))
        if not 1 <= len(task_ids) <= MAX_AWAITED:
            raise BadRequest(f"{prefix}ends.task_ids: must be from 1 to {MAX_AWAITED}")
        if not all(map(is_id, task_ids)):
            raise BadRequest(f"{prefix}ends.task_ids: must be ids of tasks")
        return Wait(ENDS, name, until, task_ids)
    if awaited == "sleep_secs":
        _check_secs(message.sleep_secs, f"{prefix}sleep_secs")
        return Wait(TIME, name, now + message.sleep_secs)
    if awaited == "event":
        return Wait(EVENT, name, until, (requests.event_name(message.event.name, f"{prefix}event.name"),))
    raise BadRequest(f"{prefix}awaited: one of question, ends, sleep_secs and event is required")


def _asked(name: str, question: pb.Question, until: float, prefix: str) -> Wait:
    if not question.text and not question.url:
        raise BadRequest(f"{prefix}text: is required, unless there is a url")
    if len(question.text) > MAX_TEXT_CHARS:
        raise BadRequest(f"{prefix}text: must be at most {MAX_TEXT_CHARS} characters")
    if question.url and not question.url.startswith(("https://", "http://")):
        raise BadRequest(f"{prefix}url: must begin with https:// or http://")
    if question.HasField("choices") and not 1 <= len(question.choices.values) <= MAX_CHOICES:
        raise BadRequest(f"{prefix}choices: must be from 1 to {MAX_CHOICES}")
    for field in ("schema", "choices", "default"):
        if question.HasField(field):
            value = getattr(question, field)
            whole = Value(list_value=value) if isinstance(value, ListValue) else value
            requests.payload(whole, field, MAX_QUESTIONS_BYTES, prefix=prefix)
    default = None
    if question.HasField("default"):
        _check_choice(question, question.default, f"{prefix}default")
        default = question.default.SerializeToString()
    return Wait(ANSWER, name, until, (), question.SerializeToString(), default)


def _check_schemas(questions: Sequence[pb.Question]) -> None:
    """Check the schemas of the questions of all waits, and defaults by them. All are counted before one is compiled."""
    schemas = [
        (question, AnswerSchema(message_to_json(question.schema), f"waits[{index}].question.schema"), index)
        for index, question in enumerate(questions)
        if question.HasField("schema")
    ]
    if sum([schema.patterns for _, schema, _ in schemas]) > MAX_PATTERNS:
        fault = f"waits: the schemas must have at most {MAX_PATTERNS} patterns together, with those that they refer to"
        raise BadRequest(fault)
    for question, schema, index in schemas:
        schema.compile()
        if question.HasField("default"):
            schema.check(_json(question.default), f"waits[{index}].question.default")


def _check_secs(secs: float, field: str) -> None:
    if math.isnan(secs) or not 0 <= secs <= MAX_WAIT_SECS:
        raise BadRequest(f"{field}: must be from 0 to {MAX_WAIT_SECS:.0f}")


def check_answer(question: pb.Question, answer: Value, field: str = "answer") -> None:
    """Raise `BadRequest` for what is no answer to a question, and `TooLarge`."""
    _check_choice(question, answer, field)
    if question.HasField("schema"):
        AnswerSchema(message_to_json(question.schema), "schema").check(_json(answer), field)


def _check_choice(question: pb.Question, answer: Value, field: str) -> None:
    requests.payload(answer, field, MAX_ANSWER_BYTES)
    if question.HasField("choices") and answer not in question.choices.values:
        raise BadRequest(f"{field}: must be one of the choices")


def _json(answer: Value) -> Any:
    return message_to_json(Struct(fields={"answer": answer}))["answer"]


def wait_message(wait: Wait, *, bare: bool = False) -> pb.Wait:
    """A wait as it is shown; if `bare` without its question."""
    message = pb.Wait(kind=KINDS[wait.kind], name=wait.name)
    if wait.kind == EVENT:
        (message.event_name,) = wait.about
    else:
        message.task_ids.extend(wait.about)
    if wait.until is not None:
        message.until.CopyFrom(timestamp(wait.until))
    if wait.question is not None and not bare:
        message.question.MergeFromString(wait.question)
    return message


def park_message(park: Park, *, bare: bool = False) -> pb.Park:
    """The waits of a parked task, as they are shown (docs/rules.md, Questions)."""
    return pb.Park(since=timestamp(park.since), waits=[wait_message(wait, bare=bare) for wait in park.waits])
