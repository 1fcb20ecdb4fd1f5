"""What tasks have said, in the model (docs/rules.md, Output): the sizes of all chunks, and the parts that are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

PARTS: Final = 16


@dataclass
class Said:
    """The output of one task: the size of each chunk, how many came under each token, and the parts that are kept."""

    sizes: list[int] = field(default_factory=list)
    under: dict[int, int] = field(default_factory=dict)
    parts: list[tuple[int, list[int]]] = field(default_factory=list)

    @property
    def kept(self) -> int:
        """The bytes that are kept."""
        return sum(sum(part) for _, part in self.parts)

    def leaves_a_gap(self, token: int, number: int) -> bool:
        return number > self.under.get(token, 0) + 1

    def append(self, token: int, number: int, sizes: tuple[int, ...], limit: int) -> tuple[int, int, int, int | None]:
        """The number of the first new chunk, the bytes before it, how many came before, and what number is the cut."""
        before = self.under.get(token, 0)
        new = list(sizes[before + 1 - number :])
        first, begin = len(self.sizes) + 1, sum(self.sizes)
        cut = None
        if new:
            # A later lease ends the one before, of which nobody says anything again.
            self.under = {token: before + len(new)}
            self.sizes += new
            if not self.parts or sum(self.parts[-1][1]) >= limit // PARTS:
                self.parts.append((first, []))
            self.parts[-1][1].extend(new)
            while len(self.parts) > 1 and self.kept > limit:
                del self.parts[0]
                cut = self.parts[0][0]
        return first, begin, len(sizes) - len(new), cut
