"""The history of a parked task in one object: very many may be parked for days, and each is looked at a few times."""

from __future__ import annotations

import marshal
from typing import Any, Final

from taskyard_server.core.history import Artifact, Attempt, Bound, History, Park, Wait

_FIELDS: Final = History._fields
_ATTEMPTS: Final = _FIELDS.index("attempts")
_BOUND: Final = _FIELDS.index("bound")
_ARTIFACTS: Final = _FIELDS.index("artifacts")
_PARK: Final = _FIELDS.index("park")
_WAITS: Final = Park._fields.index("waits")


def packed(history: History) -> bytes:
    """A history in a form that `unpacked` reads in the same process."""
    fields: list[Any] = list(history)
    for index in (_ATTEMPTS, _BOUND, _ARTIFACTS):
        fields[index] = tuple([tuple(each) for each in fields[index]])
    if history.park is not None:
        park: list[Any] = list(history.park)
        park[_WAITS] = tuple([tuple(wait) for wait in park[_WAITS]])
        fields[_PARK] = tuple(park)
    # A tuple takes fewer bytes than a list.
    return marshal.dumps(tuple(fields))


def unpacked(form: bytes) -> History:
    """The history that was packed."""
    fields: list[Any] = list(marshal.loads(form))
    fields[_ATTEMPTS] = tuple([Attempt(*each) for each in fields[_ATTEMPTS]])
    fields[_BOUND] = tuple([Bound(*each) for each in fields[_BOUND]])
    fields[_ARTIFACTS] = tuple([Artifact(*each) for each in fields[_ARTIFACTS]])
    if fields[_PARK] is not None:
        park = list(fields[_PARK])
        park[_WAITS] = tuple([Wait(*wait) for wait in park[_WAITS]])
        fields[_PARK] = Park(*park)
    return History(*fields)
