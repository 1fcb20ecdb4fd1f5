"""The Python code of the README and of docs/use is that of `examples/`, and works with a real server."""

import re
import subprocess
import sys
from pathlib import Path

import grpc
import pytest

from tests.environment import without_settings
from tests.ports import free_port

pytestmark = pytest.mark.gate("a document that is followed as a reader would")

ROOT = Path(__file__).parents[3]
BLOCKS = [
    block
    for document in ("README.md", "docs/use/guide.md", "docs/use/runs.md")
    for block in re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
]
ADDRESS = "localhost:50051"


def code_of(example: str) -> str:
    """An example without its docstring."""
    return re.sub(r'\A""".*?"""\n+', "", (ROOT / "examples" / example).read_text(), flags=re.DOTALL)


@pytest.fixture
def address():
    """The address of a control plane that was started as a user starts it."""
    grpc_at, metrics_at = (f"127.0.0.1:{free_port()}" for _ in range(2))
    command = [sys.executable, "-m", "taskyard_server.cli.main", "up", "--no-gateway"]
    command += ["--grpc", grpc_at, "--metrics", metrics_at]
    server = subprocess.Popen(command, env=without_settings(), stdout=subprocess.DEVNULL)
    try:
        with grpc.insecure_channel(grpc_at) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)
        yield grpc_at
    finally:
        server.terminate()
        server.wait(timeout=30)


def test_the_documents_show_the_examples():
    names = ("host", "agent", "shares", "output", "artifacts", "inputs", "steps", "ask")
    assert [code_of(f"{name}.py") for name in names] == BLOCKS


def test_the_agents_get_their_greetings_from_the_host(address):
    host, agent, shares, output, artifacts, inputs, steps, ask = (block.replace(ADDRESS, address) for block in BLOCKS)
    with subprocess.Popen([sys.executable, "-c", host]) as working:
        try:
            done = [
                subprocess.run([sys.executable, "-c", each], capture_output=True, text=True, timeout=30)
                for each in (agent, shares, output, artifacts, inputs, steps, ask)
            ]
        finally:
            working.terminate()
        assert working.wait(timeout=30) == 0
    assert done[0].stdout == "done {'greeting': 'Hello, Alan Turing!'}\n"
    assert done[2].stdout.splitlines()[-3:] == [
        "output ' other\\n'",
        "figures {'words': 5}",
        "log 'INFO written\\n'",
    ]
    assert done[3].stdout.splitlines() == [
        "100000",
        "notes.txt text/plain 13",
        "report.html text/html 22",
        "result.json application/json 800010",
        "<h1>Rows of today</h1>",
    ]
    assert done[4].stdout == "a.example has 3 words, b.example has 100000\n"
    assert done[5].stdout.splitlines() == [
        "fetches a.example",
        "counts",
        "words: 4",
        "fetch ['one', 'page', 'of', 'words'] by attempt 1",
        "count 4 by attempt 2",
    ]
    assert done[6].stdout.splitlines() == [
        "builds 1.4",
        "Deploy shop-1.4? ('yes', 'no')",
        "deployed shop-1.4",
        "work build shop-1.4",
        "answer deploy yes",
        "time settle None",
    ]
    assert done[1].stdout == "True {'greeting': 'Hello, report!'}\n0\n"
