"""A small HTTP server that plays the instance of all tabs: it answers `POST /tabs/{tabId}/action`.

    python examples/tab_executor.py [PORT]

An action succeeds at once, except for two kinds. `wait` takes `ms` milliseconds. `fail` fails with `error`, and with
`code` and `retryable` where the action has them; its status is `status`, 422 by default.

With TASKYARD_EXECUTOR_TOKEN set, requests need that bearer token. The server takes the same variable.
"""

import argparse
import hmac
import json
import os
import re
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

ACTION = re.compile(r"/tabs/([^/]+)/action")
TOKEN = os.environ.get("TASKYARD_EXECUTOR_TOKEN", "")


class TabActions(BaseHTTPRequestHandler):
    """Answers an action with the action itself."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Run one action."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        path = ACTION.fullmatch(self.path)
        if not self._is_authorized():
            self._answer(HTTPStatus.UNAUTHORIZED, {"code": "unauthorized", "error": "wrong token", "retryable": False})
            return
        if path is None:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "no such route"})
            return
        action = json.loads(body)
        if action["kind"] == "fail":
            failure = {name: action[name] for name in ("code", "retryable") if name in action}
            answer = {"success": False, "error": action.get("error", "told to fail"), **failure}
            self._answer(action.get("status", HTTPStatus.UNPROCESSABLE_ENTITY), answer)
            return
        if action["kind"] == "wait":
            time.sleep(action["ms"] / 1000)
        self._answer(HTTPStatus.OK, {"success": True, "tab": unquote(path[1]), "action": action})

    def _is_authorized(self) -> bool:
        given = self.headers.get("authorization", "")
        return not TOKEN or hmac.compare_digest(given.encode(), f"Bearer {TOKEN}".encode())

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", nargs="?", type=int, default=9222, help="where to listen on loopback (%(default)s)")
    port = parser.parse_args().port
    with ThreadingHTTPServer(("127.0.0.1", port), TabActions) as server:
        print(f"tab actions are run at http://127.0.0.1:{port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
