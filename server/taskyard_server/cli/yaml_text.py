"""JSON values as YAML. Strings that YAML might take for something else are quoted."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

PLAIN: Final = re.compile(r"[A-Za-z_/][A-Za-z0-9_/.+-]*(?::(?=[A-Za-z0-9])[A-Za-z0-9_/.+-]+)*")
WORDS: Final = frozenset(("true", "false", "yes", "no", "on", "off", "null", "y", "n"))


def yaml_text(value: Any) -> str:
    """A JSON value as a YAML document, without a line break at its end."""
    return "\n".join(_lines(value))


def _lines(value: Any) -> Iterator[str]:
    """The lines of a value that stands at the left margin."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _entry(f"{_scalar(str(name))}:", inner)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, float) and "." not in (text := repr(value)):
        # 1e+300 is text to many readers.
        return text.replace("e", ".0e")
    # What JSON writes is YAML otherwise.
    if isinstance(value, str) and PLAIN.fullmatch(value) and value.lower() not in WORDS:
        return value
    return json.dumps(value, ensure_ascii=not (isinstance(value, str) and value.isprintable()))
