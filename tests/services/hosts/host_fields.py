"""Fields of hosts in responses."""

from taskyard.v1.runtime_host_pb2 import RuntimeHost


def status_name(host):
    """The name of the status of a host."""
    return RuntimeHost.Status.Name(host.status)


def seconds(timestamp):
    return timestamp.ToNanoseconds() / 1e9
