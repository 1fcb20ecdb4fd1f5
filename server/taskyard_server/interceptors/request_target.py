"""Compares the request target of a REST call, its path and query, with the message that the gateway made of it.

The gateway fills one message from the path, the query and the body, and what it sets last wins. Without this check a
query or a body could name another object than the path. The check reads the encoded message instead of the request, so
that no spelling of a name evades it (docs/rules.md, REST).
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus, unquote_to_bytes

from google.api import annotations_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from taskyard_server.core.errors import BadRequest

TARGET_KEY: Final = "x-envoy-original-path"
"""The metadata with the request target, percent-encoded. Callers cannot send it through the gateway."""

WHOLE_BODY: Final = "*"


class PathField(NamedTuple):
    """A field that the path names."""

    name: str
    shown: str
    segment: int
    verb: str


class TargetCheck:
    """The check for one method that has a path."""

    def __init__(self, method: MethodDescriptor) -> None:
        rule = method.GetOptions().Extensions[annotations_pb2.http]
        template: str = getattr(rule, rule.WhichOneof("pattern") or "")
        assert not rule.additional_bindings, f"{method.full_name}: one path a method"
        self._has_body = rule.body == WHOLE_BODY
        self._request = method.input_type
        self._fields = list(_path_fields(template, self._request))
        self._values = _collector(self._request, [field.name for field in self._fields])

    def __call__(self, target: str, encoded: bytes) -> None:
        """Raise `BadRequest` if the query or the body contradicts the path, or if the query is wrong in itself."""
        path, _, query = target.partition("?")
        if self._fields:
            segments = path.split("/")
            values = self._values.FromString(encoded)
            for field in self._fields:
                segment = segments[field.segment] if field.segment < len(segments) else ""
                named = unquote_to_bytes(segment.removesuffix(field.verb))
                # A field that is set twice is in the encoded message twice; one that is set to "" may be missing.
                if any(value != named for value in getattr(values, field.name) or (b"",)):
                    raise BadRequest(f"{field.shown}: must be the one that the path names")
        if query:
            self._check_query(query)

    def _check_query(self, query: str) -> None:
        given: set[str] = set()
        for parameter in filter(None, query.split("&")):
            encoded_name, equals, _ = parameter.partition("=")
            name = unquote_plus(encoded_name)
            path = _field_path(self._request, name)
            if not path:
                raise BadRequest(f"unknown query parameter: {name}")
            if self._has_body:
                raise BadRequest(f"{name}: belongs in the body, not in the query")
            if not equals:
                raise BadRequest(f"{name}: has no value")
            canonical = ".".join(field.name for field in path)
            if canonical in given and not path[-1].is_repeated:
                raise BadRequest(f"{name}: is given more than once")
            given.add(canonical)


def target_check(method: MethodDescriptor) -> TargetCheck | None:
    """The check for this method; None if REST has no path for it."""
    return TargetCheck(method) if method.GetOptions().HasExtension(annotations_pb2.http) else None


def _path_fields(template: str, request: Descriptor) -> Iterator[PathField]:
    for number, segment in enumerate(template.split("/")):
        if segment.startswith("{"):
            name, verb = segment[1:].split("}")
            # The routes of hosts use snake_case, see gateway/README.md.
            shown = name if template.startswith("/api/") else request.fields_by_name[name].json_name
            yield PathField(name, shown, number, verb)


def _collector(request: Descriptor, names: list[str]) -> Any:
    """A message type that reads all values of these fields in an encoded request, where `request` keeps the last."""
    file = FileDescriptorProto(name="request_target.proto", syntax="proto2")
    collected = file.message_type.add(name="Collected")
    for name in names:
        field = request.fields_by_name[name]
        assert field.type == FieldDescriptor.TYPE_STRING, f"{field.full_name}: a path names strings"
        collected.field.add(
            name=name,
            number=field.number,
            type=FieldDescriptorProto.TYPE_BYTES,
            label=FieldDescriptorProto.LABEL_REPEATED,
        )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("Collected"))


def _field_path(message: Descriptor | None, name: str) -> list[FieldDescriptor]:
    """The fields on a dotted path, by either of their names; none if there is no such path."""
    path: list[FieldDescriptor] = []
    for part in name.split("."):
        field = _fields(message).get(part) if message is not None else None
        if field is None:
            return []
        path.append(field)
        message = field.message_type
    return path


@cache
def _fields(message: Descriptor) -> dict[str, FieldDescriptor]:
    return {name: field for field in message.fields for name in (field.name, field.json_name)}
