"""Makes the routes by which the gateway serves the console: gateway/console.html at /ui/, from Envoy's memory.

The page is one file. It is served with a policy that lets a browser run the scripts and styles of this file and no
others, as it is and compressed, and not again to who has it already.
"""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

PATH: Final = "/ui/"
PAGE: Final = "console.html"
INLINE: Final = re.compile(rb"<(script|style)(?:\s[^>]*)?>(.*?)</\1\s*>", re.DOTALL | re.IGNORECASE)
TAKES_GZIP: Final = r"(.*,)?\s*gzip\s*(;\s*[qQ]\s*=\s*(1(\.0*)?|0\.0*[1-9][0-9]*)\s*)?(,.*)?"
VERBS: Final = "GET, HEAD, OPTIONS"


class ConsolePage:
    """The page of a file, which is read once. Raises `OSError` if it cannot be."""

    def __init__(self, file: Path) -> None:
        self._page = file.read_bytes()

    @property
    def policy(self) -> str:
        """The content security policy: nothing but what is in the file, and calls to the gateway that it came from."""
        scripts, styles = ([f"'sha256-{_base64(text)}'" for text in self._inline(tag)] for tag in (b"script", b"style"))
        return "; ".join(
            (
                "default-src 'none'",
                f"script-src {' '.join(scripts) or _NONE}",
                f"style-src {' '.join(styles) or _NONE}",
                # An icon within the file, and previews of artifacts.
                "img-src data: blob:",
                "connect-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
            )
        )

    def routes(self, folder: Path) -> list[dict[str, Any]]:
        """Routes for envoy.yaml, whose bodies are written to `folder`. Raises `OSError`."""
        plain, packed = folder / PAGE, folder / f"{PAGE}.gz"
        plain.write_bytes(self._page)
        packed.write_bytes(gzip.compress(self._page, mtime=0))
        mark = sha256(self._page).hexdigest()[:32]
        shared = {
            "cache-control": "no-cache",
            "vary": "accept-encoding",
            "content-security-policy": self.policy,
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
        }
        html = {"content-type": "text/html; charset=utf-8"}
        gzipped = {**html, "content-encoding": "gzip", "etag": f'"{mark}-gzip"'}
        takes_gzip = _header("accept-encoding", TAKES_GZIP)
        has_it = _header("if-none-match", rf'\*|(.*,)?\s*(W/)?"{mark}(-gzip)?"\s*(,.*)?')
        asks_for_html = _header("accept", "(.*,)?\\s*text/html\\s*([;,].*)?")
        return [
            _route(PATH, [_READS, has_it], {"status": 304}, {"etag": f'"{mark}"', **shared}),
            _route(PATH, [_READS, takes_gzip], _file(packed), {**shared, **gzipped}),
            _route(PATH, [_READS], _file(plain), {**shared, **html, "etag": f'"{mark}"'}),
            _route(PATH, [_ASKS, _NO_PREFLIGHT], {"status": 204}, {"allow": VERBS}),
            # Relative, so that it is right behind a proxy too.
            _route(PATH.rstrip("/"), [_READS], {"status": 308}, {"location": PATH}),
            _route("/", [_READS, asks_for_html], {"status": 307}, {"location": PATH}),
        ]

    def _inline(self, tag: bytes) -> list[bytes]:
        return [found[2] for found in INLINE.finditer(self._page) if found[1].lower() == tag]


LINKS: Final = {"api": "/openapi.json", "tasks": "/tasks", "stats": "/scheduler/stats", "ready": "/readyz"}
_JSON: Final = {"content-type": "application/json"}
_NONE: Final = "'none'"
_READS: Final = {"name": ":method", "string_match": {"safe_regex": {"regex": "GET|HEAD"}}}
_ASKS: Final = {"name": ":method", "string_match": {"exact": "OPTIONS"}}
_NO_PREFLIGHT: Final = {"name": "access-control-request-method", "present_match": True, "invert_match": True}
_OFF: Final = {"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": True}
_FILTERS: Final = dict.fromkeys(("lua", "buffer", "strict_json", "transcoder"), _OFF)
"""None of these is about the page. That for CORS is, but it has nothing to say to answers of Envoy's own."""


def root_route(has_console: bool) -> dict[str, Any]:
    """The route of `/` for who is no browser: where things are."""
    links = {**({"console": PATH} if has_console else {}), **LINKS}
    return _route("/", [_READS], {"status": 200, "body": {"inline_string": json.dumps(links)}}, _JSON)


def _header(name: str, pattern: str) -> dict[str, Any]:
    return {"name": name, "string_match": {"safe_regex": {"regex": pattern}}}


def _file(path: Path) -> dict[str, Any]:
    return {"status": 200, "body": {"filename": str(path)}}


def _route(path: str, headers: list[dict[str, Any]], answer: dict[str, Any], shown: dict[str, str]) -> dict[str, Any]:
    return {
        "match": {"path": path, "headers": headers},
        "direct_response": answer,
        "response_headers_to_add": [
            # Envoy takes `%` for the beginning of a variable.
            {"header": {"key": key, "value": value.replace("%", "%%")}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
            for key, value in shown.items()
        ],
        # Envoy adds one of its own to each answer from 300 to 399.
        "response_headers_to_remove": [] if "location" in shown else ["location"],
        "typed_per_filter_config": _FILTERS,
    }


def _base64(text: bytes) -> str:
    return b64encode(sha256(text).digest()).decode()


def as_yaml(routes: list[dict[str, Any]], indent: int) -> str:
    """The routes as lines of a list in YAML."""
    return "".join(f"{' ' * indent}- {json.dumps(route)}\n" for route in routes)
