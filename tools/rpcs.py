"""The comment of an RPC in its parts, and its REST annotation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from google.api import annotations_pb2
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from proto_comments import Protos


@dataclass(frozen=True, slots=True)
class Route:
    """The REST form of an RPC. The fields that are not `in_path` come from the body or from the query.

    With `content`, a field of bytes, the body is what that field holds, and the others come from the query.
    """

    verb: str
    template: str
    has_body: bool
    in_path: tuple[FieldDescriptor, ...]
    content: FieldDescriptor | None = None

    def others(self, method: MethodDescriptor) -> list[FieldDescriptor]:
        """The fields of the request that are not in the path, and that are not its content."""
        return [field for field in method.input_type.fields if field not in (*self.in_path, self.content)]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The comment of an RPC in its parts. `status` is the HTTP status of success."""

    summary: str
    description: str
    errors: str
    retry: str
    status: str

    def codes(self) -> Iterator[tuple[str, str]]:
        """The code words of the errors, each with its condition where there is one."""
        yield from re.findall(r"`(\w+)`(?: \(([^()]*)\))?", self.errors)


def route(method: MethodDescriptor) -> Route | None:
    """The REST form, None for an RPC without one."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    verb = rule.WhichOneof("pattern")
    if verb is None:
        return None
    template = getattr(rule, verb)
    names = re.findall(r"{(\w+)}", template)
    fields = tuple(method.input_type.fields_by_name[name] for name in names)
    content = None if rule.body in ("", "*") else method.input_type.fields_by_name[rule.body]
    return Route(verb, template, rule.body == "*", fields, content)


def explain(protos: Protos, method: MethodDescriptor) -> Explanation:
    """The comment of an RPC, split at "Errors:", "Retry:" and "REST answers"."""
    words = re.split(r"\s?\b(Errors:|Retry:|REST answers(?= \d)) ", protos.comment(method))
    parts = {key: text.strip() for key, text in zip(words[1::2], words[2::2], strict=True)}
    summary, _, description = words[0].strip().partition("\n\n")
    return Explanation(
        summary,
        description,
        parts.get("Errors:", ""),
        parts.get("Retry:", ""),
        parts.get("REST answers", "200").rstrip("."),
    )
