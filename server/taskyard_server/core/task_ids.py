"""The content of a task's id: when it was made, in milliseconds, and its order of submission, in hex digits."""

from __future__ import annotations

from typing import Final, NamedTuple

BEGIN: Final = "tsk_"
DIGITS: Final = frozenset("0123456789abcdef")
ORDER_BEGIN: Final = 16
ORDER_END: Final = 26
CHARS: Final = 36


class IdRange(NamedTuple):
    """Between which times and orders ids lie, all included. An order is unlike others, a time may be that of many."""

    first_ms: int
    last_ms: int
    first_seq: int
    last_seq: int


def ids_that_begin_with(prefix: str) -> IdRange | None:
    """Where the ids lie that begin so; None if no id does."""
    digits = prefix[len(BEGIN) :]
    if not prefix.startswith(BEGIN) or len(prefix) > CHARS or not DIGITS.issuperset(digits):
        return None
    first, last = prefix + "0" * (CHARS - len(prefix)), prefix + "f" * (CHARS - len(prefix))
    return IdRange(ms_of(first), ms_of(last), order_of(first), order_of(last))


def is_id(name: str) -> bool:
    """True if a name can be the id of a task."""
    return len(name) == CHARS and name.startswith(BEGIN) and DIGITS.issuperset(name[len(BEGIN) :])


def ms_of(task_id: str) -> int:
    """When an id was made. Raises `ValueError` for what is no id of a task."""
    return int(task_id[len(BEGIN) : ORDER_BEGIN], 16)


def order_of(task_id: str) -> int:
    """The order of submission of the task of this id. Raises `ValueError` for what is no id of a task."""
    return int(task_id[ORDER_BEGIN:ORDER_END], 16)
