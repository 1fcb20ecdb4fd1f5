"""Codecs of payloads: what clients and hosts make of inputs and outputs before these leave the process.

With a codec the server, its store, REST, the console and clients without the codec see bytes and the codec's name only.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

MISSING_EXTRA: Final = "FernetCodec needs the package cryptography: pip install 'taskyard[fernet]'"


class FernetCodec:
    """Encrypts inputs and outputs with Fernet: AES in CBC mode, authenticated by HMAC, and stamped with the time.

    Keys are changed without a stop: first every process gets the new key behind the old one, then the new key first,
    and once no task of the old key is left, the old one is dropped.

    `FernetCodec.new_key()` makes a key. Anyone who has one reads everything, so keep it where secrets are kept.

    Args:
        key: The key that encrypts, 32 bytes in URL-safe base64.
        name: The name of the codec on the wire. Default `fernet`.
        *older: Further keys that decrypt.

    Raises:
        ValueError: A key is malformed.
        ImportError: The package `cryptography` is missing, the extra `fernet` of Taskyard.
    """

    def __init__(self, key: str | bytes, *older: str | bytes, name: str = "fernet") -> None:
        try:
            from cryptography.fernet import Fernet, MultiFernet
        except ImportError as error:
            raise ImportError(MISSING_EXTRA) from error
        self._keys = (key, *older)
        self._name = name
        ciphers = []
        for number, each in enumerate(self._keys):
            try:
                ciphers.append(Fernet(each))
            except (TypeError, ValueError):
                # Without the key itself, which does not belong into logs.
                raise ValueError(f"key {number + 1} is no Fernet key: it is 32 bytes in URL-safe base64") from None
        self._cipher = MultiFernet(ciphers)

    def __repr__(self) -> str:
        return f"FernetCodec({len(self._keys)} keys, name={self._name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        # As its host makes it again in worker processes.
        return _again, (self._keys, self._name)

    @staticmethod
    def new_key() -> str:
        """Make a new key.

        Returns:
            The key.

        Raises:
            ImportError: The package `cryptography` is missing.
        """
        try:
            from cryptography.fernet import Fernet
        except ImportError as error:
            raise ImportError(MISSING_EXTRA) from error
        return Fernet.generate_key().decode()

    @property
    def name(self) -> str:
        """The name that stands on the wire."""
        return self._name

    def encode(self, data: bytes, /) -> bytes:
        """Encrypt the JSON of a value.

        Args:
            data: The JSON.

        Returns:
            The token of Fernet, without its base64.
        """
        return urlsafe_b64decode(self._cipher.encrypt(data))

    def decode(self, data: bytes, /) -> bytes:
        """Decrypt what was encrypted with one of the keys.

        Args:
            data: What `encode` has returned.

        Returns:
            The JSON.

        Raises:
            ValueError: None of the keys fits, or the bytes were changed.
        """
        from cryptography.fernet import InvalidToken

        try:
            return self._cipher.decrypt(urlsafe_b64encode(data))
        except InvalidToken:
            raise ValueError(f"none of {len(self._keys)} keys fits, or it was changed on its way") from None


def _again(keys: tuple[str | bytes, ...], name: str) -> FernetCodec:
    return FernetCodec(*keys, name=name)
