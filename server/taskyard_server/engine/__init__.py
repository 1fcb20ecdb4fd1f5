"""The async port to the scheduler, and its implementations.

Services, executors and webhooks depend on `port.Engine` only. `memory.engine.MemoryEngine` is the embedded default.
"""
