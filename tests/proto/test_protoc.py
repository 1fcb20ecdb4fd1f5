"""Plain protoc makes code of the protos in every language that it knows."""

import re
from pathlib import Path

import pytest

from tests.proto import protoc

pytestmark = pytest.mark.gate("Go, and protoc")

# The file that comes of each proto, and what it declares. `Stem` is the proto's name in camel case.
FILES = {
    "cpp": ("taskyard/v1/stem.pb.h", "namespace taskyard {\nnamespace v1 {"),
    "csharp": ("Stem.cs", "namespace Taskyard.V1 {"),
    "java": ("dev/taskyard/v1/StemProto.java", "package dev.taskyard.v1;"),
    "kotlin": ("dev/taskyard/v1/StemProtoKt.proto.kt", "package dev.taskyard.v1"),
    "objc": ("taskyard/v1/Stem.pbobjc.h", "@interface TYV1StemRoot : GPBRootObject"),
    "php": ("GPBMetadata/Taskyard/V1/Stem.php", "namespace GPBMetadata\\Taskyard\\V1;"),
    "pyi": ("taskyard/v1/stem_pb2.pyi", "DESCRIPTOR: _descriptor.FileDescriptor"),
    "python": ("taskyard/v1/stem_pb2.py", "'taskyard.v1.stem_pb2'"),
    "rbs": ("taskyard/v1/stem_pb.rbs", "module Taskyard\n  module V1"),
    "ruby": ("taskyard/v1/stem_pb.rb", "module Taskyard\n  module V1"),
}
# protoc makes Rust of no proto without an option that opts in to the experiment.
EXPERIMENTAL = {"rust"}


# Words of a language, which it may not use as a name.
RESERVED = {("php", "namespace"): "PBNamespace"}


def named(text: str, language: str, stem: str) -> str:
    camel = RESERVED.get((language, stem), protoc.camel_case(stem))
    return text.replace("Stem", camel).replace("stem", stem)


@pytest.mark.parametrize("language", FILES)
def test_protoc_makes_code_of_every_proto_in(language: str, tmp_path: Path) -> None:
    name, declared = FILES[language]
    assert protoc.generate(language, tmp_path) == ""
    for stem in protoc.STEMS:
        assert named(declared, language, stem) in (tmp_path / named(name, language, stem)).read_text()


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("java", "dev/taskyard/v1/Task.java"),
        ("kotlin", "dev/taskyard/v1/TaskKt.kt"),
        ("php", "Taskyard/V1/Task.php"),
    ],
)
def test_a_message_has_a_file_of_its_own_in(language: str, name: str, tmp_path: Path) -> None:
    protoc.generate(language, tmp_path)
    assert (tmp_path / name).is_file()


def test_no_language_that_protoc_knows_is_left_out() -> None:
    known = set(re.findall(r"--(\w+)_out=OUT_DIR", protoc.protoc("--help")))
    assert known == FILES.keys() | EXPERIMENTAL
