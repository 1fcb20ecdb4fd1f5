"""The file from which Envoy learns who owns what: whatever happens, whoever reads on in it knows the whole table."""

import os
import random
from pathlib import Path

import pytest

from taskyard_server.gateway import owner_file as owner_table
from taskyard_server.gateway.owner_file import OwnerFile


class Reader:
    """Reads the file as gateway/carrier.lua does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open()
        self._rest = ""
        self.owners: dict[str, str] = {}
        self.bytes = 0

    def look(self) -> dict[str, str]:
        """Read what is new; the table then."""
        if not self._read_on():
            self._file.close()
            self._file, self._rest, self.owners = self._path.open(), "", {}
            assert self._read_on()
        return self.owners

    def _read_on(self) -> bool:
        text = self._file.read()
        self.bytes += len(text)
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            namespace, _, cluster = line.partition(" ")
            if namespace == "!":
                return False
            self.owners[namespace] = cluster
        self.owners = {namespace: cluster for namespace, cluster in self.owners.items() if namespace and cluster}
        return True


@pytest.fixture
def table(tmp_path: Path) -> OwnerFile:
    table = OwnerFile(tmp_path / "owners")
    table.write({})
    return table


@pytest.mark.parametrize("seed", range(20))
def test_a_reader_that_looks_now_and_then_knows_the_table(
    table: OwnerFile, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(owner_table, "LEAST_CHANGES", 30)
    chance = random.Random(seed)
    readers = [Reader(table.path), Reader(table.path)]
    owners: dict[str, str] = {}
    for _ in range(200):
        for _ in range(chance.randrange(4)):
            name = f"ns-{chance.randrange(20)}"
            if chance.random() < 0.3:
                owners.pop(name, None)
            else:
                owners[name] = f"replica-{chance.randrange(3)}"
        table.write(owners)
        assert readers[0].look() == owners
        if chance.random() < 0.1:
            assert readers[1].look() == owners
    assert Reader(table.path).look() == owners


def test_a_change_costs_what_it_says(table: OwnerFile) -> None:
    owners = {f"ns-{number}": "replica-b" for number in range(5_000)}
    table.write(owners)
    reader = Reader(table.path)
    reader.look()
    before = reader.bytes
    owners["ns-7"] = "replica-c"
    table.write(owners)
    table.write(owners)
    assert reader.look() == owners
    assert reader.bytes - before == len("ns-7 replica-c\n")


@pytest.mark.parametrize("whole", [True, False])
def test_after_a_full_disk_the_table_is_written_anew(
    table: OwnerFile, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    reader, write = Reader(table.path), os.write
    table.write({"a": "replica-b"})
    room = [0 if whole else 5]

    def fill(file: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = write(file, bytes(data[: room[0]]))
        room[0] = 0
        return written

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fill)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                table.write({"a": "replica-b", "b": "replica-c"})
            reader.look()
    # What was cut off never is a name, and what was taken back is gone.
    table.write({"a": "replica-b"})
    assert reader.look() == {"a": "replica-b"} == Reader(table.path).look()


def test_nobody_else_can_read_it(table: OwnerFile) -> None:
    assert table.path.stat().st_mode & 0o077 == 0
