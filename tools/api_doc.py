#!/usr/bin/env python
"""Describes the API as docs/use/api.md: each RPC with its REST form, errors and retry rule, each message and each enum.

    buf build --as-file-descriptor-set --output - | tools/api_doc.py > docs/use/api.md

tools/generate.sh runs it. The texts are the comments of the protos.
"""

import posixpath
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Final

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    FileDescriptor,
    MethodDescriptor,
    ServiceDescriptor,
)
from proto_comments import PACKAGE, Protos, is_map
from rest_styles import STYLES, style_of
from rpcs import Route, explain, route

from taskyard_server.access.requirements import requirement_in
from taskyard_server.core.errors import Refusal
from taskyard_server.interceptors.callers import DEFAULT_NAMESPACE, NAMESPACE, NAMESPACE_KEY
from taskyard_server.interceptors.errors import MAPPINGS

ORDER: Final = (
    *("task", "batch", "schedule", "target", "runtime_host", "lease", "stats", "admin", "token", "store"),
    "access",
)
"""The files in the order of their chapters; others follow."""
MAX_TITLE_WORDS: Final = 4
FOLDER: Final = "docs/use"
"""Where the page stands: its links begin there."""

INTRODUCTION: Final = """\
<!-- tools/api_doc.py writes this page from the protos: change their comments and run `make generate`. -->
# API

All calls of Taskyard, from the protos in `proto/taskyard/v1`. gRPC serves all of them, reflection included. REST
serves those that have a path, through the gateway; its OpenAPI 3.1 description is at `/openapi.json`.

## Conventions

### Namespaces

A call is about one namespace: the value of the metadata key, or HTTP header, `{key}`. It matches
`{pattern}`; without it the namespace is `{default}`.

### Roles

Where authentication is on, each call needs a credential (`authorization: Bearer TOKEN`, or a client certificate) with
the role that stands beside it. `operator` may do what the weaker ones may, and `admin` everything
([security.md](../operate/security.md)).

### Error codes

Each error has a code. REST answers `{{"code", "error", "retryable"?, "details"?}}` with the HTTP status of the code.
gRPC ends with the status of the code and a `google.rpc.ErrorInfo` whose `reason` is the code in upper case; retryable
errors have a `google.rpc.RetryInfo` too. Any call may end with `bad_request`, `unauthenticated`, `permission_denied`,
`too_many_requests`, `unavailable` or `internal`; the other codes stand beside the calls that end with them.

{errors}
### Fields

The tables of messages show each field under its proto name and its JSON name. Presence is

- `required`: a request without it is refused as `bad_request`,
- `always`: the server always sets it,
- `optional`: it may be absent; its description says what that means,
- `plain`: it always has a value, 0 or empty if nothing set it,
- `one of ...`: at most one field of the group is set.

REST writes `int32`, `uint32` and `double` as numbers, `int64` and `uint64` as strings, `Timestamp` in RFC 3339 as in
`2026-11-21T09:00:00Z`, `Struct` as an object, `Value` as any JSON value, and an enum by the name of its value. Whole
numbers beyond 2^53 in a `Struct` or `Value` lose precision. Typed clients have the names of enum values in upper case
with a prefix, such as `STATE_DONE` for `done`; REST takes these too.

### REST spelling

The path decides how JSON names fields and whether answers show those that are 0 or empty. The first line that matches
counts:

{styles}"""


class Page:
    """The page, part by part."""

    def __init__(self, protos: Protos) -> None:
        self._protos = protos
        files = sorted(protos.files(), key=lambda file: (*ORDER, stem(file)).index(stem(file)))
        self._chapters = [(*self._title(file), file) for file in files]
        self._names = {
            name
            for file in files
            for service in file.services_by_name.values()
            for name in (service.name, *(method.name for method in service.methods))
        } | {name for file in files for name in file.message_types_by_name}

    def text(self) -> str:
        """All of it."""
        return "\n".join(
            [conventions(), *self._index(), *(line for each in self._chapters for line in self._chapter(*each))]
        )

    def _title(self, file: FileDescriptor) -> tuple[str, str]:
        """The title of a file's chapter, and the text below: "Tasks: what agents submit." has both."""
        text = self._protos.introduction(file)
        title, colon, rest = text.partition(": ")
        if not colon or len(title.split()) > MAX_TITLE_WORDS:
            return stem(file).replace("_", " ").capitalize(), text
        return title, rest[0].upper() + rest[1:]

    def _index(self) -> Iterator[str]:
        yield "## Calls\n"
        rows = []
        for _, _, file in self._chapters:
            for service in file.services_by_name.values():
                for method in service.methods:
                    rest = route(method)
                    path = f"`{rest.verb.upper()} {rest.template}`" if rest else ""
                    rows.append((link(method.name), path, explain(self._protos, method).summary))
        yield table(("RPC", "REST", "effect"), rows)

    def _chapter(self, title: str, text: str, file: FileDescriptor) -> Iterator[str]:
        yield f"## {title}\n"
        yield f"{self._linked(text)}\n"
        for service in file.services_by_name.values():
            yield f"### {service.name}\n"
            yield f"{self._linked(self._protos.comment(service), service.name)}\n"
            for method in service.methods:
                yield from self._call(service, method)
        for enum in file.enum_types_by_name.values():
            yield from self._enum(enum)
        for message in file.message_types_by_name.values():
            yield from self._message(message)

    # Calls

    def _call(self, service: ServiceDescriptor, method: MethodDescriptor) -> Iterator[str]:
        explanation = explain(self._protos, method)
        yield f"#### {method.name}\n"
        yield f"{self._linked(explanation.summary, method.name)}\n"
        if explanation.description:
            yield f"{self._linked(explanation.description, method.name)}\n"
        request, answer = link(method.input_type.name), f"`{method.output_type.full_name}`"
        if method.output_type.file.package == PACKAGE:
            answer = link(method.output_type.name)
        request = f"stream of {request}" if method.client_streaming else request
        answer = f"stream of {answer}" if method.server_streaming else answer
        yield f"- **gRPC**: `{service.full_name}/{method.name}`, {request} to {answer}"
        rest = route(method)
        yield f"- **REST**: {self._rest(method, rest, explanation.status) if rest else 'none'}"
        yield f"- **Role**: {role_of(method)}"
        yield f"- **Errors**: {self._linked(explanation.errors, method.name)}"
        yield f"- **Retry**: {self._linked(explanation.retry, method.name)}\n"

    def _rest(self, method: MethodDescriptor, rest: Route, status: str) -> str:
        style = style_of(rest.template)
        fields = [f"`{style.name(field)}`" for field in rest.others(method)]
        words = f"`{rest.verb.upper()} {rest.template}`"
        if rest.has_body:
            without = [f"`{style.name(field)}`" for field in rest.in_path]
            words += f", body {link(method.input_type.name)}"
            words += f" without {' and '.join(without)}" if without else ""
        elif rest.content is not None:
            words += f", the body is `{rest.content.name}`, query {', '.join(fields)}"
        elif fields:
            words += f", query {', '.join(fields)}"
        is_lines = method.server_streaming and method.output_type.file.package == PACKAGE
        return f"{words}; answers {status}" + (", one JSON object a line" if is_lines else "")

    # Messages

    def _message(self, message: Descriptor) -> Iterator[str]:
        yield f"### {short(message)}\n"
        yield f"{self._linked(self._protos.comment(message), message.name)}\n"
        for group in message.oneofs:
            if not group.name.startswith("_"):
                yield f"`{group.name}`: {self._linked(self._protos.comment(group), message.name)}\n"
        if message.fields:
            rows = [
                (
                    f"`{field.name}`",
                    f"`{field.json_name}`",
                    type_of(field),
                    self._presence(field),
                    self._linked(self._protos.comment(field), message.name),
                )
                for field in message.fields
            ]
            yield table(("field", "JSON", "type", "presence", "description"), rows)
        for enum in message.enum_types:
            yield from self._enum(enum)
        for inner in message.nested_types:
            if not inner.GetOptions().map_entry:
                yield from self._message(inner)

    def _presence(self, field: FieldDescriptor) -> str:
        comment = self._protos.comment(field)
        group = field.containing_oneof
        if group is not None and not group.name.startswith("_"):
            return f"one of `{group.name}`"
        if "Required." in comment:
            return "required"
        if re.search(r"\bAlways set[.,]", comment):
            return "always"
        return "optional" if field.has_presence or field.is_repeated else "plain"

    def _enum(self, enum: EnumDescriptor) -> Iterator[str]:
        yield f"### {short(enum)}\n"
        yield f"{self._linked(self._protos.comment(enum), '')}\n"
        rows = [
            (f"`{value.name}`", str(value.number), self._linked(self._protos.comment(enum, value.name), ""))
            for value in enum.values
            if value.number and value.name.islower()
        ]
        yield table(("value", "number", "meaning"), rows)

    def _linked(self, text: str, here: str = "") -> str:
        """A comment with links to the calls and messages that it names, and to the headings of docs/ that it cites."""

        def name(found: re.Match[str]) -> str:
            return link(found[0]) if found[0] in self._names and found[0] != here else found[0]

        def citation(found: re.Match[str]) -> str:
            headings = found[2].split(", ")
            page = posixpath.relpath(found[1], FOLDER)
            return ", ".join(f"[{heading}]({page}#{anchor(heading)})" for heading in headings)

        # A name of one hump, such as Task, may be a plain word.
        text = re.sub(r"(?<![`\w.])[A-Z][a-z]+[A-Z]\w+(?![`\w])", name, text)
        return re.sub(r"(docs/[\w/]+\.md), ([A-Z][^).,:;]*(?:, [A-Z][^).,:;]*)*)", citation, text)


def role_of(method: MethodDescriptor) -> str:
    """Who may call."""
    requirement = requirement_in(method)
    if requirement.by_link:
        return "anyone who has the link, without a credential"
    if requirement.anyone:
        return "anyone, without a credential"
    if requirement.any_principal:
        return "any"
    return " or ".join(f"`{role.word}`" for role in sorted(requirement.roles))


def conventions() -> str:
    """What holds for all calls."""
    rows = [
        (f"`{code}`", each.grpc.name, str(each.http), "yes" if code in retryable() else "")
        for code, each in MAPPINGS.items()
    ]
    styles = [
        (
            readable(pattern.pattern),
            "snake_case" if style.snake else "camelCase",
            "shown" if style.shows_empty else "left out",
        )
        for pattern, style in STYLES
    ]
    return INTRODUCTION.format(
        key=NAMESPACE_KEY,
        pattern=NAMESPACE.pattern,
        default=DEFAULT_NAMESPACE,
        errors=table(("code", "gRPC status", "HTTP status", "retryable"), rows),
        styles=table(("path begins with", "names", "0 or empty"), styles),
    )


def readable(pattern: str) -> str:
    """The pattern of a path as people read it."""
    names = re.match(r"/\(([\w|-]+)\)", pattern)
    if names is not None:
        return ", ".join(f"`/{name}`" for name in names[1].split("|"))
    return f"`{pattern.replace('[^/]+', '{host_id}')}`"


def retryable() -> set[str]:
    """The codes of errors after which the same call may work."""
    kinds = [Refusal]
    for kind in kinds:
        kinds += kind.__subclasses__()
    return {kind.code for kind in kinds if kind.retryable}


def type_of(field: FieldDescriptor) -> str:
    """The type of a field, with a link where it is described here."""
    if is_map(field):
        inner = field.message_type.fields_by_name
        return f"map of {type_of(inner['key'])} to {type_of(inner['value'])}"
    described = field.enum_type or field.message_type
    if described is None:
        name = SCALARS[field.type]
    elif described.file.package == PACKAGE:
        name = link(short(described))
    else:
        name = described.name
    return f"list of {name}" if field.is_repeated else name


SCALARS: Final = {
    getattr(FieldDescriptor, name): name.removeprefix("TYPE_").lower()
    for name in dir(FieldDescriptor)
    if name.startswith("TYPE_")
}


def stem(file: FileDescriptor) -> str:
    """The name of a file without its folder."""
    return PurePath(file.name).stem


def short(described: Descriptor | EnumDescriptor) -> str:
    """The name without its package."""
    return str(described.full_name).removeprefix(f"{PACKAGE}.")


def link(heading: str) -> str:
    """A link to a heading of this page."""
    return f"[{heading}](#{anchor(heading)})"


def anchor(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    cells = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in cells)


def main() -> None:
    """From the descriptor set on standard input to the page on standard output."""
    print(Page(Protos(sys.stdin.buffer.read())).text(), end="")


if __name__ == "__main__":
    main()
