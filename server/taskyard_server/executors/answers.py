"""The meaning of an instance's answer for a task: its result, or its failure (docs/rules.md, Executor answers)."""

from typing import Final

from google.protobuf import json_format

from taskyard.v1.task_pb2 import Progress
from taskyard_server.conversion.payload import Json, is_too_deep, parse_json, result_from_body
from taskyard_server.conversion.requests import MAX_NAME_CHARS
from taskyard_server.core.attempts import TAB_HANDED_OFF

MAX_ERROR_CHARS: Final = 1_000
MASK: Final = "***"


class ActionFailed(Exception):
    """The action did not succeed. `error` becomes the task's; its retry policy acts on `code` and `retryable`.

    `details` are what the instance said besides, None for nothing. Where it `is_handed_off` a person has the tab.
    """

    def __init__(
        self,
        error: str,
        code: str | None = None,
        retryable: bool = True,
        details: dict[str, Json] | None = None,
        is_handed_off: bool = False,
    ) -> None:
        super().__init__(error)
        self.error = error
        self.code = code
        self.retryable = retryable
        self.details = details
        self.is_handed_off = is_handed_off


def result_from_answer(status: int, body: bytes, token: str | None = None) -> bytes | None:
    """The packed result of a task; None for an empty body.

    Raises `ActionFailed` for a status other than 2xx, and for `"success": false` in a JSON object. No other value of
    `success` is a failure. An error that quotes `token` is masked.
    """
    answer = _parse_object(body)
    if 200 <= status < 300 and answer.get("success") is not False:
        return result_from_body(body)
    error = _error(status, body, answer, token)
    retryable, details, code = answer.get("retryable"), answer.get("details"), _code(answer)
    raise ActionFailed(
        error,
        code,
        retryable if isinstance(retryable, bool) else True,
        details if isinstance(details, dict) and details else None,
        status == 409 and code == TAB_HANDED_OFF,
    )


def details_of(failure: ActionFailed) -> bytes | None:
    """The details of a failure as the last progress of its task; None if there are none, or none that are valid."""
    if failure.details is None:
        return None
    progress = Progress()
    try:
        json_format.ParseDict(failure.details, progress.details)
    except (ValueError, OverflowError, RecursionError, json_format.ParseError):
        return None
    packed = progress.details.SerializeToString()
    return None if is_too_deep(progress.details, packed) else progress.SerializeToString()


def _parse_object(body: bytes) -> dict[str, Json]:
    """The JSON object that a body holds; an empty one where it holds something else."""
    try:
        answer = parse_json(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _error(status: int, body: bytes, answer: dict[str, Json], token: str | None) -> str:
    error = answer.get("error")
    if isinstance(error, str) and (text := _shorten(error, token)):
        return text
    text = _shorten(body.decode(errors="replace"), token)
    return f"executor returned {status}: {text}" if text else f"executor returned {status}"


def _shorten(text: str, token: str | None) -> str:
    """The text without the token, cut, and without the halves of characters that JSON can spell and UTF-8 cannot."""
    if token:
        text = text.replace(token, MASK)
    return text.strip()[:MAX_ERROR_CHARS].encode(errors="replace").decode()


def _code(answer: dict[str, Json]) -> str | None:
    """The code, where it is one that a host could report."""
    code = answer.get("code")
    return code if isinstance(code, str) and code.isprintable() and 0 < len(code) <= MAX_NAME_CHARS else None
