"""The words that fields of a task take, where a field takes one of a few."""

from typing import Literal, TypeAlias

AfterPolicy: TypeAlias = Literal["success", "ended"]
"""The condition of a task on those that it comes after (docs/rules.md, Predecessors)."""
UniqueWhile: TypeAlias = Literal["queued", "live"]
"""How long a unique key is taken (docs/rules.md, Unique keys)."""
OnConflict: TypeAlias = Literal["existing", "reject", "replaceQueued"]
"""The policy of a submission whose unique key is taken (docs/rules.md, Unique keys)."""
OnParentEnd: TypeAlias = Literal["keep", "cancel"]
"""The fate of a task when its parent ends (docs/rules.md, Parents)."""
OnTargetFailure: TypeAlias = Literal["block", "continue"]
"""The policy of a target when a task of it fails after its start (docs/rules.md, Serial queues)."""
