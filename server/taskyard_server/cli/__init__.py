"""The `taskyard` command: `up` runs the control plane, the other commands talk to one over gRPC."""
