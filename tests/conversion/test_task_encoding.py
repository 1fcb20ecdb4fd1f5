"""The hand-written encodings of tasks, events, leases and outcomes equal protobuf's, field by field."""

from __future__ import annotations

from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import assume, given
from hypothesis import strategies as st

from taskyard.v1 import lease_pb2
from taskyard.v1 import runtime_host_pb2 as host_pb
from taskyard.v1 import task_pb2 as pb
from taskyard_server.conversion import task_encoding as encoding
from taskyard_server.conversion.timestamps import timestamp
from taskyard_server.conversion.wire import add_varint, to_microseconds
from taskyard_server.core.agents import Agent
from taskyard_server.core.errors import NotFound
from taskyard_server.core.events import Event, EventKind
from taskyard_server.core.history import Artifact, Attempt, History, Park, RetryPolicy, Wait
from taskyard_server.core.hosts import Host
from taskyard_server.core.leases import Lease
from taskyard_server.core.task import NO_EXTRAS, NO_HISTORY, NO_OPTIONS, Existing, Submission, Task, TaskState
from taskyard_server.core.task_options import (
    AfterPolicy,
    IdempotencyKey,
    OnConflict,
    OnParentEnd,
    OnTargetFailure,
    TaskExtras,
    TaskOptions,
    UniqueWhile,
)
from tests.cases import every_case

TEXTS = st.text(max_size=200)
NAMES = st.text(min_size=1, max_size=20)
TIMES = st.floats(-62_135_596_800, 253_402_300_799, allow_nan=False)
RECENT_TIMES = st.floats(1_700_000_000, 1_700_100_000)


def optional(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


PARAMS = st.dictionaries(NAMES, st.booleans() | TEXTS | st.floats(allow_nan=False, allow_infinity=False), max_size=3)
POLICIES = st.builds(
    RetryPolicy,
    st.integers(1, 9),
    st.floats(0, 99),
    st.floats(1, 9),
    st.floats(0, 999),
    st.frozensets(NAMES, max_size=2),
)
PAYLOADS = st.builds(
    lambda data, encoding: pb.Payload(data=data, encoding=encoding).SerializeToString(),
    st.binary(max_size=50),
    optional(NAMES),
)
EXTRAS = st.just(NO_EXTRAS) | st.builds(
    TaskExtras,
    concurrency_keys=st.lists(NAMES, max_size=4).map(tuple),
    after=st.lists(NAMES, max_size=3).map(tuple),
    after_policy=optional(st.sampled_from(AfterPolicy)),
    unique_key=optional(NAMES),
    unique_while=optional(st.sampled_from(UniqueWhile)),
    on_conflict=optional(st.sampled_from(OnConflict)),
    on_target_failure=optional(st.sampled_from(OnTargetFailure)),
    selector=optional(NAMES),
    inputs=st.dictionaries(NAMES, NAMES, max_size=3).map(lambda inputs: tuple(sorted(inputs.items()))),
    input_indexes=st.just(()),
    on_parent_end=optional(st.sampled_from(OnParentEnd)),
    child_name=optional(NAMES),
)
OPTIONS = st.just(NO_OPTIONS) | st.builds(
    TaskOptions,
    callback_url=optional(NAMES),
    project=optional(NAMES),
    requires=st.frozensets(NAMES, max_size=3),
    labels=st.dictionaries(NAMES, TEXTS, max_size=3).map(lambda labels: tuple(sorted(labels.items()))),
    batch_id=optional(NAMES),
    target=optional(NAMES),
    traceparent=optional(NAMES),
    key=optional(st.builds(IdempotencyKey, NAMES, st.binary(min_size=16, max_size=16))),
    token_limit=optional(st.integers(0, 2**32 - 1)),
    retry=optional(POLICIES),
    run_timeout_secs=optional(st.integers(1, 2**32 - 1).map(lambda ms: ms / 1000)),
    parent_id=optional(NAMES),
    input=optional(PAYLOADS),
    extras=EXTRAS,
)
ATTEMPTS = st.builds(
    Attempt,
    st.integers(1, 99),
    optional(NAMES),
    optional(RECENT_TIMES),
    optional(RECENT_TIMES),
    optional(TEXTS),
    optional(NAMES),
)
ARTIFACTS = st.builds(
    Artifact,
    NAMES,
    NAMES,
    st.integers(0, 2**53),
    st.binary(max_size=4),
    st.integers(0, 9),
    RECENT_TIMES,
    st.just(1),
    st.just("place"),
)
WAITS = st.builds(
    Wait,
    st.sampled_from(["ends", "time"]),
    NAMES,
    optional(RECENT_TIMES),
    st.lists(NAMES, max_size=2).map(tuple),
    st.none(),
    st.none(),
)
PARKS = st.builds(Park, RECENT_TIMES, st.just(1), st.lists(WAITS, max_size=2).map(tuple))
HISTORIES = st.just(NO_HISTORY) | st.builds(
    History,
    run=st.integers(1, 9),
    attempts=st.lists(ATTEMPTS, max_size=3).map(tuple),
    last_number=st.integers(0, 9),
    held=st.booleans(),
    not_before=optional(TIMES),
    tokens_used=optional(st.integers(0, 2**40)),
    token_limit=optional(st.integers(0, 2**32 - 1)),
    code=optional(NAMES),
    traceback=optional(TEXTS.filter(bool)),
    output=optional(PAYLOADS),
    artifacts=st.lists(ARTIFACTS, max_size=2).map(tuple),
    steps=st.integers(0, 1000),
    step_bytes=st.integers(0, 1 << 20),
    park=optional(PARKS),
    reason=optional(TEXTS.filter(bool)),
)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    """A task in any state with any combination of fields."""
    params = draw(optional(PARAMS))
    struct = None
    if params is not None:
        struct = Struct()
        struct.update(params)
    submission = Submission(
        "",
        draw(NAMES),
        draw(optional(NAMES)),
        draw(optional(NAMES)),
        None if struct is None else struct.SerializeToString(),
        draw(st.integers(-(2**31), 2**31 - 1)),
        None,
        draw(OPTIONS),
    )
    task = Task(
        draw(NAMES), 1, Agent(draw(NAMES), 1), submission, draw(RECENT_TIMES), draw(optional(TIMES)), draw(STATES)
    )
    task.started_at = draw(optional(RECENT_TIMES))
    task.completed_at = draw(optional(st.floats(1_700_100_000, 1_800_000_000)))
    task.error = draw(optional(TEXTS))
    task.position = draw(optional(st.integers(0, 2**32 - 1)))
    task.host_id = draw(optional(NAMES))
    task.history = draw(HISTORIES)
    if draw(st.booleans()):
        task.result = Value(string_value=draw(TEXTS)).SerializeToString()
    if draw(st.booleans()):
        task.progress = pb.Progress(message=draw(TEXTS)).SerializeToString()
    if draw(st.booleans()):
        with_lease(task).started_at = draw(optional(RECENT_TIMES))
    return task


STATES = st.sampled_from(TaskState)


def with_lease(
    task: Task, host_id: str = "host", token: int = 1, at: float = 1_700_000_000.0, secs: float = 60.0
) -> Lease:
    task.lease = Lease(task, Host(host_id, 1, at), token, at, secs)
    return task.lease


def expected(task: Task, completed_at: float | None, with_result: bool) -> pb.Task:
    """The task as a protobuf message, without its params."""
    options, history = task.options, task.history
    extras = options.extras
    message = pb.Task(
        task_id=task.id,
        agent_id=task.agent_id,
        action=task.action,
        tab_id=task.tab_id,
        ref=task.ref,
        priority=task.priority,
        state=pb.Task.State.Value(task.state.value),
        deadline=time(task.deadline),
        created_at=time(task.created_at),
        started_at=time(task.started_at),
        completed_at=time(completed_at),
        error=task.error,
        position=task.position,
        host_id=task.host_id,
        callback_url=options.callback_url,
        project=options.project,
        batch_id=options.batch_id,
        traceparent=options.traceparent,
        idempotency_key=None if options.key is None else options.key.key,
        requires=sorted(options.requires),
        labels=dict(options.labels),
        target=options.target,
        token_limit=task.token_limit,
        hold=True if history.held else None,
        not_before=time(history.not_before),
        tokens_used=None if history.tokens_used is None else min(history.tokens_used, 2**32 - 1),
        run=history.run if history.run > 1 else None,
        run_timeout_ms=None if options.run_timeout_secs is None else round(options.run_timeout_secs * 1000),
        parent_id=options.parent_id,
        code=history.code,
        reason=history.reason,
        concurrency_keys=extras.concurrency_keys,
        after=extras.after,
        after_policy=extras.after_policy and pb.After.Policy.Value(extras.after_policy.value),
        unique_key=extras.unique_key,
        unique_while=extras.unique_while and pb.Unique.While.Value(extras.unique_while.value),
        on_target_failure=extras.on_target_failure,
        selector=extras.selector,
        inputs=dict(extras.inputs),
        on_parent_end=extras.on_parent_end and pb.Parent.OnEnd.Value(extras.on_parent_end.value),
        child_name=extras.child_name,
    )
    if task.started_at is not None and completed_at is not None:
        message.latency_ms = min(round((completed_at - task.started_at) * 1000), 2**32 - 1)
    if task.progress is not None:
        message.progress.MergeFromString(task.progress)
    if with_result and task.result is not None:
        message.result.MergeFromString(task.result)
    if with_result and history.output is not None:
        message.output.MergeFromString(history.output)
    if history.steps:
        message.steps = history.steps
    if history.park is not None and task.state == "parked":
        message.park.since.CopyFrom(timestamp(history.park.since))
        for wait in history.park.waits:
            shown = message.park.waits.add(kind=wait.kind, name=wait.name, task_ids=wait.about)
            if wait.until is not None:
                shown.until.CopyFrom(timestamp(wait.until))
    for artifact in history.artifacts:
        message.artifacts.add(
            name=artifact.name,
            media_type=artifact.media_type,
            size_bytes=artifact.size,
            sha256=artifact.sha256.hex(),
            attempt=artifact.attempt or None,
            created_at=time(artifact.at),
        )
    policy = options.retry
    if policy is not None:
        message.retry_policy.max_attempts = policy.max_attempts
        message.retry_policy.first_delay_ms = round(policy.first_delay_secs * 1000)
        message.retry_policy.multiplier = policy.multiplier
        message.retry_policy.max_delay_ms = round(policy.max_delay_secs * 1000)
        message.retry_policy.non_retryable_codes.extend(sorted(policy.non_retryable_codes))
    attempts = list(history.attempts)
    if task.state in (TaskState.ASSIGNED, TaskState.RUNNING):
        started_at = None if task.lease is None else task.lease.started_at
        attempts.append(Attempt(history.last_number + 1, task.host_id, started_at, None, None, None))
    if len(attempts) > 1 or policy is not None:
        for attempt in attempts:
            message.attempts.add(
                number=attempt.number,
                host_id=attempt.host_id,
                started_at=time(attempt.started_at),
                ended_at=time(attempt.ended_at),
                error=attempt.error,
                code=attempt.code,
            )
    return message


def time(at: float | None) -> Timestamp | None:
    return None if at is None else timestamp(at)


@given(tasks())
def test_a_task_is_encoded_with_its_payloads(task):
    message = expected(task, task.completed_at, with_result=True)
    if task.params is not None:
        message.params.SetInParent()
        message.params.MergeFromString(task.params)
    if task.options.input is not None:
        message.input.MergeFromString(task.options.input)
    if task.history.traceback is not None:
        message.traceback = task.history.traceback
    assert pb.Task.FromString(encoding.encode_task(task)) == message


@given(tasks(), RECENT_TIMES, st.sampled_from(EventKind), optional(STATES))
def test_an_event_is_encoded_with_the_task_just_after_it(task, at, kind, before):
    event = Event(at, task, kind, before)
    terminal = task.state in (TaskState.DONE, TaskState.FAILED, TaskState.CANCELLED, TaskState.REJECTED)
    completed_at = task.completed_at if kind is EventKind.EVICTED else at if terminal else None
    assume(None in (task.started_at, completed_at) or completed_at >= task.started_at)
    (message,) = pb.WatchTasksResponse.FromString(encoding.encode_event(event)).events
    assert message.task == expected(task, completed_at, with_result=task.state is TaskState.DONE)
    assert (message.kind, message.occurred_at) == (pb.TaskEvent.Kind.Value(kind.value), timestamp(at))
    has_previous_state = before is not None and kind is EventKind.CHANGED
    assert message.HasField("previous_state") == has_previous_state
    assert not has_previous_state or message.previous_state == pb.Task.State.Value(before.value)


@given(tasks(), RECENT_TIMES)
def test_the_current_state_of_a_task_has_no_params(task, now):
    (message,) = pb.WatchTasksResponse.FromString(encoding.encode_current(task, now)).events
    assert message.task == expected(task, task.completed_at, with_result=True)
    assert (message.kind, message.occurred_at) == (pb.TaskEvent.current, timestamp(now))


@given(tasks(), NAMES, st.integers(1, 2**53), RECENT_TIMES, st.floats(1, 3600))
def test_an_assignment_is_a_lease_and_its_task(task, host_id, token, at, secs):
    lease = with_lease(task, host_id, token, at, secs)
    message = lease_pb2.Assignment.FromString(encoding.encode_assignment(lease))
    assert message.lease == lease_pb2.Lease(
        task_id=task.id,
        host_id=host_id,
        claimed_at=timestamp(at),
        expires_at=timestamp(at + secs),
        fencing_token=token,
        lease_secs=round(secs),
    )
    assert message.task == pb.Task.FromString(encoding.encode_task(task))


@given(tasks())
def test_an_accepted_task_is_answered_with_its_position(task):
    refused = pb.SubmitOutcome(rejected_task_id="tsk_2")
    outcomes = [task, NotFound("no"), task, Existing(task)]
    encoded = encoding.encode_outcomes(outcomes, lambda _: refused.SerializeToString())
    first, second, third, found = pb.SubmitTasksResponse.FromString(encoded).outcomes
    assert (second, third) == (refused, first)
    assert found.accepted.existing
    found.accepted.ClearField("existing")
    assert found == first
    assert first.accepted == pb.SubmitTaskResponse(
        task_id=task.id,
        state=pb.Task.State.Value(task.state.value),
        position=task.position,
        created_at=timestamp(task.created_at),
    )


@every_case("state", TaskState)
def test_an_accepted_report_is_answered_with_the_state_of_the_task(state):
    result = host_pb.ReportResult(state=pb.Task.State.Value(state.value))
    assert list(host_pb.ReportResults.FromString(encoding.encode_reported(state)).results) == [result]


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varint_is_what_protobuf_writes(number):
    parts: list[bytes] = []
    add_varint(parts, number)
    field = Timestamp(seconds=number).SerializeToString()
    assert b"".join(parts) == (field[1:] or b"\0")


@given(TIMES)
def test_a_time_is_rounded_to_the_nearest_microsecond(at):
    assert abs(to_microseconds(at) - at * 1e6) <= 0.5 + abs(at) * 1e6 * 2**-52
    assert timestamp(at).ToMicroseconds() == to_microseconds(at)
