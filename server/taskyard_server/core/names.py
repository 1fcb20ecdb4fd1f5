"""Sets of names, as grants list them: names in full, and beginnings of names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

EVERY = "*"


@dataclass(frozen=True, slots=True)
class Names:
    """Names: those in `exact`, and all that begin with one of `prefixes`. Without either it holds none."""

    exact: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    def __contains__(self, name: str) -> bool:
        return name in self.exact or (bool(self.prefixes) and name.startswith(self.prefixes))

    def __or__(self, other: Names) -> Names:
        return Names(self.exact | other.exact, tuple(sorted({*self.prefixes, *other.prefixes})))

    @property
    def patterns(self) -> list[str]:
        """The same as a grant lists them, sorted."""
        return sorted([*self.exact, *[prefix + EVERY for prefix in self.prefixes]])

    def disjoint(self) -> Names:
        """The same names, listed so that each is held once: by one exact name, or by one prefix."""
        prefixes: list[str] = []
        for prefix in sorted(self.prefixes):
            # In this order a beginning comes before all that it begins.
            if not prefixes or not prefix.startswith(prefixes[-1]):
                prefixes.append(prefix)
        found = tuple(prefixes)
        return Names(frozenset([name for name in self.exact if not name.startswith(found)]), found)

    @property
    def is_every(self) -> bool:
        """True if every name is one of them."""
        return "" in self.prefixes


def names(patterns: Iterable[str]) -> Names:
    """The names that patterns list: a name, or a beginning of names with `*` at its end."""
    listed = frozenset(patterns)
    prefixes = sorted([pattern.removesuffix(EVERY) for pattern in listed if pattern.endswith(EVERY)])
    return Names(frozenset([pattern for pattern in listed if not pattern.endswith(EVERY)]), tuple(prefixes))


EVERY_NAME = Names(prefixes=("",))
