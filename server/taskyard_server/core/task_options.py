"""The fields of a task that few submitters set, as they stand in the core and in the records of a store.

A store reads these classes by their types, which the compiled form does not tell: this file is not compiled. Fields are
never moved, changed or taken out; new ones are appended, with a default.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from .history import RetryPolicy


class IdempotencyKey(NamedTuple):
    """Makes a submission safe to repeat. Equal bodies have equal fingerprints, whatever the order of their fields."""

    key: str
    fingerprint: bytes


class AfterPolicy(StrEnum):
    """The condition of a task on its predecessors (docs/rules.md, Predecessors)."""

    SUCCESS = "success"
    ENDED = "ended"


class UniqueWhile(StrEnum):
    """How long a unique key is taken (docs/rules.md, Unique keys)."""

    QUEUED = "queued"
    LIVE = "live"


class OnConflict(StrEnum):
    """The policy of a submission whose unique key is taken (docs/rules.md, Unique keys)."""

    EXISTING = "existing"
    REJECT = "reject"
    REPLACE_QUEUED = "replaceQueued"


class OnTargetFailure(StrEnum):
    """The policy of a target when a task of it fails after its start (docs/rules.md, Serial queues)."""

    BLOCK = "block"
    CONTINUE = "continue"


class OnParentEnd(StrEnum):
    """The fate of a task when its parent ends (docs/rules.md, Parents)."""

    KEEP = "keep"
    CANCEL = "cancel"


class TaskExtras(NamedTuple):
    """Options that few submitters set: how a task stands to others, and the `selector` of its element.

    None of a policy means that it was not set. `concurrency_keys` are in order, each once. `after_indexes` are
    predecessors by their indexes in the same batch; they become ids when it is admitted. `inputs` are predecessors
    whose results are handed on, by their names and in the order of these, and `input_indexes` the same by indexes.
    `on_conflict` is about the submission alone. `child_name` is that of a child, which its parent gives.
    """

    concurrency_keys: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    after_indexes: tuple[int, ...] = ()
    after_policy: AfterPolicy | None = None
    unique_key: str | None = None
    unique_while: UniqueWhile | None = None
    on_conflict: OnConflict | None = None
    on_target_failure: OnTargetFailure | None = None
    selector: str | None = None
    inputs: tuple[tuple[str, str], ...] = ()
    input_indexes: tuple[tuple[str, int], ...] = ()
    on_parent_end: OnParentEnd | None = None
    child_name: str | None = None

    @property
    def predecessors(self) -> tuple[str, ...]:
        """The tasks that this one comes after, each once: those that it names, then its inputs."""
        return tuple(dict.fromkeys([*self.after, *[task_id for _, task_id in self.inputs]]))


class TaskOptions(NamedTuple):
    """The fields that few submitters set. All other tasks share one default instance.

    `parent_id` is the task whose work submitted this one, which need not exist. `input` is a serialized `Payload`.
    `extras` is `NO_EXTRAS` where none of them is set.
    """

    callback_url: str | None = None
    project: str | None = None
    requires: frozenset[str] = frozenset()
    labels: tuple[tuple[str, str], ...] = ()
    batch_id: str | None = None
    target: str | None = None
    traceparent: str | None = None
    key: IdempotencyKey | None = None
    hold: bool = False
    not_before: float | None = None
    token_limit: int | None = None
    retry: RetryPolicy | None = None
    trigger_id: str | None = None
    run_timeout_secs: float | None = None
    parent_id: str | None = None
    input: bytes | None = None
    extras: TaskExtras = TaskExtras()

    @property
    def has_added_fields(self) -> bool:
        """True if a version that knows the fields up to `trigger_id` alone could not read these, `extras` aside."""
        return self.run_timeout_secs is not None or self.parent_id is not None or self.input is not None
