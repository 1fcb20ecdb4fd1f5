"""The settings of concurrency keys, agents and targets, by pattern (docs/rules.md, Weights, Blockers)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from taskyard_server.core.patterns import PatternTable, check_pattern
from taskyard_server.core.queue.keys import LEAST_PER_SECOND, MOST, KeyLimit
from taskyard_server.core.queue.weights import MAX_WEIGHT
from taskyard_server.core.rules import MAX_SET, ConfiguredRules
from taskyard_server.core.task_options import OnTargetFailure

from .setting_types import Float, Integer, Section


class KeyLimitSettings(Section):
    """The limit of each key of a pattern. One without keys limits nothing."""

    max_inflight: Annotated[Integer, Field(ge=0, le=MOST)] | None = Field(
        default=None, description="Maximum tasks of a key in flight. Without it any number may be."
    )
    per_second: Annotated[Float, Field(ge=LEAST_PER_SECOND, le=MOST)] | None = Field(
        default=None, description="Maximum hand-outs of a key a second. Without it they come at any rate."
    )
    burst: Annotated[Integer, Field(ge=1, le=MOST)] | None = Field(
        default=None,
        description="Hand-outs that may come at once after a pause. By default `perSecond`, but at least 1.",
    )

    @model_validator(mode="after")
    def _has_rate(self) -> "KeyLimitSettings":
        if self.burst is not None and self.per_second is None:
            raise _fault("burst is for perSecond, which is not set")
        return self


class AgentSettings(Section):
    """The weight of each agent that matches a pattern."""

    weight: Annotated[Integer, Field(ge=1, le=MAX_WEIGHT)] = Field(
        default=1, description="Weight of the agents, by which they share what is in flight."
    )


class TargetSettings(Section):
    """The policy of each target that matches a pattern."""

    on_failure: Literal["block", "continue"] = Field(
        default="block",
        description="What happens to the target when a task of it fails after its start, and does not say itself: "
        "`block`, it waits until the task is resumed, resolved or cancelled; `continue`, its next task is due.",
    )


def _fault(problem: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{problem}", {"problem": problem})


def _checked(by_pattern: dict[str, Any]) -> dict[str, Any]:
    if len(by_pattern) > MAX_SET:
        raise _fault(f"at most {MAX_SET:,} patterns")
    for pattern in by_pattern:
        try:
            check_pattern(pattern)
        except ValueError as error:
            raise _fault(f"the pattern {pattern[:100]!r} {error}") from None
    return by_pattern


LimitsByPattern = Annotated[dict[str, KeyLimitSettings], AfterValidator(_checked)]
AgentsByPattern = Annotated[dict[str, AgentSettings], AfterValidator(_checked)]
TargetsByPattern = Annotated[dict[str, TargetSettings], AfterValidator(_checked)]


def rules_of(limits: Mapping[str, KeyLimitSettings], agents: Mapping[str, AgentSettings]) -> ConfiguredRules:
    """The same in the core's terms."""
    return ConfiguredRules(
        {pattern: KeyLimit(each.max_inflight, each.per_second, each.burst) for pattern, each in limits.items()},
        {pattern: each.weight for pattern, each in agents.items()},
    )


def policies_of(targets: Mapping[str, TargetSettings]) -> PatternTable[OnTargetFailure]:
    """The same in the core's terms."""
    return PatternTable({pattern: OnTargetFailure(each.on_failure) for pattern, each in targets.items()})
