"""Everything that an object holds, however deep: as text that can be compared, and counted."""

import gc
from collections.abc import Iterator
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType

from tests.core.records import names

OPAQUE = (type, FunctionType, BuiltinFunctionType, MethodType, partial, Enum)


def picture(root: object) -> list[str]:
    """One line for each value that an object holds."""
    lines: list[str] = []
    seen: dict[int, str] = {}
    todo = [("it", root)]
    while todo:
        name, thing = todo.pop()
        if thing is None or isinstance(thing, (str, bytes, int, float, *OPAQUE)):
            lines.append(f"{name} = {thing!r}")
        elif id(thing) in seen:
            lines.append(f"{name} is {seen[id(thing)]}")
        else:
            seen[id(thing)] = name
            parts = list(_parts(thing))
            lines.append(f"{name}: {type(thing).__name__} of {len(parts)}")
            todo += ((name + part, value) for part, value in reversed(parts))
    return lines


def count_objects(root: object) -> int:
    """How many objects an object keeps in memory, itself included."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        thing = todo.pop()
        if id(thing) not in seen and not isinstance(thing, OPAQUE):
            seen.add(id(thing))
            todo += gc.get_referents(thing)
    return len(seen)


def _parts(thing: object) -> Iterator[tuple[str, object]]:
    """What an object is made of, each part with its name."""
    if isinstance(thing, dict):
        for number, (key, value) in enumerate(thing.items()):
            yield f"[key {number}]", key
            yield f"[value {number}]", value
    elif isinstance(thing, (frozenset, set)):
        yield from (("{}", member) for member in sorted(thing, key=repr))
    elif isinstance(thing, (list, tuple)) or hasattr(thing, "popleft"):
        yield from ((f"[{number}]", member) for number, member in enumerate(thing))  # type: ignore[arg-type]
    else:
        held = [name for name in (*names(type(thing)), *getattr(thing, "__dict__", ())) if hasattr(thing, name)]
        assert held, f"{thing!r} shows none of its attributes"
        yield from ((f".{name}", getattr(thing, name)) for name in held)
