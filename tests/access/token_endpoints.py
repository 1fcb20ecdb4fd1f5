"""A small issuer on loopback, as people sign in with: its endpoints and its keys, served over HTTP by a thread.

with TokenEndpoint() as endpoint:
    code = endpoint.code(redirect_uri, nonce)     # as the browser brings it back
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from tests.access.issuers import Issuer, key_set

CLIENT = "the console"
SECRET = "the-secret-of-the+console%"
VERIFIER = "v" * 43
REDIRECT = "http://127.0.0.1:9867/ui/"
Answer = tuple[int, dict[str, Any] | bytes]


class Granted(NamedTuple):
    """What a code stands for."""

    challenge: str
    redirect_uri: str
    nonce: str


@dataclass
class TokenEndpoint:
    """Gives tokens for codes, each once. `answer` takes the place of all that, and `claims` change ID tokens."""

    issuer: Issuer = field(default_factory=Issuer)
    answer: Callable[[], Answer] | None = None
    claims: dict[str, Any] = field(default_factory=dict)
    keys: bytes | None = None
    access_token: str = "opaque"
    asked: list[dict[str, str]] = field(default_factory=list)
    _codes: dict[str, Granted] = field(default_factory=dict)
    _renewals: set[str] = field(default_factory=set)

    def __enter__(self) -> TokenEndpoint:
        self.issuer.clock.now = time.time()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                place = urlsplit(self.path)
                if place.path != "/authorize":
                    self._send(200, endpoint.keys or key_set(endpoint.issuer.jwk()))
                    return
                query = {name: values[0] for name, values in parse_qs(place.query).items()}
                self.send_response(302)
                self.send_header("location", endpoint.sent_back(query))
                self.send_header("content-length", "0")
                self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                endpoint.asked.append(form)
                status, answer = endpoint.respond(form, self.headers.get("authorization", ""))
                self._send(status, answer if isinstance(answer, bytes) else json.dumps(answer).encode())

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def settings(self, **changes: Any) -> dict[str, Any]:
        """It as `signIn` of an issuer."""
        return {
            "name": "The office",
            "clientId": CLIENT,
            "clientSecret": SECRET,
            "authorizationUrl": f"{self.url}/authorize",
            "tokenUrl": f"{self.url}/token",
            **changes,
        }

    def code(self, redirect_uri: str = REDIRECT, nonce: str = "n1", verifier: str = VERIFIER) -> str:
        """A code, as if somebody had signed in."""
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        return self.grant(Granted(challenge, redirect_uri, nonce))

    def grant(self, granted: Granted) -> str:
        """A code for somebody who has asked for it in this way."""
        code = secrets.token_urlsafe()
        self._codes[code] = granted
        return code

    def sent_back(self, query: dict[str, str]) -> str:
        """Where a browser is sent that came to sign in: there is one user, who always agrees."""
        assert (query["response_type"], query["client_id"], query["code_challenge_method"]) == ("code", CLIENT, "S256")
        code = secrets.token_urlsafe()
        self._codes[code] = Granted(query["code_challenge"], query["redirect_uri"], query["nonce"])
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def respond(self, form: dict[str, str], authorization: str) -> Answer:
        """What the token endpoint answers."""
        if self.answer is not None:
            return self.answer()
        kind, _, pair = authorization.partition(" ")
        client, _, sent = b64decode(pair).decode().partition(":") if kind == "Basic" else ("", "", "")
        if (unquote_plus(client), unquote_plus(sent)) != (CLIENT, SECRET) and (
            form.get("client_id"),
            form.get("client_secret"),
        ) != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self._renewals:
                return 400, {"error": "invalid_grant"}
            self._renewals.remove(form["refresh_token"])
            return 200, self._tokens(None)
        granted = self._codes.pop(form["code"], None)
        challenge = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        if granted is None or (granted.challenge, granted.redirect_uri) != (challenge, form["redirect_uri"]):
            return 400, {"error": "invalid_grant", "error_description": f"secret detail {SECRET}"}
        return 200, self._tokens(granted.nonce)

    def _tokens(self, nonce: str | None) -> dict[str, Any]:
        renewal = secrets.token_urlsafe()
        self._renewals.add(renewal)
        claims = {"aud": CLIENT, **({} if nonce is None else {"nonce": nonce}), **self.claims}
        return {
            "id_token": self.issuer.token(**claims),
            "access_token": self.access_token,
            "refresh_token": renewal,
            "token_type": "Bearer",
        }
