"""The async port to the scheduler, and its implementations.

Services, executors and webhooks know `port.Engine` only. `memory.MemoryEngine` is the embedded default.
"""
