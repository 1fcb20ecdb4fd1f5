"""Which process serves which namespace, as the processes tell: what the gateway carries calls by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class _Serving(NamedTuple):
    process: str
    term: int


class Routes:
    """The namespaces of all processes, by names of processes. `owners` is live."""

    def __init__(self) -> None:
        self.owners: dict[str, str] = {}
        self._serving: dict[str, _Serving] = {}

    def serves(self, process: str, new: Mapping[str, int], gone: list[str]) -> None:
        """A process serves these from now on, each under a term, and those no longer.

        What another one serves under a higher term is that one's: news of two processes may come in any order.
        """
        for name in gone:
            self._leave(process, name)
        for name, term in new.items():
            known = self._serving.get(name)
            if known is None or known.term <= term:
                self._serving[name] = _Serving(process, term)
                self.owners[name] = process

    def ended(self, process: str) -> None:
        """A process serves nothing any more."""
        for name, serving in list(self._serving.items()):
            if serving.process == process:
                self._leave(process, name)

    def _leave(self, process: str, name: str) -> None:
        known = self._serving.get(name)
        if known is not None and known.process == process:
            del self._serving[name], self.owners[name]
