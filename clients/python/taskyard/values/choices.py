"""The words that fields of a task take, where a field takes one of a few."""

from typing import Literal, TypeAlias

AfterPolicy: TypeAlias = Literal["success", "ended"]
"""What a task asks of those that it comes after (docs/rules.md, Predecessors)."""
UniqueWhile: TypeAlias = Literal["queued", "live"]
"""For how long a unique key is taken (docs/rules.md, Unique keys)."""
OnConflict: TypeAlias = Literal["existing", "reject", "replaceQueued"]
"""What a submission does whose unique key is taken (docs/rules.md, Unique keys)."""
OnTargetFailure: TypeAlias = Literal["block", "continue"]
"""What becomes of the target of a task that fails after its start (docs/rules.md, Serial queues)."""
