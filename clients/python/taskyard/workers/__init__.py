"""Worker processes of hosts: they run the handlers of the form "process", one task each at a time.

`pool` and `process` are the host's side, `worker` is what runs in the process, `frames` what goes between them.
Nothing here needs grpc: a worker starts without it.
"""
