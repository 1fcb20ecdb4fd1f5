"""Old names of arguments and attributes, which hold for one release and warn (docs/develop/glossary.md, Names)."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import Any, Final

MILLISECOND: Final = timedelta(milliseconds=1)


def warn(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn of an old name.

    Args:
        old: The old name.
        new: The new one, and how it differs.
        stacklevel: How many calls away the caller is that has used it. Default 3: the caller of who calls this.
    """
    warnings.warn(f"{old} is now {new}; the old name goes with the next release", DeprecationWarning, stacklevel)


def old_name(old: str, new: str) -> Any:
    """An attribute under its old name.

    Args:
        old: The old name, with its class.
        new: The new name of the attribute.

    Returns:
        The property.
    """

    def read(self: Any) -> Any:
        warn(old, new)
        return getattr(self, new)

    return property(read, doc=f"The old name of `{new}`.")


def old_milliseconds(old: str, new: str, is_whole: bool = True) -> Any:
    """An attribute that was a number of milliseconds and is a timedelta under its new name.

    Args:
        old: The old name, with its class.
        new: The new name of the attribute.
        is_whole: Whether it was a whole number. Default True.

    Returns:
        The property.
    """

    def read(self: Any) -> Any:
        warn(old, f"{new}, a timedelta")
        span: timedelta | None = getattr(self, new)
        if span is None:
            return None
        return span // MILLISECOND if is_whole else span / MILLISECOND

    return property(read, doc=f"The old form of `{new}`, in milliseconds.")


def old_seconds(old: str, new: str) -> Any:
    """An attribute that was a number of seconds and is a timedelta under its new name.

    Args:
        old: The old name, with its class.
        new: The new name of the attribute.

    Returns:
        The property.
    """

    def read(self: Any) -> Any:
        warn(old, f"{new}, a timedelta")
        span: timedelta | None = getattr(self, new)
        return None if span is None else span.total_seconds()

    return property(read, doc=f"The old form of `{new}`, in seconds.")


def either(value: Any, old_value: Any, old: str, new: str) -> Any:
    """Choose between an argument and its old name.

    Args:
        value: What was given under the new name, None or empty for nothing.
        old_value: What was given under the old name, None for nothing.
        old: The old name.
        new: The new name.

    Returns:
        What was given.

    Raises:
        TypeError: Both were given.
    """
    if old_value is None:
        return value
    if value:
        raise TypeError(f"{new} and {old} are the same: give {new} alone")
    warn(f"{old}=", f"{new}=", 4)
    return old_value
