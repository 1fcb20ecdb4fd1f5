"""The files of a folder as a disk would hold them after a power cut, by the logs of what was done to them (unsynced.c).

What was synced is there. Of the rest there is nothing, a part, or all but the end, as chance has it: writes that were
not synced may reach a disk in any order, and the last one in halves. A name is there once its folder was synced.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).with_name("unsynced.c")
HEAD: Final = struct.Struct("<cQQqQI")
SECTOR: Final = 512


class Unsynced(StrEnum):
    """What becomes of what was not synced."""

    NOTHING = "nothing"
    SOME = "some"
    ALL_BUT_THE_END = "all but the end"


class Record(NamedTuple):
    """One thing that was done; see `struct Head`."""

    kind: str
    time_ns: int
    inode: int
    number: int
    zeros: int
    data: bytes


class Change(NamedTuple):
    """Bytes that were written at an offset, or a new length."""

    offset: int
    data: bytes | None


@dataclass(eq=False)
class File:
    """A file: what was in it at first, and what was changed; the first `synced` changes are on the disk.

    `lost_sight` names what was done to it that cannot be followed.
    """

    content: bytes = b""
    changes: list[Change] = field(default_factory=list)
    synced: int = 0
    lost_sight: str = ""

    def on_disk(self, unsynced: Unsynced, chance: random.Random) -> bytes:
        content = bytearray(self.content)
        for change in self.changes[: self.synced]:
            _apply(content, change)
        for change in self._kept(self.changes[self.synced :], unsynced, chance):
            _apply(content, change)
        return bytes(content)

    def _kept(self, changes: list[Change], unsynced: Unsynced, chance: random.Random) -> Iterator[Change]:
        if unsynced is Unsynced.SOME:
            for change in changes:
                match chance.random():
                    case draw if draw < 0.5:
                        yield change
                    case draw if draw < 0.6:
                        yield _torn(change, chance)
        elif unsynced is Unsynced.ALL_BUT_THE_END and changes:
            count = chance.randrange(len(changes))
            yield from changes[:count]
            yield _torn(changes[count], chance)


@dataclass
class Folder:
    """The names in a folder, each change of which is a function of them; the first `synced` are on the disk."""

    names: dict[str, File]
    changes: list[tuple[str, str, File | None]] = field(default_factory=list)
    """Kinds of `Record`, the name, and the file that has it now, None if none has."""
    synced: int = 0

    def on_disk(self, unsynced: Unsynced, chance: random.Random) -> dict[str, File]:
        count = self.synced
        if unsynced is not Unsynced.NOTHING:
            # A journal of a file system keeps their order.
            count = chance.randint(self.synced, len(self.changes))
        names = dict(self.names)
        for _, name, file in self.changes[:count]:
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file
        return names


class Disk:
    """A folder whose power may be cut. Create it while nothing is at work in there."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._folder = folder.resolve()
        self._logs = scratch / "logs"
        self._library = scratch / "unsynced.so"
        command = ("cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o", self._library, SOURCE, "-ldl")
        subprocess.run(command, check=True)
        self._look()

    @property
    def environment(self) -> dict[str, str]:
        """What a process that works in the folder must be started with."""
        return {
            "LD_PRELOAD": str(self._library),
            "UNSYNCED_FOLDER": str(self._folder),
            "UNSYNCED_LOGS": str(self._logs),
        }

    def cut(self, unsynced: Unsynced, chance: random.Random) -> str:
        """Leave in the folder what the disk has. All its processes must have been killed. Returns a line about it."""
        files, folder = self._replay()
        lost = sum(len(file.changes) - file.synced for file in files)
        names = folder.on_disk(unsynced, chance)
        for path in self._folder.iterdir():
            if not path.is_dir():
                path.unlink()
        for name, file in names.items():
            if name.endswith("-shm"):
                continue  # shared memory, which SQLite makes anew
            assert not file.lost_sight, f"{file.lost_sight} of {name} cannot be followed"
            (self._folder / name).write_bytes(file.on_disk(unsynced, chance))
        changes = sum(len(file.changes) for file in files)
        self._look()
        left = len(folder.changes) - folder.synced
        return f"of {changes} changes {lost} were not synced, of {len(folder.changes)} of names {left}: kept {unsynced}"

    def _look(self) -> None:
        """Take what is there now as what the disk has, and begin new logs."""
        shutil.rmtree(self._logs, ignore_errors=True)
        self._logs.mkdir(parents=True)
        self._before = {path.name: path for path in self._folder.iterdir() if path.is_file()}
        self._inodes = {path.stat().st_ino: name for name, path in self._before.items()}
        self._contents = {name: path.read_bytes() for name, path in self._before.items()}

    def _replay(self) -> tuple[list[File], Folder]:
        first = {name: File(content) for name, content in self._contents.items()}
        by_inode = {inode: first[name] for inode, name in self._inodes.items()}
        folder, files = Folder(dict(first)), list(first.values())
        folder_inode = self._folder.stat().st_ino
        begun: dict[int, int] = {}
        for record in sorted(self._records(), key=lambda each: each.time_ns):
            file = by_inode.setdefault(record.inode, File())
            of_folder = record.inode == folder_inode
            match record.kind:
                case "W":
                    file.changes.append(Change(record.number, record.data))
                case "Z":
                    file.changes.append(Change(record.number, bytes(record.zeros)))
                case "T":
                    file.changes.append(Change(record.number, None))
                case "B":
                    begun[record.number] = len(folder.changes if of_folder else file.changes)
                case "E" if of_folder:
                    folder.synced = max(folder.synced, begun[record.number])
                case "E":
                    file.synced = max(file.synced, begun[record.number])
                case "C":
                    by_inode[record.inode] = File()
                    files.append(by_inode[record.inode])
                    folder.changes.append(("C", record.data.decode(), by_inode[record.inode]))
                case "D":
                    folder.changes.append(("D", record.data.decode(), None))
                case "R":
                    old, _, new = record.data.decode().partition("/")
                    # Both at once, as a journal has them; a cut between them leaves the file under both names.
                    folder.changes += [("R", new, file), ("R", old, None)]
                case _:
                    file.lost_sight = record.data.decode()
        return files, folder

    def _records(self) -> Iterator[Record]:
        for log in self._logs.iterdir():
            data, place = log.read_bytes(), 0
            while place + HEAD.size <= len(data):
                kind, time_ns, inode, number, zeros, size = HEAD.unpack_from(data, place)
                place += HEAD.size
                if place + size > len(data):
                    break  # its process was killed in the midst of it
                yield Record(kind.decode(), time_ns, inode, number, zeros, data[place : place + size])
                place += size


def _apply(content: bytearray, change: Change) -> None:
    if change.data is None:
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
        return
    if len(content) < change.offset:
        content.extend(bytes(change.offset - len(content)))
    content[change.offset : change.offset + len(change.data)] = change.data


def _torn(change: Change, chance: random.Random) -> Change:
    """A write of which only some sectors at its beginning or at its end were made."""
    if change.data is None:
        return change
    sectors = -(-len(change.data) // SECTOR)
    cut = chance.randrange(sectors) * SECTOR
    return (
        Change(change.offset, change.data[:cut])
        if chance.random() < 0.5
        else Change(change.offset + cut, change.data[cut:])
    )
