"""Fields that only some tasks have: runs, attempts, retries, tokens, and a time before which they are not due.

A store reads these classes by their types, as those of `task_options.py`: this file is not compiled either.
"""

from __future__ import annotations

from typing import Final, NamedTuple

MAX_REASON_CHARS: Final = 1_000
"""Of the reason for a cancel, a pause or a resolve."""
MAX_RECORDED_ATTEMPTS: Final = 100
MAX_ATTEMPT_ERROR_CHARS: Final = 1_000
"""Of the error of each attempt, so that a task with many of them still fits a message. Its own error is whole."""


WORK: Final = "work"
ANSWER: Final = "answer"
ENDS: Final = "ends"
TIME: Final = "time"
EVENT: Final = "event"


class RetryPolicy(NamedTuple):
    """How often and when a failed attempt is repeated (docs/rules.md, Retries). Delays are seconds."""

    max_attempts: int = 1
    first_delay_secs: float = 1.0
    multiplier: float = 2.0
    max_delay_secs: float = 60.0
    non_retryable_codes: frozenset[str] = frozenset()

    def delay_secs(self, failed: int, chance: float) -> float:
        """How long to wait after this many failed attempts; `chance`, 0 to 1, spreads the upper half of it."""
        try:
            delay = min(self.first_delay_secs * self.multiplier ** (failed - 1), self.max_delay_secs)
        except OverflowError:
            delay = self.max_delay_secs if self.first_delay_secs else 0.0
        return delay * (0.5 + 0.5 * chance)


class Attempt(NamedTuple):
    """One execution. `started_at` is None if its host has not said that it began, `ended_at` while it is under way."""

    number: int
    host_id: str | None
    started_at: float | None
    ended_at: float | None
    error: str | None
    code: str | None


class Bound(NamedTuple):
    """An idempotency key of a submission that a task was the answer to, since it had the unique key; and when."""

    key: str
    fingerprint: bytes
    at: float


class Artifact(NamedTuple):
    """A large value that a run has left behind (docs/rules.md, Artifacts). `at` is when it was complete.

    Its bytes stand in parts of `part_bytes` each, but for the last, in the folder `place` of those of the task.
    """

    name: str
    media_type: str
    size: int
    sha256: bytes
    attempt: int
    at: float
    part_bytes: int
    place: str


class Step(NamedTuple):
    """A part of a task's work that is done, or something that it waited for and that came (docs/rules.md, Steps).

    `kind` is `WORK`, or that of a `Wait`; no two of a kind have the same name. `result` is a serialized `Value`,
    `output` a `Payload`, `question` what was asked; `by` is who answered. One `is_expired` that did not come in time.
    """

    kind: str
    name: str
    result: bytes | None
    output: bytes | None
    run: int
    attempt: int
    duration_ms: int | None
    at: float
    by: str | None = None
    is_expired: bool = False
    question: bytes | None = None

    @property
    def size(self) -> int:
        """Its bytes, as they count."""
        parts = (self.name.encode(), self.result, self.output, self.question)
        return sum([len(part) for part in parts if part is not None])


class Wait(NamedTuple):
    """A thing that a parked task waits for, until a time at most if there is one (docs/rules.md, Parked tasks).

    `kind` is `ANSWER`, `ENDS`, `TIME` or `EVENT`; no two of a kind have the same name in a task. `about` are the tasks
    whose ends it is, or the name of the event; `question` is a serialized `Question`, and `default` the `Value` that
    counts if nobody answers.
    """

    kind: str
    name: str
    until: float | None = None
    about: tuple[str, ...] = ()
    question: bytes | None = None
    default: bytes | None = None

    @property
    def key(self) -> str:
        """Its kind and name."""
        return f"{self.kind}:{self.name}"


class Park(NamedTuple):
    """The things that a task waits for, or waited for when it was parked last, `since` then.

    `waits` are those that nothing has come of yet. `met` are the keys of all others that it ever had. `left_secs` is
    what was left of a default deadline. It `keeps_target` where that stays taken, until it is
    handed out again. It was parked under the lease with this `token`. `heard` has the names of the events that it ever
    had, each with the number of the last one.
    """

    since: float
    token: int
    waits: tuple[Wait, ...]
    met: tuple[str, ...] = ()
    left_secs: float | None = None
    keeps_target: bool = True
    heard: tuple[tuple[str, int], ...] = ()


class History(NamedTuple):
    """The course of one task. Never changed but replaced, so that events keep what was true at their time.

    `attempts` are those of the current run that are over, the newest hundred of them; `last_number` counts them all,
    `failed` those that the retry policy counts. `tokens_used` is over all attempts, of which `tokens_before` were used
    by earlier ones. `token_limit` is the one that a resume set, if any. `not_before` is when a pending task is due.
    `code` and `traceback` are those of the last failed attempt of the run, `output` is a serialized `Payload`. `bound`
    are idempotency keys that the task has beside its own, the newest last. `artifacts` are those of all
    runs, in the order in which they were put, and `steps` counts those of all runs, which have `step_bytes` together.
    `park` is there once the task was parked. `reason` is that of the last cancel, pause or resolve; a resume clears it.
    `children` are the orders of submission of those that it has by name.
    """

    run: int = 1
    attempts: tuple[Attempt, ...] = ()
    last_number: int = 0
    failed: int = 0
    held: bool = False
    not_before: float | None = None
    tokens_before: int = 0
    tokens_used: int | None = None
    token_limit: int | None = None
    code: str | None = None
    traceback: str | None = None
    output: bytes | None = None
    bound: tuple[Bound, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    steps: int = 0
    step_bytes: int = 0
    park: Park | None = None
    reason: str | None = None
    children: tuple[int, ...] = ()

    def with_attempt(
        self, host_id: str | None, started_at: float | None, ended_at: float, error: str | None, code: str | None
    ) -> History:
        """An attempt is over."""
        number = self.last_number + 1
        text = None if error is None else error[:MAX_ATTEMPT_ERROR_CHARS]
        attempts = (*self.attempts, Attempt(number, host_id, started_at, ended_at, text, code))
        return self._replace(attempts=attempts[-MAX_RECORDED_ATTEMPTS:], last_number=number)

    def with_failure(self, code: str | None, traceback: str | None) -> History:
        """An attempt has failed. Most tell neither, and then nothing is replaced."""
        if code == self.code and traceback == self.traceback:
            return self
        return self._replace(code=code, traceback=traceback)

    def with_reason(self, reason: str | None) -> History:
        """The task is cancelled, paused or resolved. Mostly no reason is given, and then nothing is replaced."""
        return self if reason == self.reason else self._replace(reason=reason)

    def of_next_run(self) -> History:
        """The task was resumed. Its deadline begins anew, while what it has asked and was answered stays."""
        park = None if self.park is None else self.park._replace(left_secs=None)
        return self._replace(
            run=self.run + 1, attempts=(), last_number=0, failed=0, code=None, traceback=None, reason=None, park=park
        )

    @property
    def left_secs(self) -> float | None:
        """The seconds that were left of a default deadline when the task was parked, None if it was not in this run."""
        return None if self.park is None else self.park.left_secs
