"""A descriptor set as descriptors, each with the comment over it in its file."""

import re
from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

PACKAGE: Final = "taskyard.v1"
SYNTAX: Final = (12,)
"""The path of the line that begins a file."""


class Protos:
    """The descriptors, and the comment over each."""

    def __init__(self, descriptor_set: bytes) -> None:
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set)
        self._pool = DescriptorPool()
        self._comments: dict[str, str] = {}
        self.json_names: dict[str, str] = {}
        self._files = [file.name for file in files.file if file.package == PACKAGE]
        for file in files.file:
            self._pool.AddSerializedFile(file.SerializeToString())
            if file.package == PACKAGE:
                by_path = {tuple(x.path): x.leading_comments for x in file.source_code_info.location}
                self._read(file, (), PACKAGE, by_path)
                self._comments[file.name] = paragraphs(by_path[SYNTAX])

    def files(self) -> list[FileDescriptor]:
        """The files of our package."""
        return [self._pool.FindFileByName(name) for name in self._files]

    def services(self) -> Iterator[ServiceDescriptor]:
        """All services, file by file."""
        for file in self.files():
            yield from file.services_by_name.values()

    def message(self, name: str) -> Descriptor:
        """A message of our package."""
        return self._pool.FindMessageTypeByName(f"{PACKAGE}.{name}")

    def introduction(self, file: FileDescriptor) -> str:
        """The comment at the top of a file."""
        return self._comments[file.name]

    def comment(self, of: Any, value: str = "") -> str:
        """The comment over a descriptor, or over a value of an enum. Each paragraph is one line."""
        return self._comments[f"{of.full_name}.{value}".rstrip(".")]

    def _read(self, part: Any, path: tuple[int, ...], name: str, by_path: dict[tuple[int, ...], str]) -> None:
        for field, parts in part.ListFields():
            if field.message_type is None or not field.is_repeated:
                continue
            for index, inner in enumerate(parts):
                here = (*path, field.number, index)
                if here not in by_path or not hasattr(inner, "name"):
                    continue
                full_name = f"{name}.{inner.name}"
                self._comments[full_name] = paragraphs(by_path[here])
                if isinstance(inner, descriptor_pb2.FieldDescriptorProto):
                    self.json_names[inner.name] = inner.json_name
                self._read(inner, here, full_name, by_path)


def paragraphs(comment: str) -> str:
    """A comment without its line breaks, but for those between paragraphs and before the items of a list.

    Lines for buf are left out.
    """
    lines = (line.strip() for line in comment.strip().splitlines())
    text = "\n".join(line for line in lines if not line.startswith("buf:")).strip()
    return re.sub(r"(?<!\n)\n(?!\n|- )", " ", text)


def is_map(field: FieldDescriptor) -> bool:
    """True if the field is a map, which is a list of entries to protobuf."""
    return field.message_type is not None and field.message_type.GetOptions().map_entry
