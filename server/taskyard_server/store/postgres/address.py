"""Where a store in PostgreSQL is: what its URL says, without the password for people, and the hosts one by one.

What a URL leaves out, the environment says (`PGHOST`, `PGUSER`, `PGPASSWORD`, ...), as for all programs that use
PostgreSQL.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from taskyard_server.settings.store_url import shown_store_url

CONNECT_SECS: Final = 5.0
"""How long one host may take to answer; `connect_timeout` in the URL says otherwise."""
_ONLY_LIBPQ: Final = re.compile(
    r"connect_timeout|keepalives\w*|tcp_user_timeout|channel_binding|gssencmode|client_encoding|load_balance_hosts"
)
"""Parameters of URLs that others understand and asyncpg would send to the server, which refuses them."""
_SECRETS: Final = ("password", "sslpassword")


class PostgresAddress:
    """A checked `store.url` that begins with postgresql:// or postgres://. `urls` has one for each of its hosts."""

    def __init__(self, url: str) -> None:
        self.shown = shown_store_url(url)
        parts = urlsplit(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        given = dict(query)
        self.connect_secs = _secs(given.get("connect_timeout"))
        sent = urlencode([(name, value) for name, value in query if not _ONLY_LIBPQ.fullmatch(name)])
        user, at, hosts = parts.netloc.rpartition("@")
        self.urls = [
            f"{parts.scheme}://{user}{at}{host}{parts.path}{'?' if sent else ''}{sent}" for host in hosts.split(",")
        ]
        is_said = "target_session_attrs" in given or "PGTARGETSESSIONATTRS" in os.environ
        self.session_attrs = None if is_said else "read-write"
        self.server_settings = {} if "application_name" in given else {"application_name": "taskyard"}
        _, colon, password = user.partition(":")
        secrets = [unquote(password)] if colon else []
        secrets += [value for name, value in query if name in _SECRETS]
        secrets.append(os.environ.get("PGPASSWORD", ""))
        self._secrets = [secret for secret in secrets if len(secret) > 2]

    def without_secrets(self, text: str) -> str:
        """A text of others in one line, in which no password stands."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join(text.split())


def _secs(text: str | None) -> float:
    try:
        secs = float(text or 0)
    except ValueError:
        return CONNECT_SECS
    return secs if secs > 0 else CONNECT_SECS
