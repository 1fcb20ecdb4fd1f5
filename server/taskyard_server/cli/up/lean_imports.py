"""How a process that becomes a server imports it: without what it would not use, and without a look for garbage."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Final, cast

UNUSED: Final = ("rich",)
"""structlog imports it where it is installed, with its 60 modules, for tracebacks in colour. Ours are plain."""


@contextmanager
def lean_imports() -> Iterator[None]:
    """Imports meanwhile go without `UNUSED`, and is hidden from the garbage collector for ever.

    What is imported stays, so that to look for garbage among it is time lost.
    """
    # Python's own way to say that a module is not to be had. Outside, it is as before.
    hidden: Mapping[str, ModuleType] = dict.fromkeys(set(UNUSED) - sys.modules.keys(), cast(ModuleType, None))
    sys.modules.update(hidden)
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        gc.freeze()
        if was_on:
            gc.enable()
