"""Conversion between protobuf messages and the types of the core: requests in, responses out, tasks encoded.

Services, webhooks and executors share this package. It knows no engine and no transport.
"""
