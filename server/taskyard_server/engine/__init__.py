"""The engine: the commands of the scheduler as coroutines, one scheduler for each namespace, all on one event loop.

Each command names the namespace it acts in. Refusals are raised as `core.errors.Refusal`. Times are seconds since the
epoch, durations are seconds.

No command answers an object of the core, which the engine keeps changing. A command that has one to tell of takes
`show`, calls it in the command's turn, and returns what it made: bytes, a message, or values that no longer change.
`show` must not await, and must not keep the object.
"""
