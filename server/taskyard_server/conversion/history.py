"""The optional part of a task message: retry policy, runs, attempts, tokens, hold and start time."""

from taskyard.v1 import task_pb2 as pb
from taskyard_server.core.history import Attempt, History, RetryPolicy
from taskyard_server.core.task import IN_FLIGHT, PARKED, TaskState

from .artifacts import artifact_message
from .timestamps import timestamp
from .waits import park_message
from .wire import MAX_UINT32


def history_message(
    history: History,
    policy: RetryPolicy | None,
    state: TaskState,
    host_id: str | None,
    attempt_started_at: float | None,
    bare: bool = False,
) -> pb.Task:
    """A `Task` with only these fields set. The attempt in progress is listed last. If `bare` none tells its error."""
    message = pb.Task()
    if policy is not None:
        message.retry_policy.CopyFrom(policy_message(policy))
    if history.held:
        message.hold = True
    if history.not_before is not None:
        message.not_before.CopyFrom(timestamp(history.not_before))
    if history.tokens_used is not None:
        message.tokens_used = min(history.tokens_used, MAX_UINT32)
    if history.token_limit is not None:
        # Overrides the limit of the submission, which precedes this message in the encoding.
        message.token_limit = history.token_limit
    if history.code is not None:
        message.code = history.code
    if history.artifacts and not bare:
        message.artifacts.extend([artifact_message(each) for each in history.artifacts])
    if history.steps:
        message.steps = history.steps
    if history.reason is not None:
        message.reason = history.reason
    if state is PARKED and history.park is not None:
        message.park.CopyFrom(park_message(history.park, bare=bare))
    if history.run > 1:
        message.run = history.run
    attempts = history.attempts
    if state in IN_FLIGHT:
        attempts = (*attempts, Attempt(history.last_number + 1, host_id, attempt_started_at, None, None, None))
    if len(attempts) > 1 or policy is not None:
        for attempt in attempts:
            _add_attempt(message, attempt, bare)
    return message


def policy_message(policy: RetryPolicy) -> pb.RetryPolicy:
    """A retry policy with every field set."""
    return pb.RetryPolicy(
        max_attempts=policy.max_attempts,
        first_delay_ms=round(policy.first_delay_secs * 1000),
        multiplier=policy.multiplier,
        max_delay_ms=round(policy.max_delay_secs * 1000),
        non_retryable_codes=sorted(policy.non_retryable_codes),
    )


def _add_attempt(message: pb.Task, attempt: Attempt, bare: bool) -> None:
    message.attempts.add(
        number=attempt.number,
        host_id=attempt.host_id,
        started_at=None if attempt.started_at is None else timestamp(attempt.started_at),
        ended_at=None if attempt.ended_at is None else timestamp(attempt.ended_at),
        error=None if bare else attempt.error,
        code=attempt.code,
    )
