"""The scheduler as plain Python objects.

Every command takes `now`, in seconds on one clock that the caller owns, and returns what happened or raises a
`Refusal`. Nothing here does I/O, reads a clock, or knows asyncio, grpc or protobuf: `params` and `result` are bytes
that the core keeps and never opens.
"""
