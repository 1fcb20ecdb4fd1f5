"""The cost of a call in instructions of the interpreter, which is the same on every machine and in every run.

The garbage of other tests is no part of it: a collection would call what they left to be called, wherever it begins.
Nor are other threads.
"""

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

TOOL_ID = 4
"""A tool of `sys.monitoring` that no debugger or profiler takes."""


def count_instructions(call: Callable[[], object]) -> int:
    """How many instructions a call takes. Those of a compiled core are not counted."""
    gc.disable()
    try:
        # Before Python 3.12 there is no monitoring, and since then tracing misses the first call of a function.
        return _monitored(call) if sys.version_info >= (3, 12) else _traced(call)
    finally:
        gc.enable()


def _traced(call: Callable[[], object]) -> int:
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        nonlocal count
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def _monitored(call: Callable[[], object]) -> int:
    count, own = 0, threading.get_ident()

    def step(*_: object) -> None:
        nonlocal count
        count += threading.get_ident() == own

    monitoring = sys.monitoring
    monitoring.use_tool_id(TOOL_ID, "instruction count")
    try:
        monitoring.register_callback(TOOL_ID, monitoring.events.INSTRUCTION, step)
        monitoring.set_events(TOOL_ID, monitoring.events.INSTRUCTION)
        call()
    finally:
        monitoring.set_events(TOOL_ID, monitoring.events.NO_EVENTS)
        monitoring.free_tool_id(TOOL_ID)
    return count
