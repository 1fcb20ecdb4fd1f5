"""The REST routes, as the descriptor set of the gateway has them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from google.api import annotations_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

FILE = Path(__file__).parents[2] / "gateway/taskyard.binpb"


@dataclass(frozen=True)
class Route:
    """One method with a path."""

    name: str
    verb: str
    template: str
    has_body: bool
    request: Descriptor
    has_content: bool
    """Whether the body is a field of bytes, as it is."""

    @property
    def variables(self) -> list[str]:
        """The fields that the path names."""
        return re.findall(r"{(\w+)}", self.template)

    def path(self, **values: str) -> str:
        """The path with these values, by either name of a field; "x" for what is not given."""
        return re.sub(
            r"{(\w+)}", lambda found: values.get(found[1], values.get(self.camel(found[1]), "x")), self.template
        )

    def camel(self, name: str) -> str:
        """The other name of a field."""
        return str(self.request.fields_by_name[name].json_name)


def _routes() -> Iterator[Route]:
    pool = DescriptorPool()
    files = FileDescriptorSet.FromString(FILE.read_bytes()).file
    for file in files:
        pool.Add(file)
    for file in files:
        for service in pool.FindFileByName(file.name).services_by_name.values():
            for method in service.methods:
                rule = method.GetOptions().Extensions[annotations_pb2.http]
                verb = rule.WhichOneof("pattern")
                has_content = rule.body not in ("", "*")
                if verb:
                    yield Route(
                        method.name, verb.upper(), getattr(rule, verb), rule.body == "*", method.input_type, has_content
                    )


ROUTES = list(_routes())
