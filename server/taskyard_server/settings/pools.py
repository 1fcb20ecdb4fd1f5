"""The settings of pools of hosts, whose demand is shown (docs/rules.md, Demand)."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from taskyard_server.core.figures.demand import Pool

from .setting_types import Section

MAX_POOLS: Final = 100
"""Each pool has gauges of its own in the metrics."""

PoolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Name = Annotated[str, Field(min_length=1, max_length=1_024)]
Names = Annotated[list[Name], Field(max_length=64)]


class PoolSettings(Section):
    """A selector of hosts. One without keys is all hosts."""

    labels: Annotated[dict[Name, Annotated[str, Field(max_length=1_024)]], Field(max_length=64)] = Field(
        default={}, description="Labels that its hosts have, and others beside. Tasks need not have them."
    )
    capabilities: Names = Field(
        default=[], description="Capabilities that its hosts have at least. Tasks that require others are not its own."
    )
    project: Name | None = Field(
        default=None, description="Project of its hosts and tasks. Without it those of every project are."
    )
    actions: Annotated[Names, Field(min_length=1)] | None = Field(
        default=None,
        description="Actions of its tasks; its hosts offer one of them at least. Without it those of every action are.",
    )

    def pool(self, name: str) -> Pool:
        """The same in the core's terms."""
        return Pool(
            name,
            frozenset(self.labels.items()),
            frozenset(self.capabilities),
            self.project,
            None if self.actions is None else frozenset(self.actions),
        )


def _few(pools: dict[str, PoolSettings]) -> dict[str, PoolSettings]:
    if len(pools) > MAX_POOLS:
        raise ValueError(f"at most {MAX_POOLS} pools")
    return pools


PoolsByName = Annotated[dict[PoolName, PoolSettings], AfterValidator(_few)]


def pools_of(by_name: Mapping[str, PoolSettings]) -> tuple[Pool, ...]:
    """The pools in order of their names."""
    return tuple(by_name[name].pool(name) for name in sorted(by_name))
