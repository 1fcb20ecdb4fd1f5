"""Taskyard for Python: the gRPC stubs in `taskyard.v1`, and the SDK."""
