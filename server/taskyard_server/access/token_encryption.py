"""Seals cursors and page tokens: they hold positions among the tasks of all agents, neither to be read nor made.

A sealed text opens only for what it was bound to: a listing or watch, its namespace, and the agents of the caller.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from taskyard_server.conversion.page_tokens import SEALED_MARK

SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 12
NONCE_BLOCK_BYTES: Final = 256 * NONCE_BYTES
PADDED_TO_CHARS: Final = 32
"""The length of a sealed text must not tell how many digits a number in it has."""
MAX_SEALED_CHARS: Final = 4_096


class TokenEncryption:
    """Seals texts by a secret of `SECRET_BYTES` or more. Without one what is sealed opens in this process alone."""

    def __init__(self, secret: bytes | None = None) -> None:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"taskyard cursors and page tokens")
        self._cipher = ChaCha20Poly1305(derived.derive(secret or os.urandom(SECRET_BYTES)))
        self._nonces = b""
        self._used = NONCE_BLOCK_BYTES

    def seal(self, text: str, bound_to: bytes) -> str:
        """A text that tells nothing, and that `open` opens for the same `bound_to`. The text may not end in spaces."""
        nonce = self._nonce()
        padded = text.ljust(-(-len(text) // PADDED_TO_CHARS) * PADDED_TO_CHARS).encode()
        return SEALED_MARK + urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, padded, bound_to)).decode().rstrip(
            "="
        )

    def open(self, sealed: str, bound_to: bytes) -> str | None:
        """The text that was sealed; None if this was not sealed here, or for something else."""
        if not sealed.startswith(SEALED_MARK) or len(sealed) > MAX_SEALED_CHARS:
            return None
        try:
            data = urlsafe_b64decode(sealed[len(SEALED_MARK) :] + "=" * (-(len(sealed) - len(SEALED_MARK)) % 4))
            return self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound_to).decode().rstrip(" ")
        except (InvalidTag, NotBase64, ValueError):
            return None

    def _nonce(self) -> bytes:
        begin = self._used
        if begin == NONCE_BLOCK_BYTES:
            self._nonces, begin = os.urandom(NONCE_BLOCK_BYTES), 0
        self._used = begin + NONCE_BYTES
        return self._nonces[begin : self._used]
