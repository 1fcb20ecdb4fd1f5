"""Messages and stubs of the package taskyard.v1, generated from proto/taskyard/v1 by `make generate`."""
