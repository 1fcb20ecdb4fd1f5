"""The artifacts of tasks: hosts and submitters upload them in parts, callers read them.

The bytes stand in objects, of which no store knows: `YARD/NAMESPACE/TASK/NAME/TOKEN.COUNT/PART`, with the numbers of
the namespace, of the task, of the lease, and of those that were put before under it. A task has an artifact once all of
its parts are written, and it is told to nobody before that is kept.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from taskyard_server.core.errors import BadRequest, Conflict, NotFound, TooLarge, Unavailable
from taskyard_server.core.history import Artifact
from taskyard_server.core.runs.artifacts import Part, Right, find
from taskyard_server.store.objects import MEMORY, NoObject, Objects, ObjectsError
from taskyard_server.store.port import key_of

from .found_task import found_task
from .kept_secret import YARD, kept_secret
from .uploads import MAX_PART_BYTES, MIN_PART_BYTES, Upload

if TYPE_CHECKING:
    from taskyard_server.core.names import Names
    from taskyard_server.core.task import Task

    from .namespace import NamespaceState
    from .namespaces import Namespaces
    from .persistence import Persistence
    from .views import RunFigures

log = structlog.get_logger(__name__)

NOT_KEPT: Final = "this server keeps no artifacts: store.artifacts is not set"
MAX_MEMORY_BYTES: Final = 256 << 20
"""Of all artifacts in memory, where there is no store."""
MAX_BYTES_AT_ONCE: Final = 64 << 20
"""The most that may wait to be written; further parts are refused meanwhile."""
SWEEP_SECS: Final = 60.0
COLLECT_SECS: Final = 3_600.0
"""How often objects are looked for whose task is gone; none that is younger is taken for such a one."""


class Uploaded(NamedTuple):
    """How much of an artifact is kept, and the artifact once it is complete."""

    received: int
    artifact: Artifact | None


class KeptArtifact(NamedTuple):
    """An artifact that can be read: its objects stand in `folder`."""

    artifact: Artifact
    folder: str


class ArtifactCommands:
    """Commands on the artifacts of tasks, whose bytes stand in `objects`; None where none are kept."""

    def __init__(
        self,
        namespaces: Namespaces,
        persistence: Persistence | None,
        objects: Objects | None,
        figures: RunFigures,
    ) -> None:
        self._namespaces = namespaces
        self._now = namespaces.now
        self._barrier = namespaces.barrier
        self._persistence = persistence
        self._objects = objects
        self._figures = figures
        self._uploads: dict[tuple[int, int], dict[str, Upload]] = {}
        self._left: list[str] = []
        self._writing = 0
        self._yard = "" if persistence is not None else "yard"

    @property
    def are_taken(self) -> bool:
        """True if any are kept, and no earlier version may come to serve the namespaces."""
        return self._objects is not None and self._namespaces.takes_artifacts

    async def upload(self, namespace: str, right: Right, part: Part) -> Uploaded:
        """Take a part of an artifact, once it is kept.

        Raises as `Artifacts.put`, `BadRequest` for a part at the wrong place or with another hash, `Conflict` where
        no artifacts are kept, and `Unavailable` while they cannot be.
        """
        self._namespaces.require_room()
        state, task = self._admitted(namespace, right, part)
        self._require_memory(len(part.data))
        kept = find(task, part.name)
        if kept is not None and _is_repeat(kept, right, part):
            return await self._barrier.of(state, Uploaded(kept.size, kept))
        upload = await self._upload(state, task, right, part.name)
        if self._writing + len(part.data) > MAX_BYTES_AT_ONCE:
            raise Unavailable("the artifacts that came before are still being written")
        self._writing += len(part.data)
        try:
            async with upload.lock:
                if self._uploads.get((state.number, task.seq), {}).get(part.name) is not upload:
                    # Another call has ended it meanwhile; who repeats this one learns how.
                    raise Unavailable("another part of this artifact came at the same time")
                await self._write(state, upload, part)
                if part.sha256 is None:
                    self._admitted(namespace, right, part)
                    return Uploaded(upload.received, None)
                return await self._complete(namespace, right, part, upload)
        except ObjectsError as error:
            self._figures.failed_objects += 1
            log.warning("artifact_not_written", namespace=namespace, task=right.task_id, reason=str(error))
            raise Unavailable("the store of artifacts does not answer") from None
        finally:
            self._writing -= len(part.data)

    async def find(
        self,
        namespace: str,
        task_id: str,
        name: str,
        *,
        agents: Names | None = None,
        check: Callable[[Task], None] = lambda _: None,
    ) -> KeptArtifact:
        """An artifact of a task. `check` raises why the caller may not read it. Raises `NotFound`, `Unavailable`."""
        state = self._namespaces.get(namespace, "task")
        task, _ = await found_task(self._namespaces, state, task_id, agents)
        check(task)
        return await self._kept(state, task, name)

    async def find_under(self, namespace: str, right: Right, name: str, of_input: str = "") -> KeptArtifact:
        """An artifact of a task, or of that input or child of it, for the host that has it under a lease.

        Raises `NotFound`, `LeaseLost`.
        """
        state = self._namespaces.get_for_command(namespace, "runtime host")
        lease = state.scheduler.artifacts.leased(self._now(), right)
        task = state.scheduler.children.handed(lease, of_input) if of_input else lease.task
        await self._barrier.kept(state)
        if task is None:
            raise NotFound("artifact not found")
        return await self._kept(state, task, name)

    async def read(self, kept: KeptArtifact, start: int, end: int) -> AsyncIterator[bytes]:
        """The bytes of an artifact from one place to before another. Raises `NotFound` once they are there no more."""
        objects, part_bytes = self._required(), kept.artifact.part_bytes
        while start < end:
            index = start // part_bytes
            begin = index * part_bytes
            until = min(end, begin + part_bytes)
            try:
                data = await objects.get(f"{kept.folder}/{index}", start - begin, until - begin)
            except NoObject:
                raise NotFound("the bytes of this artifact are gone") from None
            except ObjectsError as error:
                self._figures.failed_objects += 1
                log.warning("artifact_not_read", folder=kept.folder, reason=str(error))
                raise Unavailable("the store of artifacts does not answer") from None
            if len(data) != until - start:
                raise NotFound("the bytes of this artifact are gone")
            self._figures.artifact_bytes_read += len(data)
            yield data
            start = until

    def _required(self) -> Objects:
        if self._objects is None:
            raise Conflict(NOT_KEPT)
        return self._objects

    def _admitted(self, namespace: str, right: Right, part: Part) -> tuple[NamespaceState, Task]:
        state = self._namespaces.get_for_command(namespace, "task" if right.host_id is None else "runtime host")
        size = max(part.size or 0, part.offset + len(part.data))
        artifacts = state.scheduler.artifacts
        task = artifacts.task_of(self._now(), right)
        come = self._uploads.get((state.number, task.seq), {})
        others = [upload.received for name, upload in come.items() if name != part.name]
        own = come[part.name].received if part.name in come else 0
        artifacts.admit(task, part.name, size, own, others)
        return state, task

    def _require_memory(self, size: int) -> None:
        """Raise `TooLarge` where all artifacts are in memory, and there is no room for this many more bytes."""
        if self._required().url == MEMORY:
            used = sum([state.scheduler.artifacts.used for state in self._namespaces])
            if used + size > MAX_MEMORY_BYTES:
                raise TooLarge(f"content: without a store all artifacts may have {MAX_MEMORY_BYTES} bytes")

    async def _upload(self, state: NamespaceState, task: Task, right: Right, name: str) -> Upload:
        folder = await self._folder(state.number, task.seq)
        uploads = self._uploads.setdefault((state.number, task.seq), {})
        place = _place(find(task, name), name, right.task_token)
        upload = uploads.get(name)
        if upload is None or upload.place != place:
            if upload is not None:
                self._drop(state, upload, folder)
            upload = uploads[name] = Upload(task, right.task_token, place)
        return upload

    def _drop(self, state: NamespaceState, upload: Upload, folder: str) -> None:
        """Let an upload be removed that will not be complete."""
        state.scheduler.artifacts.used -= upload.received
        self._left.append(f"{folder}/{upload.place}")

    async def _write(self, state: NamespaceState, upload: Upload, part: Part) -> None:
        """Write a part where it belongs."""
        folder = f"{await self._folder(state.number, upload.task.seq)}/{upload.place}"
        before = upload.received
        try:
            if not upload.is_known:
                await self._take_up(upload, folder, part.offset)
            index = upload.seek(part.offset, len(part.data))
            if part.data:
                await self._required().put(f"{folder}/{index}", part.data)
            upload.add(part.data)
        finally:
            state.scheduler.artifacts.used += upload.received - before

    async def _take_up(self, upload: Upload, folder: str, offset: int) -> None:
        """Find out what was written before the server was started, unless the upload begins."""
        objects = self._required()
        if offset:
            sizes: dict[str, int] = {}
            async for found in objects.listed(folder):
                sizes |= {each.path.removeprefix(f"{folder}/"): each.size for each in found}
            part_bytes = sizes.get("0", 0)
            for index in count():
                size = sizes.get(str(index), 0)
                is_last = size < part_bytes or upload.received + size >= offset
                if size and MIN_PART_BYTES <= part_bytes <= MAX_PART_BYTES:
                    upload.add(await objects.get(f"{folder}/{index}", 0, size))
                if not size or is_last:
                    break
        upload.is_known = True

    async def _complete(self, namespace: str, right: Right, part: Part, upload: Upload) -> Uploaded:
        if upload.sha256 != part.sha256:
            raise BadRequest(f"sha256: what has come, {upload.received} bytes, has another")
        state, task = self._admitted(namespace, right, part)
        artifact = Artifact(
            part.name,
            part.media_type,
            upload.received,
            upload.sha256,
            task.history.last_number + 1 if right.task_token else 0,
            self._now(),
            upload.part_bytes,
            upload.place,
        )
        replaced = state.scheduler.artifacts.put(self._now(), right, artifact, upload.received)
        self._uploads[state.number, task.seq].pop(part.name, None)
        self._figures.artifacts += 1
        self._figures.artifact_bytes += artifact.size
        uploaded = await self._barrier.of(state, Uploaded(artifact.size, artifact))
        if replaced is not None and replaced.place != artifact.place:
            # What is left if this fails goes with the task.
            with contextlib.suppress(ObjectsError):
                folder = await self._folder(state.number, task.seq)
                await self._required().remove_below(f"{folder}/{replaced.place}")
        return uploaded

    async def _kept(self, state: NamespaceState, task: Task, name: str) -> KeptArtifact:
        artifact = find(task, name)
        if artifact is None:
            raise NotFound("artifact not found")
        self._required()
        return KeptArtifact(artifact, f"{await self._folder(state.number, task.seq)}/{artifact.place}")

    async def _folder(self, namespace: int, task: int | None = None) -> str:
        """The folder of a namespace, or of one of its tasks."""
        if not self._yard:
            assert self._persistence is not None
            self._yard = (await kept_secret(self._persistence, YARD)).hex()[:16]
        return f"{self._yard}/{namespace}" if task is None else f"{self._yard}/{namespace}/{task}"

    # What goes

    async def run(self) -> None:
        """Remove objects that nobody can read any more, until cancelled."""
        measured: dict[int, int] = {}
        due_at = 0.0
        while self._objects is not None:
            if self._namespaces.wall() >= due_at:
                measured, due_at = {}, self._namespaces.wall() + COLLECT_SECS
            try:
                await self._sweep()
                for state in list(self._namespaces):
                    if measured.get(state.number) != state.term:
                        await self._collect(state)
                        measured[state.number] = state.term
            except (ObjectsError, Unavailable) as error:
                log.warning("artifacts_not_swept", reason=str(error))
            await asyncio.sleep(SWEEP_SECS)

    async def remove_namespace(self, number: int) -> None:
        """Remove all objects of a namespace. Raises `ObjectsError`."""
        if self._objects is not None and not self._objects.has_none:
            await self._objects.remove_below(await self._folder(number))

    async def _sweep(self) -> None:
        """Remove what was left half, and the artifacts of tasks that no history keeps."""
        objects = self._required()
        states = {state.number: state for state in self._namespaces}
        for (namespace, number), uploads in list(self._uploads.items()):
            folder = await self._folder(namespace, number)
            for name, upload in list(uploads.items()):
                if namespace not in states:
                    # Another replica goes on with it.
                    del uploads[name]
                elif not upload.is_current and not upload.lock.locked():
                    del uploads[name]
                    self._drop(states[namespace], upload, folder)
            if not uploads:
                del self._uploads[namespace, number]
        while self._left:
            await objects.remove_below(self._left[-1])
            self._left.pop()
        if self._persistence is None and not objects.has_none:
            await self._remove_deleted(objects)
        for state in list(self._namespaces):
            while state.artifacts_gone:
                number = state.artifacts_gone[-1]
                await objects.remove_below(await self._folder(state.number, number))
                state.artifacts_gone.remove(number)

    async def _remove_deleted(self, objects: Objects) -> None:
        """Remove what stands of namespaces that were deleted, where no store knows of them."""
        here = {str(state.number) for state in self._namespaces}
        async for found in objects.listed(self._yard):
            await objects.remove([each.path for each in found if each.path.split("/")[1] not in here])

    async def _collect(self, state: NamespaceState) -> None:
        """Measure the artifacts of a namespace, and remove those of tasks that are gone."""
        objects = self._required()
        if objects.has_none:
            return
        folder = await self._folder(state.number)
        sizes: dict[int, int] = {}
        newest: dict[int, float] = {}
        async for found in objects.listed(folder):
            for each in found:
                number = int(each.path.removeprefix(f"{folder}/").partition("/")[0])
                sizes[number] = sizes.get(number, 0) + each.size
                newest[number] = max(newest.get(number, 0.0), each.modified_at)
        keeps_secs = self._namespaces.remembers_secs(state) if state.keeps_history else 0.0
        before = self._namespaces.wall() - max(COLLECT_SECS, keeps_secs)
        for number in sizes:
            if newest[number] < before and not await self._is_there(state, number):
                await objects.remove_below(f"{folder}/{number}")
                sizes[number] = 0
        state.scheduler.artifacts.used = sum(sizes.values())

    async def _is_there(self, state: NamespaceState, number: int) -> bool:
        """True if a task is in memory or in the store."""
        task = next(state.scheduler.tasks_after(number - 1), None)
        if task is not None and task.seq == number:
            return True
        if self._persistence is None:
            return False
        return await self._persistence.store.task(key_of(state.number, number)) is not None


def _place(kept: Artifact | None, name: str, token: int) -> str:
    """Where a new artifact of a name stands: beside the one that it replaces."""
    before, _, number = ("" if kept is None else kept.place).rpartition("/")[2].partition(".")
    return f"{name}/{token}.{int(number) + 1 if before == str(token) else 0}"


def _is_repeat(kept: Artifact, right: Right, part: Part) -> bool:
    """True if a part is the last one of an artifact that is kept, and that came under the same right."""
    same = kept.sha256 == part.sha256 and kept.size == part.offset + len(part.data)
    return same and kept.place.rpartition("/")[2].partition(".")[0] == str(right.task_token)
