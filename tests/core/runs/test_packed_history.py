"""The history of a parked task is packed while it rests, and nothing of it is lost (docs/rules.md, Parked tasks)."""

from taskyard_server.core.history import Artifact, Attempt, Bound, History, Park, Wait
from taskyard_server.core.runs.packed_history import packed, unpacked

WHOLE = History(
    run=2,
    attempts=(Attempt(1, "host", 1.5, 2.5, "error", "code"), Attempt(2, None, None, None, None, None)),
    last_number=2,
    failed=1,
    held=True,
    not_before=3.5,
    tokens_before=4,
    tokens_used=1 << 40,
    token_limit=1 << 50,
    code="code",
    traceback="Traceback \u2026",
    output=b"\0\xff",
    bound=(Bound("key", b"print", 5.5),),
    artifacts=(Artifact("a", "text/plain", 7, b"sum", 1, 8.5, 9, "place"),),
    steps=10,
    step_bytes=11,
    park=Park(
        12.5,
        13,
        (Wait("answer", "go", 14.5, (), b"question", b"default"), Wait("ends", "all", None, ("one", "two"))),
        ("time:a",),
        15.5,
        False,
        (("event", 16),),
    ),
    reason="reason",
    children=(17, 18),
)


def types(value):
    """The types of a value and of all in it: tuples that are equal may be of other types."""
    return (type(value), *map(types, value)) if isinstance(value, tuple) else type(value)


def test_a_history_is_the_same_after_it_was_packed():
    assert not [name for name in History._fields if getattr(WHOLE, name) == getattr(History(), name)]
    for history in (WHOLE, History(), History(park=Park(1.0, 2, ()))):
        again = unpacked(packed(history))
        assert again == history
        assert types(again) == types(history)


def test_a_task_has_its_history_packed_while_it_is_parked(yard):
    yard.register()
    task = yard.submit()
    yard.park(yard.start_one(), Wait("answer", "go"))
    park = task.history.park
    assert task.history is not task.history
    # What is noted of it meanwhile is packed, too.
    task.history = task.history._replace(reason="reason")
    assert task.history is not task.history
    assert (task.history.reason, task.history.park) == ("reason", park)
    yard.scheduler.parks.answer(yard.now, task, "go", b"yes", None)
    assert task.history is task.history
    assert task.history.park == park._replace(waits=(), met=("answer:go",))
