"""The files of certificates that the tab executor shows to `executor`, and trusts there."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskyard_server.net.file_marks import FileMark, marks_of

NO_PASSWORD: Final = ""
"""Without one OpenSSL would ask the terminal for it."""


class TlsFilesError(Exception):
    """The files cannot be used; the text is one line that names the setting and the file."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The files that the settings `executorCa`, `executorCert` and `executorKey` name."""

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def context(self) -> ssl.SSLContext:
        """The TLS context of connections. Raises `TlsFilesError`."""
        if (self.cert is None) is not (self.key is None):
            missing = "executorCert" if self.cert is None else "executorKey"
            raise TlsFilesError(f"{missing}: is missing; the two go together")
        if self.ca is None:
            import httpx  # which takes long, and a server without these settings goes without

            context = httpx.create_ssl_context(trust_env=False)
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                context.load_verify_locations(self.ca)
            except OSError as error:
                raise TlsFilesError(f"executorCa: {self.ca}: {_reason(error)}") from None
        if self.cert is not None and self.key is not None:
            try:
                context.load_cert_chain(self.cert, self.key, NO_PASSWORD)
            except OSError as error:
                raise TlsFilesError(f"executorCert: {self.cert} with {self.key}: {_reason(error)}") from None
        return context

    def marks(self) -> list[FileMark | None]:
        """A mark that differs once one of the files has changed."""
        return marks_of((self.ca, self.cert, self.key))


def _reason(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return "holds no certificate or key in PEM that can be used, or they do not fit together"
    return (error.strerror or "cannot be read").lower()
