"""Params that are too large for a message, and become an artifact (docs/rules.md, Artifacts).

Their task is submitted with a reference in their place and held, until they are an artifact of it.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from taskyard.errors import TaskyardError, TooLarge
from taskyard.v1.task_pb2 import SubmitTaskRequest

from .convert import fill_struct, plain_object
from .references import PARAMS, Reference

if TYPE_CHECKING:
    from taskyard.errors import Conflict, Unimplemented

REFUSED: Final = re.compile(r"(tasks\[\d+\]\.|child\.)?(params|input):")
"""How the error begins of a task whose params the server does not take."""


def size_of_params(task: SubmitTaskRequest) -> int:
    """Measure the params of a task.

    Args:
        task: The task.

    Returns:
        The bytes of what it has as params and input, encoded.
    """
    return task.params.ByteSize() + task.input.ByteSize()


def refuses_params(error: TaskyardError) -> bool:
    """Say whether a task was refused since its params are too large.

    Args:
        error: The refusal.

    Returns:
        Whether it was.
    """
    return isinstance(error, TooLarge) and REFUSED.match(error.reason) is not None


def held_without_params(request: SubmitTaskRequest) -> tuple[SubmitTaskRequest, bytes]:
    """Take the params out of a task, and hold it.

    Args:
        request: The task. It stays as it is.

    Returns:
        The task with a reference to its params, and these.
    """
    encoding = None
    if request.HasField("input"):
        data, encoding = request.input.data, request.input.encoding or None
    else:
        # The same for a repeat by another process, whatever the order of the keys.
        data = msgspec.json.encode(plain_object(request.params), order="deterministic")
    held = SubmitTaskRequest()
    held.CopyFrom(request)
    held.ClearField("input")
    held.ClearField("params")
    reference = Reference(PARAMS, len(data), sha256(data).hexdigest(), encoding)
    fill_struct(held.params, reference.plain())
    held.hold = True
    return held, data


def no_artifact(error: Conflict | Unimplemented) -> TooLarge:
    """Say why params cannot become an artifact.

    Args:
        error: The refusal of the artifact.

    Returns:
        The error of who submits them.
    """
    return TooLarge(f"params: are so large that they would be an artifact, but {error.reason}")
