"""A service that refuses what is late: the token travels in a header, and the service keeps the highest."""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import ClassVar

import httpx


class Pages(BaseHTTPRequestHandler):
    """Keeps a body for each path, with the fencing token that it was written under."""

    kept: ClassVar[dict[str, tuple[int, bytes]]] = {}
    lock = Lock()

    def do_PUT(self):
        """Keep the body, unless one is there that was written under a higher token."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        token = int(self.headers["Fencing-Token"])
        with self.lock:
            is_late = token < self.kept.get(self.path, (0, b""))[0]
            if not is_late:
                self.kept[self.path] = token, body
        self.send_response(HTTPStatus.PRECONDITION_FAILED if is_late else HTTPStatus.NO_CONTENT)
        self.end_headers()

    def log_message(self, *_):
        """Say nothing."""


def put_page(service: httpx.Client, token: int, path: str, body: bytes) -> bool:
    """Put a page under a fencing token. False if a later task has put it."""
    answer = service.put(path, content=body, headers={"Fencing-Token": str(token)})
    if answer.status_code == HTTPStatus.PRECONDITION_FAILED:
        return False
    answer.raise_for_status()
    return True


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", 8080), Pages).serve_forever()
