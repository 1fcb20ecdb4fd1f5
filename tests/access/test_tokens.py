"""The secrets of tokens, and what is kept of a token (docs/operate/security.md, What is kept)."""

import re

from taskyard_server.access.grants import Grant, Role
from taskyard_server.access.token_text import BASE62, checksum, is_whole
from taskyard_server.access.tokens import Token, digest_of, encode_token, new_id, new_secret, token_of
from taskyard_server.core.names import EVERY_NAME, names
from tests.cases import every_case

RECORD = (
    "99a5746f6b5f31c406646967657374a46e616d6593970192a764656661756c74a46f70732a91a3616e6e91a12a91a12a91a12ac2970291"
    "a12a91a12a91a2682a91a17091a161c2970391a12a91a12a91a12a91a12a91a12ac3cb3ff0000000000000a56c6f63616ccb4000000000"
    "000000cb4008000000000000cb4010000000000000"
)
FULL = Token(
    number=3,
    id="tok_1",
    digest=b"digest",
    name="name",
    grants=(
        Grant(role=Role.AGENT, namespaces=names(["default", "ops*"]), agents=names(["ann"])),
        Grant(role=Role.HOST, hosts=names(["h*"]), projects=names(["p"]), actions=names(["a"])),
        Grant(role=Role.VIEWER, payloads=True),
    ),
    created_at=1.0,
    created_by="local",
    expires_at=2.0,
    last_used_at=3.0,
    revoked_at=4.0,
)


def fields(token: Token) -> dict[str, object]:
    return {name: getattr(token, name) for name in Token.__dataclass_fields__}


def test_a_secret_has_its_prefix_its_random_characters_and_their_checksum() -> None:
    secret = new_secret()
    assert re.fullmatch(r"tyd_[0-9A-Za-z]{38}", secret)
    assert checksum(secret[4:36]) == secret[36:]
    assert is_whole(secret)


def test_no_two_secrets_or_ids_are_the_same() -> None:
    assert len({new_secret() for _ in range(1_000)}) == len({new_id() for _ in range(1_000)}) == 1_000


def test_every_character_of_base_62_is_drawn() -> None:
    assert set("".join(new_secret()[4:36] for _ in range(200))) == set(BASE62)


@every_case("place", range(4, 42))
def test_a_secret_with_one_wrong_character_is_not_whole(place: int) -> None:
    secret = new_secret()
    other = "a" if secret[place] != "a" else "b"
    assert not is_whole(secret[:place] + other + secret[place + 1 :])


@every_case("secret", ["", "tyd_", "tyd_" + "0" * 37, "tyx_" + "0" * 38, "tyd_" + "ä" * 38])
def test_what_is_no_secret_is_not_whole(secret: str) -> None:
    assert not is_whole(secret)


def test_a_token_is_read_as_it_was_written() -> None:
    assert fields(token_of(3, encode_token(FULL))) == fields(FULL)


def test_a_token_of_version_one_is_read() -> None:
    """Fields of records are only appended: this one stays as it is, for good."""
    assert fields(token_of(3, bytes.fromhex(RECORD))) == fields(FULL)


def test_the_times_of_a_token_are_moved_together() -> None:
    token = token_of(3, encode_token(FULL), shift=10.0)
    assert (token.created_at, token.expires_at, token.last_used_at, token.revoked_at) == (11.0, 12.0, 13.0, 14.0)


def test_the_secret_is_not_in_the_record() -> None:
    secret = new_secret()
    token = Token(number=1, id="tok_1", digest=digest_of(secret), name="n", grants=(), created_at=0.0, created_by="x")
    assert secret.encode() not in encode_token(token)
    assert secret not in repr(token)


def test_a_token_holds_until_it_expires_or_is_revoked() -> None:
    token = Token(number=1, id="t", digest=b"", name="n", grants=(), created_at=0.0, created_by="x", expires_at=5.0)
    assert token.holds(4.999)
    assert not token.holds(5.0)
    token.revoked_at = 1.0
    assert not token.holds(0.0)


def test_a_grant_without_a_list_covers_every_name() -> None:
    token = token_of(3, encode_token(FULL))
    assert token.grants[1].namespaces == EVERY_NAME
