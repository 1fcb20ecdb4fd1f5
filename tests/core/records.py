"""The attributes of objects of the core, interpreted or compiled: a compiled class has no `__slots__`."""

from taskyard_server.core.schedules.schedule import Schedule


def values(thing: object) -> list[object]:
    """The values of the attributes of an object without `__slots__`."""
    kind = type(thing)
    return [getattr(thing, name) for name in getattr(kind, "__mypyc_attrs__", None) or vars(thing)]


def names(kind: type) -> tuple[str, ...]:
    """The attributes of the objects of a class."""
    return (*getattr(kind, "__mypyc_attrs__", ()), *getattr(kind, "__slots__", ()))


def copy_of(its: Schedule) -> Schedule:
    """A copy of a schedule."""
    copy = Schedule(its.id, its.spec, its.created_at, its.since, its.next_due, its.paused)
    for name in names(Schedule):
        setattr(copy, name, getattr(its, name))
    return copy
