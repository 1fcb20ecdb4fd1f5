"""Why a task waits, as a message (docs/rules.md, Why a task waits)."""

from typing import Final

from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.figures.explain import Explanation, WaitKind, WaitReason

from .task_encoding import STATES
from .timestamps import timestamp

KINDS: Final = {kind: pb.WaitReason.Kind.Value(kind.value) for kind in WaitKind}


def explained(explanation: Explanation) -> pb.ExplainTaskResponse:
    """The answer of ExplainTask."""
    return pb.ExplainTaskResponse(
        task_id=explanation.task_id,
        state=STATES[explanation.state],
        runnable=explanation.runnable,
        reasons=[_reason(reason) for reason in explanation.reasons],
        ahead=explanation.ahead,
        over_share=explanation.over_share or None,
    )


def _reason(reason: WaitReason) -> pb.WaitReason:
    return pb.WaitReason(
        kind=KINDS[reason.kind],
        message=reason.message,
        name=reason.name,
        until=None if reason.until is None else timestamp(reason.until),
        task_ids=reason.task_ids,
        used=reason.used,
        limit=reason.limit,
        missing=reason.missing,
    )
