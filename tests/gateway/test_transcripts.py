"""Golden transcripts: what REST callers send and what they get.

Each file of `transcripts/` is a conversation, from top to bottom:

    # what it shows, and lines such as `config: {...}`, `executor`, `store` or `no store` for how the server is started
    > POST /tasks
    > {"agentId": "a", "action": "click"}
    < 202 application/json
    < {"taskId": "tsk_<1>", ...}

A `GET /tasks:watch` stays open while the steps after it are played. All its lines are shown there, one a message.

Ids and times are masked: `tsk_<1>` is the first task id of the file, in requests too, `<time>` any time, `<ms>` any
duration, `<cursor>` any cursor, `<page>` any page token, `<trace>` any trace context, `<secret>` that of a token.
`UPDATE=1` writes the answers of this run into the files: read the difference before you commit it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.environment import is_kept
from tests.gateway.control_plane import ControlPlane, control_plane
from tests.ports import free_port

HERE = Path(__file__).parent / "transcripts"
ROOT = Path(__file__).parents[2]
ID = re.compile(r"(tsk|bat|sch|trg)_[0-9a-f]{32}|tok_[0-9A-Za-z]{20}")
MASKED_ID = re.compile(r"(tsk|bat|sch|trg|tok)_<\d+>")
SECRET = re.compile(r"tyd_[0-9A-Za-z]{38}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
DURATIONS = ("latencyMs", "avgDispatchLatencyMs")
TRACE = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01")
CURSOR = re.compile(r'"cursor": "[A-Za-z0-9_-]+"')
PAGE = re.compile(r'"nextPageToken": "[A-Za-z0-9_-]+"')
WATCH = "GET /tasks:watch"
JSON = "application/json"


@dataclass
class Step:
    """One request and the answer that is expected."""

    comment: str
    request: str
    body: str
    status: str
    answer: str


@dataclass
class Masks:
    """The ids that this run met, in the order in which it met them."""

    ids: list[str] = field(default_factory=list)

    def mask(self, text: str) -> str:
        """An answer as the transcript shows it."""
        for found in ID.finditer(text):
            if found[0] not in self.ids:
                self.ids.append(found[0])
        text = ID.sub(lambda found: self._name(found[0]), text)
        for name in DURATIONS:
            text = re.sub(rf'"{name}": [0-9.e-]+', f'"{name}": "<ms>"', text)
        text = PAGE.sub('"nextPageToken": "<page>"', SECRET.sub("<secret>", text))
        return TIME.sub("<time>", TRACE.sub("<trace>", CURSOR.sub('"cursor": "<cursor>"', text)))

    def unmask(self, text: str) -> str:
        """A request as it is sent."""
        names = {self._name(given): given for given in self.ids}
        return MASKED_ID.sub(lambda found: names[found[0]], text)

    def _name(self, given: str) -> str:
        kind = given[:3]
        return f"{kind}_<{[other for other in self.ids if other.startswith(kind)].index(given) + 1}>"


def read(file: Path) -> tuple[list[str], list[Step]]:
    """The head lines and the steps of a transcript."""
    head, *blocks = re.split(r"\n\n(?=(?:#|>))", file.read_text().strip())
    steps = []
    for block in blocks:
        lines = block.split("\n")
        comments = [line for line in lines if line.startswith("#")]
        sent = [line[2:] for line in lines if line.startswith(">")]
        got = [line[2:] for line in lines if line.startswith("<")]
        status, *answer = got or [""]
        steps.append(Step("\n".join(comments), sent[0], "\n".join(sent[1:]), status, "\n".join(answer)))
    return head.split("\n"), steps


def play(client: httpx.Client, step: Step, masks: Masks) -> Step:
    """Send one request; the step with the answer that came."""
    method, path = masks.unmask(step.request).split(" ", 1)
    headers = {"content-type": "application/json"} if step.body else {}
    response = client.request(method, path, content=masks.unmask(step.body).encode() or None, headers=headers)
    status = f"{response.status_code} {response.headers['content-type']}"
    answer = _pretty(response.text) if status.endswith(JSON) else "\n".join(response.text.strip().splitlines())
    return Step(step.comment, step.request, step.body, status, masks.mask(answer))


@contextmanager
def watching(client: httpx.Client, step: Step, masks: Masks) -> Iterator[Callable[[], Step]]:
    """Open a watch, and wait until it has begun; what is answered reads it to its end."""
    method, path = masks.unmask(step.request).split(" ", 1)
    with client.stream(method, path) as response:
        status = f"{response.status_code} {response.headers['content-type']}"
        lines = response.iter_lines()
        # A watch that was refused has one line, without a bookmark.
        begun = list(_through_bookmark(lines))

        def to_its_end() -> Step:
            read = [json.dumps(json.loads(line), sort_keys=True) for line in (*begun, *lines)]
            return Step(step.comment, step.request, "", status, masks.mask("\n".join(read)))

        yield to_its_end


def _through_bookmark(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if json.loads(line).get("bookmark"):
            return


def _pretty(text: str) -> str:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False, sort_keys=True)


@contextmanager
def server(head: list[str], folder: Path) -> Iterator[ControlPlane]:
    """A control plane as the head of a transcript asks for it."""
    arguments: list[str] = []
    with ExitStack() as stack:
        for line in head:
            if line.startswith("# config: "):
                (folder / "config.json").write_text(line.removeprefix("# config: "))
                arguments += ["--config", str(folder / "config.json")]
            if line == "# store":
                arguments += ["--store", f"sqlite:///{folder / 'yard.db'}"]
            if line == "# no store":
                arguments += ["--store", "memory://"]
            if line == "# executor":
                arguments += ["--executor", stack.enter_context(_executor())]
        yield stack.enter_context(control_plane(*arguments))


@contextmanager
def _executor() -> Iterator[str]:
    """The URL of the example of an executor."""
    port = free_port()
    command = [sys.executable, str(ROOT / "examples" / "tab_executor.py"), str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        assert b"run at" in process.stdout.readline()
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _write(file: Path, head: list[str], steps: list[Step]) -> None:
    blocks = ["\n".join(head)]
    for step in steps:
        sent = [f"> {line}" for line in [step.request, *step.body.splitlines()]]
        got = [f"< {line}" for line in [step.status, *step.answer.splitlines()]]
        blocks.append("\n".join([*([step.comment] if step.comment else []), *sent, *got]))
    file.write_text("\n\n".join(blocks) + "\n")


def _comparable(step: Step) -> tuple[str, str, Any]:
    if step.request.startswith(WATCH):
        return step.request, step.status, [json.loads(line) for line in step.answer.splitlines()]
    answer = json.loads(step.answer or "null") if step.status.endswith(JSON) else step.answer
    if step.request.endswith("/stats") and is_kept():
        # The transcripts are of a server that keeps nothing.
        answer.pop("store", None)
    return step.request, step.status, answer


@pytest.mark.parametrize("file", sorted(HERE.glob("*.txt")), ids=lambda file: file.stem)
def test_rest_callers_get_exactly(file: Path, tmp_path: Path) -> None:
    head, steps = read(file)
    masks = Masks()
    with (
        server(head, tmp_path) as plane,
        plane.client() as client,
        ExitStack() as watches,
    ):
        played: list[Step | Callable[[], Step]] = [
            watches.enter_context(watching(client, step, masks))
            if step.request.startswith(WATCH)
            else play(client, step, masks)
            for step in steps
        ]
        played = [step if isinstance(step, Step) else step() for step in played]
    if os.environ.get("UPDATE"):
        _write(file, head, played)
    assert steps, "a transcript without a step proves nothing"
    for expected, seen in zip(steps, played, strict=True):
        assert _comparable(seen) == _comparable(expected)
