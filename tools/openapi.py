#!/usr/bin/env python
"""Describes the REST API as OpenAPI 3.1, from the annotations and comments of the protos.

    buf build --as-file-descriptor-set --output - | tools/openapi.py > gateway/openapi.json

tools/generate.sh runs it. The comment of a field decides whether it is required: in requests if it says "Required.", in
answers unless it says when the field is absent. gateway/README.md shows how each route spells messages.
"""

import json
import re
import sys
from http import HTTPStatus
from typing import Any, Final

from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    MethodDescriptor,
    OneofDescriptor,
)
from proto_comments import PACKAGE, Protos, is_map
from rest_styles import Style, style_of
from rpcs import Explanation, Route, explain, route

from taskyard_server.access.requirements import requirement_in
from taskyard_server.interceptors.callers import DEFAULT_NAMESPACE, NAMESPACE, NAMESPACE_KEY
from taskyard_server.interceptors.errors import MAPPINGS

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
HTTP_BODY: Final = "google.api.HttpBody"
FORMS: Final = {
    "StreamOutput": ("text/event-stream", "text/plain"),
    "ReadArtifact": ("*/*",),
    "FetchArtifact": ("*/*",),
}
"""The media types of the answers that are no JSON, by method."""
BYTES: Final = "application/octet-stream"
"""The media types of what is no JSON."""

INTRODUCTION: Final = """\
Taskyard queues, leases and tracks tasks for fleets of agents. The same API as gRPC, streams of hosts included, is on
the same port and described by reflection.

Errors are answered as the schema `Error`, each code with its one status. Unknown fields of the bodies of submissions
and of hosts are ignored, and the header `taskyard-ignored-fields` of the answer names them; tokens, namespaces, limits,
agents, schedules, operations and administration refuse them, and everything does unknown query parameters. A body may
have 1 MiB. Whole numbers
beyond 2^53 in `params` and `result` lose precision. An unknown path or verb is answered by 404, and so are tasks,
batches and stats where the scheduler is off.
"""

Schema = dict[str, Any]


MAY_BE_ABSENT: Final = re.compile(r"\b(Absent|Only in|Default)\b|^Only ")

WELL_KNOWN: Final[dict[str, Schema]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    # Some generators of clients would take it for an object that may have no fields.
    "google.protobuf.Struct": {"type": "object", "additionalProperties": True},
    "google.protobuf.Value": {},
    "google.protobuf.ListValue": {"type": "array", "items": {}},
    "google.protobuf.FieldMask": {"type": "string", "pattern": "^([A-Za-z]+(,[A-Za-z]+)*)?$"},
}

SCALARS: Final[dict[int, Schema]] = {
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "format": "byte", "description": "Bytes in base64."},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_DOUBLE: {"type": "number", "format": "double"},
    FieldDescriptor.TYPE_INT32: {"type": "integer", "format": "int32"},
    FieldDescriptor.TYPE_UINT32: {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    FieldDescriptor.TYPE_INT64: {"type": "string", "pattern": "^-?[0-9]+$"},
    FieldDescriptor.TYPE_UINT64: {"type": "string", "pattern": "^[0-9]+$"},
}

# Rules that the comments state in words.
FENCING_TOKEN: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": 2**53}
ONLY_IF_CLAIMED: Final = ("task_id", "lease_expires_at", "fencing_token", "task")
IN_OUTCOMES: Final = {"SubmitBatch": ("already_exists", "queue_full")}

# The errors that any call may end with, by HTTP status: the code and its condition.
COMMON: Final = {
    400: ("bad_request", "The request is malformed."),
    401: ("unauthenticated", "The caller is not known."),
    403: ("permission_denied", "The caller may not do this."),
    408: ("unavailable", "The request did not arrive in time."),
    429: ("too_many_requests", "The caller asks for too much in a while."),
    431: ("too_large", "The request headers are too large."),
    500: ("internal", "Something went wrong in the server."),
    503: ("unavailable", "The server cannot be reached, starts or drains."),
    504: ("unavailable", "The server did not answer in time."),
}
WITH_A_BODY: Final = {413: ("too_large", "The body is over 1 MiB.")}


class Description:
    """Builds the document from the calls."""

    def __init__(self, protos: Protos) -> None:
        self._protos = protos
        self._forms: dict[Descriptor, dict[Style, Schema]] = {}
        self._others: dict[str, Schema] = {}
        self._paths: dict[str, dict[str, Schema]] = {}
        self._tags: list[Schema] = []
        for service in protos.services():
            tag = service.name.removesuffix("Service")
            self._tags.append({"name": tag, "description": protos.comment(service)})
            for method in service.methods:
                if (rest := route(method)) is not None:
                    self._add(method, tag, rest)
        self._task = self._ref(protos.message("Task"), Style())
        self._ref(protos.message("Error"), Style())

    def document(self) -> Schema:
        """The whole document."""
        schemas = self._schemas()
        shared = {**COMMON, **WITH_A_BODY}
        ended = {
            "operationId": "TaskEnded",
            "summary": "A task has ended; sent to the `callbackUrl` of its submission, up to three times.",
            "requestBody": {"required": True, "content": {JSON: {"schema": self._task}}},
            "responses": {"2XX": {"description": "Taken. Any other answer is a reason to try again."}},
        }
        return {
            "openapi": "3.1.1",
            "info": {
                "title": "Taskyard",
                "version": "v1",
                "summary": "A control plane that queues, leases and tracks tasks for fleets of agents.",
                "description": INTRODUCTION,
                "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/"}],
            "security": [{}, {"token": []}, {"certificate": []}],
            "tags": self._tags,
            "paths": self._paths,
            "webhooks": {"taskEnded": {"post": ended}},
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "description": "A token of Taskyard, or a JWT."},
                    "certificate": {"type": "mutualTLS", "description": "A client certificate."},
                },
                "responses": {
                    response_name(status): self._refusal(text, [code]) for status, (code, text) in shared.items()
                },
                "parameters": {
                    "Namespace": {
                        "name": NAMESPACE_KEY,
                        "in": "header",
                        "description": "The namespace that the call is about.",
                        "schema": {
                            "type": "string",
                            "pattern": f"^{NAMESPACE.pattern}$",
                            "default": DEFAULT_NAMESPACE,
                        },
                    }
                },
            },
        }

    # Calls

    def _add(self, method: MethodDescriptor, tag: str, rest: Route) -> None:
        style = style_of(rest.template)
        request_style = Style(snake=style.snake, is_input=True)
        explanation = explain(self._protos, method)
        description = (
            f"{explanation.description}\n\nRetry: {explanation.retry}".strip()
            if explanation.retry
            else explanation.description
        )
        parameters = [self._parameter(field, "path", request_style) for field in rest.in_path]
        if not rest.has_body:
            parameters += [self._parameter(field, "query", request_style) for field in rest.others(method)]
        if tag not in ("Admin", "Token"):
            parameters.append({"$ref": "#/components/parameters/Namespace"})
        call: Schema = {
            "operationId": method.name,
            "tags": [tag],
            "summary": self._spelled(explanation.summary, style),
            "description": self._spelled(description, style),
            "parameters": parameters,
            "x-taskyard-roles": roles_of(method),
        }
        if rest.has_body:
            body = self._form(method.input_type, request_style, frozenset(field.name for field in rest.in_path))
            name = short_name(method.input_type)
            self._others[name] = body
            call["requestBody"] = {
                "required": "required" in body,
                "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}},
            }
        if rest.content is not None:
            text = self._spelled(self._protos.comment(rest.content), style)
            call["requestBody"] = {"description": text, "content": {BYTES: {"schema": {"type": "string"}}}}
        call["responses"] = {
            explanation.status: self._answer(method, style),
            **self._refusals(method, explanation, style, rest.has_body or rest.content is not None),
        }
        path = re.sub(
            r"{(\w+)}", lambda found: f"{{{style.name(method.input_type.fields_by_name[found[1]])}}}", rest.template
        )
        self._paths.setdefault(path, {})[rest.verb] = {
            key: value for key, value in call.items() if value not in ("", [])
        }

    def _answer(self, method: MethodDescriptor, style: Style) -> Schema:
        """The answer of a call that goes well."""
        if method.output_type.full_name == HTTP_BODY:
            return {
                "description": "The body as it is, in the form that was asked for.",
                "content": {form: {"schema": {"type": "string"}} for form in FORMS[method.name]},
            }
        text = self._spelled(self._protos.comment(method.output_type), style)
        if method.server_streaming:
            text += " One JSON object a line."
        answer = self._ref(method.output_type, style)
        return {"description": text, "content": {LINES if method.server_streaming else JSON: {"schema": answer}}}

    def _parameter(self, field: FieldDescriptor, where: str, style: Style) -> Schema:
        schema = self._field(field, style)
        parameter = {"name": style.name(field), "in": where, "description": schema.pop("description"), "schema": schema}
        if where == "path":
            # A colon begins a verb, such as `:wait`.
            schema["pattern"] = "^[^/:]+$"
            parameter["required"] = True
        return parameter

    def _refusals(self, method: MethodDescriptor, explanation: Explanation, style: Style, has_body: bool) -> Schema:
        """The answers for errors, by status: those that the comment names, and those that any call may end with."""
        named: dict[int, dict[str, str]] = {}
        for code, when in explanation.codes():
            if code in MAPPINGS and code not in IN_OUTCOMES.get(method.name, ()):
                named.setdefault(MAPPINGS[code].http, {})[code] = self._spelled(when, style)
        answers: dict[int, Schema] = {}
        for status, (code, _) in {**COMMON, **(WITH_A_BODY if has_body else {})}.items():
            if status in named:
                named[status].setdefault(code, "")
            else:
                answers[status] = {"$ref": f"#/components/responses/{response_name(status)}"}
        for status, codes in named.items():
            text = "; ".join(f"`{code}`: {when}" if when else f"`{code}`" for code, when in codes.items())
            answers[status] = self._refusal(text, list(codes))
        return {str(status): answers[status] for status in sorted(answers)}

    def _refusal(self, text: str, codes: list[str]) -> Schema:
        schema = {"$ref": "#/components/schemas/Error", "properties": {"code": {"enum": codes}}}
        return {"description": text, "content": {JSON: {"schema": schema}}}

    # Messages

    def _ref(self, message: Descriptor, style: Style) -> Schema:
        forms = self._forms.setdefault(message, {})
        if style not in forms:
            forms[style] = {}
            forms[style].update(self._form(message, style))
        # A placeholder for the name, which depends on all forms of the message.
        return {"$ref": (message, style)}

    def _form(self, message: Descriptor, style: Style, left_out: frozenset[str] = frozenset()) -> Schema:
        fields = [field for field in message.fields if field.name not in left_out]
        schema: Schema = {
            "type": "object",
            "description": self._spelled(self._protos.comment(message), style),
            "properties": {style.name(field): self._field(field, style) for field in fields},
        }
        if required := [style.name(field) for field in fields if self._is_required(field, style)]:
            schema["required"] = required
        for choice in (oneof for oneof in message.oneofs if not oneof.name.startswith("_")):
            # Generators of clients would turn a plain `oneOf` into a union of objects without fields.
            schema["if"], schema["else"] = {"oneOf": self._alternatives(choice, style)}, {"not": {}}
        if message.name == "ClaimTaskResponse":
            schema["required"] = ["claimed"]
            schema["if"] = {"properties": {"claimed": {"const": True}}}
            schema["then"] = {"required": list(ONLY_IF_CLAIMED)}
        return schema

    def _alternatives(self, choice: OneofDescriptor, style: Style) -> list[Schema]:
        alternatives: list[Schema] = [{"required": [style.name(field)]} for field in choice.fields]
        if re.search(r"\b(Required|Always set)\.", self._protos.comment(choice)):
            return alternatives
        return [*alternatives, {"not": {"anyOf": alternatives}}]

    def _is_required(self, field: FieldDescriptor, style: Style) -> bool:
        comment = self._protos.comment(field)
        if style.is_input:
            return bool(re.search(r"\bRequired\.", comment))
        if field.containing_oneof is not None and not field.containing_oneof.name.startswith("_"):
            return False
        if style.shows_empty and not field.has_presence:
            return True
        is_shown = field.has_presence or field.is_repeated
        return is_shown and not MAY_BE_ABSENT.search(comment)

    def _field(self, field: FieldDescriptor, style: Style) -> Schema:
        schema = self._type(field, style)
        if field.is_repeated and not is_map(field):
            schema = {"type": "array", "items": schema}
        return {**schema, "description": self._spelled(self._protos.comment(field), style)}

    def _type(self, field: FieldDescriptor, style: Style) -> Schema:
        if field.enum_type is not None:
            return self._enum(field.enum_type, style)
        if field.name == "fencing_token":
            return dict(FENCING_TOKEN)
        if field.message_type is None:
            return dict(SCALARS[field.type])
        if is_map(field):
            values = field.message_type.fields_by_name["value"]
            return {"type": "object", "additionalProperties": self._type(values, style)}
        if field.message_type.full_name in WELL_KNOWN:
            return dict(WELL_KNOWN[field.message_type.full_name])
        return self._ref(field.message_type, style)

    def _enum(self, enum: EnumDescriptor, style: Style) -> Schema:
        name = short_name(enum)
        # JSON shows the lower-case names, but never the value 0.
        words = [value.name for value in enum.values if value.number and value.name.islower()]
        meanings = "\n".join(f"- `{word}`: {self._protos.comment(enum, word)}" for word in words)
        self._others[name] = {
            "type": "string",
            "enum": words,
            "description": self._spelled(f"{self._protos.comment(enum)}\n\n{meanings}", style),
        }
        return {"$ref": f"#/components/schemas/{name}"}

    def _spelled(self, text: str, style: Style) -> str:
        """A comment in which fields have the names of this route."""
        if style.snake:
            return text
        names = self._protos.json_names
        return re.sub(
            r"`([A-Za-z]+\.)?(\w+)`", lambda found: f"`{found[1] or ''}{names.get(found[2], found[2])}`", text
        )

    def _schemas(self) -> Schema:
        """All schemas by name. All references get these names."""
        named: dict[tuple[Descriptor, Style], str] = {}
        for message, forms in self._forms.items():
            first, *others = sorted(forms, key=lambda style: (style.is_input, style.snake, style.shows_empty))
            named[message, first] = short_name(message)
            for style in others:
                named[message, style] = short_name(message) + style.suffix
        schemas = {name: self._forms[message][style] for (message, style), name in named.items()} | self._others
        resolve([schemas, self._paths, self._task], named)
        schemas["Error"]["properties"]["code"]["enum"] = list(MAPPINGS)
        return dict(sorted(schemas.items()))


def roles_of(method: MethodDescriptor) -> list[str]:
    """The roles of which a caller needs one, where authentication is on; stronger ones will do."""
    requirement = requirement_in(method)
    return [role.word for role in sorted(requirement.roles)]


def resolve(part: Any, named: dict[tuple[Descriptor, Style], str]) -> None:
    """Replace the placeholder in each reference of a part of the document by the name."""
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in inner:
        resolve(each, named)
    if isinstance(part, dict) and isinstance(part.get("$ref"), tuple):
        part["$ref"] = f"#/components/schemas/{named[part['$ref']]}"


def short_name(named: Descriptor | EnumDescriptor) -> str:
    """The name without its package; a nested name is one word."""
    return str(named.full_name).removeprefix(f"{PACKAGE}.").replace(".", "")


def response_name(status: int) -> str:
    """The name of a shared answer: the words of its status."""
    return HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")


def main() -> None:
    """From the descriptor set on standard input to the description on standard output."""
    protos = Protos(sys.stdin.buffer.read())
    print(json.dumps(Description(protos).document(), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
