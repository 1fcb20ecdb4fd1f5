"""Between the protobuf messages and the terms of the core: requests in, responses out, and the encoding of tasks.

Services, webhooks and executors share it. It knows no engine and no transport.
"""
