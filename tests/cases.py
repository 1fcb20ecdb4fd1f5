"""Many cases of one rule in one test, where a case takes less time than pytest takes for a test of its own.

Each case is tried, and a failure names all that do not hold, each with its own error. The fixtures of the test are the
same for all of its cases: where a case needs fresh ones, it is a parameter of pytest.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest

NAME_CHARS = 80


def every_case(
    names: str | Sequence[str], values: Iterable[Any], ids: Callable[[Any], Any] | Iterable[Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Call the test with each of these values in the parameters of these names, as one test.

    `ids` names the cases in a failure: one for each, or what tells the name of a value.
    """
    words = [names] if isinstance(names, str) else names
    each_of = [value if len(words) > 1 else (value,) for value in values]
    assert each_of, f"there are no cases of {names}"
    name_of = ids if callable(ids) else _name
    told = ["-".join(str(name_of(part)) for part in value) for value in each_of]
    if ids is not None and not callable(ids):
        told = [str(name) for name in ids]
    cases = [(name, dict(zip(words, value, strict=True))) for name, value in zip(told, each_of, strict=True)]

    def in_one(test: Callable[..., Any]) -> Callable[..., Any]:
        own = [each for name, each in inspect.signature(test).parameters.items() if name not in words]

        @wraps(test)
        def each(**fixtures: Any) -> None:
            with _all_tried(len(cases)) as failed:
                for name, case in cases:
                    with _tried(name, failed):
                        test(**fixtures, **case)

        @wraps(test)
        async def each_awaited(**fixtures: Any) -> None:
            with _all_tried(len(cases)) as failed:
                for name, case in cases:
                    with _tried(name, failed):
                        await test(**fixtures, **case)

        made: Any = each_awaited if inspect.iscoroutinefunction(test) else each
        made.__signature__ = inspect.Signature(own)
        return made  # type: ignore[no-any-return]

    return in_one


@contextmanager
def _all_tried(count: int) -> Iterator[list[tuple[str, BaseException]]]:
    failed: list[tuple[str, BaseException]] = []
    yield failed
    if failed:
        told = ", ".join(name for name, _ in failed)
        raise BaseExceptionGroup(f"{len(failed)} of {count} cases: {told}", [error for _, error in failed])


@contextmanager
def _tried(name: str, failed: list[tuple[str, BaseException]]) -> Iterator[None]:
    try:
        yield
    except (Exception, pytest.fail.Exception) as error:
        error.add_note(f"in the case {name}")
        failed.append((name, error))


def _name(value: Any) -> str:
    for name in ("full_name", "__name__"):
        if isinstance(found := getattr(value, name, None), str):
            return found
    shown = str(value)
    return shown if len(shown) <= NAME_CHARS else f"{shown[:NAME_CHARS]}..."
