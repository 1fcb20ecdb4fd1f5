"""A fencing token has the same type in every message, in those that are new too."""

from pathlib import Path

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

from tests.proto import protoc


def test_every_fencing_token_is_a_double(tmp_path: Path) -> None:
    descriptors = tmp_path / "descriptors"
    protoc.generate("descriptor_set", descriptors)
    files = FileDescriptorSet.FromString(descriptors.read_bytes()).file
    fields = [field for file in files for message in file.message_type for field in message.field]
    types = [field.type for field in fields if field.name == "fencing_token"]
    assert len(types) == 22
    assert set(types) == {FieldDescriptorProto.TYPE_DOUBLE}
