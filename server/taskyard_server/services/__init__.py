"""One thin servicer per proto service: convert the request, call the engine, convert the response.

The core owns the rules, `interceptors/errors.py` the errors. `proto/taskyard/v1` documents each call.
"""
