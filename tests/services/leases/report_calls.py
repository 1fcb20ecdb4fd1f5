"""The calls that report on a lease, for the tests of LeaseService."""

from google.protobuf.struct_pb2 import Value

from taskyard.v1.task_pb2 import Task

REPORTS = ["RenewLease", "StartTask", "ReportProgress", "CompleteTask", "FailTask", "ReleaseTask"]


def required_fields(call):
    """The fields that a report requires besides its lease."""
    return {"error": "broken"} if call == "FailTask" else {}


def state_name(response):
    """The name of the state in a response."""
    return Task.State.Name(response.state)


def seconds(timestamp):
    return timestamp.ToNanoseconds() / 1e9


def nested_value(levels):
    value = Value(number_value=1)
    for _ in range(levels):
        outer = Value()
        outer.list_value.values.add().CopyFrom(value)
        value = outer
    return value
