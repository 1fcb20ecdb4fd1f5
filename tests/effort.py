"""How much a run tries where more is always better: histories, made up examples. `EFFORT=8` is eight times as much.

What `make test` tries takes seconds; `make test-deep` takes the minutes that it has (docs/develop/testing.md, Tiers).
"""

import os
from typing import Final

from hypothesis import settings

EFFORT: Final = int(os.environ.get("EFFORT", "1"))
EXAMPLES: Final = 40
"""What hypothesis makes up for a test that does not say otherwise."""


def times(count: int) -> int:
    """A number of histories or examples, with the effort of this run."""
    return count * EFFORT


settings.register_profile("effort", max_examples=times(EXAMPLES), deadline=None)
settings.load_profile("effort")
