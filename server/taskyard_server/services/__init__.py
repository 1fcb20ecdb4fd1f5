"""One thin servicer per proto service: read the request, ask the engine, write the answer.

Rules live in the core, errors in `interceptors/errors.py`. What each call does stands in `proto/taskyard/v1`.
"""
