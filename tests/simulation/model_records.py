"""The words of the model: states and their arrows, what is asked for, and the records that the model keeps.

Written from docs/rules.md alone; nothing here is the core's. Times are seconds on the caller's clock.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import floor, inf
from typing import Final, NamedTuple

from .model_output import Said

# docs/rules.md, Task states: where a task may go from each state; from None, how it enters.
ARROWS: Final[dict[str | None, set[str]]] = {
    None: {"pending", "queued", "rejected"},
    "pending": {"queued", "failed", "cancelled"},
    "queued": {"assigned", "failed", "cancelled"},
    "assigned": {"running", "queued", "pending", "paused", "done", "failed", "cancelled"},
    "running": {"queued", "pending", "paused", "parked", "done", "failed", "cancelled"},
    "parked": {"queued", "failed", "cancelled"},
    "paused": {"queued", "done", "cancelled"},
    "failed": {"queued", "done", "cancelled"},
    "done": set(),
    "cancelled": set(),
    "rejected": set(),
}
ENDED: Final = {"done", "failed", "cancelled", "rejected"}
FLYING: Final = {"assigned", "running"}
WAITING: Final = {"pending", "queued"}
STOPPED: Final = {"paused", "failed"}
TICKING: Final = {"pending", "queued", "assigned", "running", "parked"}
"""The states in which a deadline counts."""

COUNTED: Final = {"done": "completed", "failed": "failed", "cancelled": "cancelled"}
INTERRUPTED: Final = "Job was interrupted by user"
OVER_BUDGET: Final = "token limit exceeded"


class Refused(Exception):
    """A command that was refused. `message` is None where no spec words it."""

    def __init__(self, code: str, message: str | None = None, details: dict[str, object] | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.details = details


class Retry(NamedTuple):
    """How often a task is tried, and how long it waits before it is tried again, in seconds."""

    attempts: int
    first: float
    multiplier: float
    most: float
    fatal: frozenset[str]

    def delay(self, failed: int) -> float:
        return min(self.first * self.multiplier ** (failed - 1), self.most)


@dataclass(frozen=True)
class Wish:
    """What an agent asks for. `deadline` and `not_before` are absolute; None is the default, or at once.

    It comes after the tasks `after`, and after those of its batch in these `places`. The results of `inputs`, and of
    those in `input_places`, are handed to it.
    """

    agent: str
    action: str
    tab: str | None = None
    priority: int = 0
    deadline: float | None = None
    project: str | None = None
    requires: frozenset[str] = frozenset()
    key: str | None = None
    target: str | None = None
    hold: bool = False
    not_before: float | None = None
    retry: Retry | None = None
    token_limit: int | None = None
    run_timeout: float | None = None
    parent: str | None = None
    after: tuple[str, ...] = ()
    places: tuple[int, ...] = ()
    after_policy: str | None = None
    unique: str | None = None
    unique_while: str | None = None
    on_conflict: str | None = None
    keys: tuple[str, ...] = ()
    on_target_failure: str | None = None
    inputs: tuple[str, ...] = ()
    input_places: tuple[int, ...] = ()
    on_parent_end: str | None = None
    child_name: str | None = None
    params: bytes | None = None
    input: bytes | None = None


@dataclass(frozen=True)
class Machine:
    """What a host may run; `tabs` is `any`, `only` or `or plain`, this of `plain_actions`.

    The built-in one is the tab executor.
    """

    capabilities: frozenset[str] = frozenset()
    project: str | None = None
    actions: frozenset[str] | None = None
    tabs: str = "any"
    built_in: bool = False
    plain_actions: frozenset[str] | None = None


class Held(NamedTuple):
    """A lease by what its holder knows of it."""

    task: str
    token: int


@dataclass(frozen=True)
class Greeting:
    """What a host says when it opens its stream."""

    host: str
    instance: str
    name: str | None
    machine: Machine
    slots: int | None
    held: tuple[Held, ...] = ()
    lease_secs: float | None = None
    figures: bytes | None = None


class Asked(NamedTuple):
    """Something that a parked task waits for: an answer, the end of the tasks `about`, a time, or the event `about`."""

    kind: str
    name: str
    until: float | None = None
    about: tuple[str, ...] = ()
    question: bytes | None = None
    default: bytes | None = None

    @property
    def key(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(slots=True, eq=False)
class Sent:
    """An event that is kept, of this number: for tasks of these agents, None for all. It `is_over` if time says so."""

    number: int
    name: str
    id: str
    payload: bytes
    at: float
    until: float
    by: str | None
    agents: frozenset[str] | None
    waited: int = 0
    is_over: bool = False


@dataclass
class Job:
    """One task. `order` is the order of submission, `host` holds its lease, the `token`-th of all.

    `last_host` is the runtime host that has or had it last; the tab executor is none. `stream` is the number of the
    stream that the lease belongs to; such a lease ends at `start_by` and `adopt_by`, too. `claim_id` is the name under
    which the host claimed it.

    `own_secs` is the length of a deadline that the agent set. A pending task waits to be released if it is `held`, for
    its `due` time, or to be tried again, when `retrying`. `blocks` and `is_head` are about its target. Its attempt may
    run until `run_until`. It was the answer to what it is `bound` to, at those times. The `reason` is of who ended or
    interrupted it.

    It was last parked under that token; then so much was `left` of a default deadline.
    It waits, or waited, for `waits`, of which it has `met` others, and `keeps` its target until it is handed out. It
    has `heard` events of these names, up to these numbers.
    It has submitted `children` by name, which it keeps no more once its own time `is_over`.
    """

    id: str
    order: int
    wish: Wish
    state: str
    created_at: float
    deadline: float | None
    batch: str | None
    position: int | None = None
    token: int = 0
    deliveries: int = 0
    host: str | None = None
    last_host: str | None = None
    claimed_at: float = 0.0
    lease_secs: float = 0.0
    lease_until: float = 0.0
    stream: int | None = None
    start_by: float = inf
    adopt_by: float = inf
    queued_at: float = 0.0
    started_at: float | None = None
    completed_at: float | None = None
    result: bytes | None = None
    progress: bytes | None = None
    error: str | None = None
    own_secs: float | None = None
    run: int = 1
    failed: int = 0
    held: bool = False
    due: float | None = None
    retrying: bool = False
    blocks: bool = False
    is_head: bool = False
    tokens_before: int = 0
    tokens_used: int | None = None
    raised_limit: int | None = None
    begun: bool = False
    claim_id: str | None = None
    run_until: float | None = None
    code: str | None = None
    traceback: str | None = None
    output: bytes | None = None
    after: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    ends_with: str | None = None
    bound: list[tuple[Wish, float]] = field(default_factory=list)
    moved_to: int | None = None
    said: Said = field(default_factory=Said)
    artifacts: dict[str, int] = field(default_factory=dict)
    steps: dict[str, int] = field(default_factory=dict)
    reason: str | None = None
    waits: tuple[Asked, ...] = ()
    met: tuple[str, ...] = ()
    left: float | None = None
    keeps: bool = False
    parked_at: float | None = None
    parked_under: int | None = None
    heard: dict[str, int] = field(default_factory=dict)
    children: tuple[str, ...] = ()
    is_over: bool = False

    @property
    def priority(self) -> int:
        """That of the last operation that gave it one, else that of its submission."""
        return self.wish.priority if self.moved_to is None else self.moved_to

    @property
    def target(self) -> str | None:
        return self.wish.target

    def __copy__(self) -> Job:
        """A shallow copy. Histories make very many, and that of the library takes several times as long."""
        made = object.__new__(Job)
        made.__dict__.update(self.__dict__)
        return made

    def is_over_budget(self) -> bool:
        limit = self.wish.token_limit if self.raised_limit is None else self.raised_limit
        return limit is not None and (self.tokens_used or 0) > limit

    def told(self, stop: str, message: str) -> str:
        """The message to the host that shall stop."""
        return f"{message}: {self.reason}" if self.reason and stop in ("cancelled", "paused") else message

    def latency_ms(self) -> int | None:
        """From the first start to the end."""
        if self.started_at is None or self.completed_at is None:
            return None
        return round((self.completed_at - self.started_at) * 1000)

    def lease_end(self) -> float:
        """When its lease is over if nothing more is heard of its host."""
        return min(self.lease_until, self.start_by, self.adopt_by)


@dataclass(slots=True)
class Agent:
    """When an agent came and when it was last served, as numbers that grow; and its share of the counters."""

    came: int
    served: int | None = None
    counts: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class Host:
    """A registered host. `reported_status` is the status that it gave itself, `instance` who opened its last stream.

    `lost_at` is when its stream broke, if nothing was heard of it since.

    It rests `until` then; its last rest began at `rested_at`, after so many `losses` in a row.
    """

    id: str
    machine: Machine
    display_name: str
    registered_at: float
    heard_at: float
    slots: int | None = None
    draining: bool = False
    drain_until: float | None = None
    reported_status: str | None = None
    figures: bytes | None = None
    instance: str | None = None
    lost_at: float | None = None
    losses: int = 0
    rested_at: float = -inf
    rests_until: float | None = None

    def rest(self, now: float, claimed_at: float) -> None:
        """docs/rules.md, Redelivery."""
        if claimed_at > self.rested_at:
            self.losses, self.rested_at = self.losses + 1, now
            self.rests_until = now + min(2**self.losses, 60)


@dataclass(slots=True)
class StoppingLeases:
    """A lease that ended while its host may still work; its target stays taken `until` then, or the host's word."""

    host: str
    job: Job
    token: int
    until: float
    streamed: bool
    secs: float

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.host, self.job.id, self.token)


@dataclass(slots=True)
class PastKey:
    """An idempotency key that is known `until` then, though its task is not."""

    job: Job
    wish: Wish
    until: float

    @property
    def key(self) -> tuple[str, str | None]:
        return (self.wish.agent, self.wish.key)

    def answer(self) -> Job:
        """What a repeat is told."""
        job = self.job
        told = Job(job.id, job.order, self.wish, job.state, job.created_at, None, None, job.position)
        told.queued_at = job.created_at
        # It is not known any more.
        told.moved_to = 0
        return told


@dataclass(slots=True)
class Offer:
    """Room at a host: the credit of its stream, or what a claim that waits asked for.

    `last_grant` grows with each opening and each task that an offer gets. A stream may be silent for
    `silence_limit_secs`. A claim may ask for one `project` only, and have a `claim_id`.
    """

    number: int
    host: str
    room: int
    secs: float
    last_grant: int
    silence_limit_secs: float | None = None
    project: str | None = None
    claim_id: str | None = None

    @property
    def streamed(self) -> bool:
        return self.silence_limit_secs is not None


def tick_of(at: float) -> int:
    """The eighth of a second at which something that lasts until `at` is over: never early, at most 1/8 s late."""
    return floor(8 * at) + 1


def lease_length(asked: float | None, otherwise: float) -> float:
    """The seconds that a lease lives; `bad_request` outside of 1 to 3600."""
    if asked is not None and not 1 <= asked <= 3600:
        raise Refused("bad_request")
    return otherwise if asked is None else asked


def may_run(machine: Machine, wish: Wish) -> bool:
    """docs/rules.md, Claim order, Tab executor: what a host may run at all."""
    return (
        wish.requires <= machine.capabilities
        and machine.project in (None, wish.project)
        and (machine.actions is None or wish.action in machine.actions)
        and (machine.tabs == "any" or wish.tab is not None or (machine.tabs == "or plain" and _is_plain(machine, wish)))
    )


def _is_plain(machine: Machine, wish: Wish) -> bool:
    return not wish.requires and (machine.plain_actions is None or wish.action in machine.plain_actions)
