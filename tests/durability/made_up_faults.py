"""Faults that were made up, and the rules that each of them breaks."""

from __future__ import annotations

from collections.abc import Callable

from .made_up import Story

Fault = Callable[[Story], None]


class Faults(dict[Fault, frozenset[str]]):
    """The rules that each fault breaks, in a story in which nothing else happens."""

    def breaks(self, *rules: str) -> Callable[[Fault], Fault]:
        """Take the decorated function as a fault that breaks all these rules and no other."""

        def take(fault: Fault) -> Fault:
            self[fault] = frozenset(rules)
            return fault

        return take
