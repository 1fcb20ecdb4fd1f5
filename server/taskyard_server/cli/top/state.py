"""The choices of the user of `taskyard top`, and what each key changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

AGENT_ORDERS: Final = ("share", "queued", "in flight", "done", "failed", "agent")
HOST_ORDERS: Final = ("load", "leases", "cpu", "memory", "host")

UP: Final = "up"
DOWN: Final = "down"
PAGE_UP: Final = "page up"
PAGE_DOWN: Final = "page down"
TAB: Final = "tab"
SEQUENCES: Final = {
    "\x1b[A": UP,
    "\x1bOA": UP,
    "\x1b[B": DOWN,
    "\x1bOB": DOWN,
    "\x1b[5~": PAGE_UP,
    "\x1b[6~": PAGE_DOWN,
    "\x1b[Z": TAB,
    "\t": TAB,
}
PAGE: Final = 10


class Panel(Enum):
    """A table that is sorted and scrolled."""

    AGENTS = "agents"
    HOSTS = "hosts"


class Wish(Enum):
    """Requests by a key beside another look of the same figures."""

    NOTHING = "nothing"
    QUIT = "quit"
    READ = "read"
    """Figures at once."""


@dataclass(frozen=True, slots=True)
class State:
    """The present choice. `scrolled` counts the rows of the panel in front that are above what is shown."""

    namespace: str
    is_paused: bool = False
    panel: Panel = Panel.AGENTS
    agent_order: str = AGENT_ORDERS[0]
    host_order: str = HOST_ORDERS[0]
    scrolled: int = 0
    has_help: bool = False

    @property
    def order(self) -> str:
        """The column by which the panel in front is sorted."""
        return self.agent_order if self.panel is Panel.AGENTS else self.host_order


def pressed(state: State, key: str, names: Sequence[str] = ()) -> tuple[State, Wish]:
    """The choice after a key; `names` are the namespaces that there are."""
    match key:
        case "q" | "\x04":
            return state, Wish.QUIT
        case "p" | " ":
            return replace(state, is_paused=not state.is_paused), Wish.READ if state.is_paused else Wish.NOTHING
        case "r":
            return state, Wish.READ
        case "s":
            return _sorted_otherwise(state), Wish.NOTHING
        case "n" | "N":
            namespace = _neighbour(state.namespace, names, -1 if key == "N" else 1)
            return replace(state, namespace=namespace, is_paused=False, scrolled=0), Wish.READ
        case "up" | "k" | "down" | "j" | "page up" | "page down":
            rows = {UP: -1, "k": -1, DOWN: 1, "j": 1, PAGE_UP: -PAGE, PAGE_DOWN: PAGE}[key]
            return replace(state, scrolled=max(0, state.scrolled + rows)), Wish.NOTHING
        case "tab":
            other = Panel.HOSTS if state.panel is Panel.AGENTS else Panel.AGENTS
            return replace(state, panel=other, scrolled=0), Wish.NOTHING
        case "?" | "h":
            return replace(state, has_help=not state.has_help), Wish.NOTHING
    return state, Wish.NOTHING


def keys_of(typed: str) -> list[str]:
    """The keys in what a terminal has sent. Sequences of keys that mean nothing here are left out."""
    keys = []
    while typed:
        found = next((sequence for sequence in SEQUENCES if typed.startswith(sequence)), None)
        if found is not None:
            keys.append(SEQUENCES[found])
            typed = typed[len(found) :]
        elif typed[0] == "\x1b":
            # It ends with a letter or a tilde.
            end = next((at for at, char in enumerate(typed[2:], 3) if char.isalpha() or char == "~"), len(typed))
            typed = typed[end:]
        else:
            keys.append(typed[0])
            typed = typed[1:]
    return keys


def _sorted_otherwise(state: State) -> State:
    if state.panel is Panel.AGENTS:
        return replace(state, agent_order=_next(AGENT_ORDERS, state.agent_order), scrolled=0)
    return replace(state, host_order=_next(HOST_ORDERS, state.host_order), scrolled=0)


def _next(orders: Sequence[str], order: str) -> str:
    return orders[(orders.index(order) + 1) % len(orders)]


def _neighbour(name: str, names: Sequence[str], by: int) -> str:
    """The namespace after or before this one, in the order of names."""
    known = sorted({*names, name})
    return known[(known.index(name) + by) % len(known)]
