"""The protos say themselves where their code belongs in each language, all of them the same."""

from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tests.proto import protoc

# Users' imports name these: a changed value breaks them.
OPTIONS = {
    "csharp_namespace": "Taskyard.V1",
    "go_package": "github.com/taskyard/taskyard/clients/go/v1;taskyardv1",
    "java_multiple_files": True,
    "java_package": "dev.taskyard.v1",
    "objc_class_prefix": "TYV1",
    "php_namespace": "Taskyard\\V1",
    "ruby_package": "Taskyard::V1",
}


def test_every_file_has_the_same_language_options(tmp_path: Path) -> None:
    descriptors = tmp_path / "descriptors"
    protoc.generate("descriptor_set", descriptors)
    files = FileDescriptorSet.FromString(descriptors.read_bytes()).file
    found = {file.name: {option.name: value for option, value in file.options.ListFields()} for file in files}
    assert found == {
        f"taskyard/v1/{stem}.proto": {**OPTIONS, "java_outer_classname": f"{protoc.camel_case(stem)}Proto"}
        for stem in protoc.STEMS
    }
