"""The form of a token's secret, which the command line knows, too: it can tell one that is cut off."""

from string import ascii_letters, digits
from typing import Final
from zlib import crc32

PREFIX: Final = "tyd_"
BASE62: Final = digits + ascii_letters
RANDOM_CHARS: Final = 32
"""This many characters of 62 kinds are 190 bits, which nobody guesses."""
CHECKSUM_CHARS: Final = 6
SECRET_CHARS: Final = len(PREFIX) + RANDOM_CHARS + CHECKSUM_CHARS


def checksum(drawn: str) -> str:
    """The CRC-32 of the random characters, in base 62."""
    rest = crc32(drawn.encode())
    chars = ""
    for _ in range(CHECKSUM_CHARS):
        rest, digit = divmod(rest, len(BASE62))
        chars = BASE62[digit] + chars
    return chars


def is_whole(secret: str) -> bool:
    """True if this is a secret as they are made, with none of its characters lost or mistyped."""
    drawn, check = secret[len(PREFIX) : -CHECKSUM_CHARS], secret[-CHECKSUM_CHARS:]
    return (
        len(secret) == SECRET_CHARS
        and secret.startswith(PREFIX)
        and all(char in BASE62 for char in drawn)
        and check == checksum(drawn)
    )
