"""A small HTTP server in the role of the instance that owns the tabs: it answers `POST /tabs/{tabId}/action`.

    python examples/tab_executor.py [PORT]

Actions succeed at once, except for two kinds: `wait` takes `ms` milliseconds, `fail` is answered with 422.
"""

import json
import re
import sys
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

ACTION = re.compile(r"/tabs/([^/]+)/action")


class TabActions(BaseHTTPRequestHandler):
    """Answers each action with the action itself."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Run one action."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = ACTION.fullmatch(self.path)
        if path is None:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "no such route"})
            return
        action = json.loads(body)
        if action["kind"] == "fail":
            self._answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": action.get("error", "told to fail")})
            return
        if action["kind"] == "wait":
            time.sleep(action["ms"] / 1000)
        self._answer(HTTPStatus.OK, {"success": True, "tab": unquote(path[1]), "action": action})

    def _answer(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until Ctrl-C."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 9222
    with ThreadingHTTPServer(("127.0.0.1", port), TabActions) as server:
        print(f"tab actions are run at http://127.0.0.1:{port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
