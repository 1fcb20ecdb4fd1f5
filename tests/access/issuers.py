"""An issuer of JWTs for tests: keys of every kind, JWKS documents of them, and tokens, right and wrong ones.

issuer = Issuer()
token = issuer.token(sub="bob")                   # ES256, signed by `issuer.key`
jwts = issuer.jwts(tmp_path, [rule])              # a source of principals that knows it, its keys read
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

from taskyard_server.access.jwt import Jwts
from taskyard_server.settings.security import ClaimRule, GrantSettings, IssuerSettings

NAME = "https://issuer.example"
AUDIENCE = "taskyard"
NOW = 1_700_000_000.0
CURVES = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
ANYBODY = ClaimRule(claims={}, grants=[GrantSettings(role="viewer")])


class Clock:
    """A wall clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@cache
def private_key(algorithm: str, number: int = 0) -> Any:
    """A private key for an algorithm; those of different numbers differ."""
    del number
    if algorithm in CURVES:
        return ec.generate_private_key(CURVES[algorithm]())
    return ed25519.Ed25519PrivateKey.generate() if algorithm == "EdDSA" else rsa.generate_private_key(65_537, 2048)


def jwk_of(private: Any, **members: Any) -> dict[str, Any]:
    """The public half of a key as a JWKS lists it."""
    if isinstance(private, rsa.RSAPrivateKey):
        name = "RS256"
    else:
        name = "EdDSA" if isinstance(private, ed25519.Ed25519PrivateKey) else "ES256"
    public = get_default_algorithms()[name].to_jwk(private.public_key(), as_dict=True)
    return {**{key: value for key, value in public.items() if key != "key_ops"}, **members}


def key_set(*keys: Mapping[str, Any]) -> bytes:
    """A JWKS document."""
    return json.dumps({"keys": keys}).encode()


def encode(part: bytes | str | Mapping[str, Any]) -> str:
    """A part of a JWT."""
    data = part if isinstance(part, bytes) else (part if isinstance(part, str) else json.dumps(part)).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def sign(private: Any, header: Any, claims: Any, algorithm: str) -> str:
    """A JWT with any header and claims, signed as `algorithm` does whatever the header says."""
    signed = f"{encode(header)}.{encode(claims)}"
    signature = get_default_algorithms()[algorithm].sign(signed.encode(), private)
    return f"{signed}.{encode(signature)}"


class Issuer:
    """An issuer with one key, of the id `k1`."""

    def __init__(self, algorithm: str = "ES256", name: str = NAME, number: int = 0) -> None:
        self.algorithm = algorithm
        self.name = name
        self.key = private_key(algorithm, number)
        self.clock = Clock()

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Claims that hold, with changes; those that are `...` are left out."""
        now = self.clock.now
        claims = {"iss": self.name, "aud": AUDIENCE, "sub": "bob", "iat": now, "nbf": now, "exp": now + 600, **changes}
        return {name: value for name, value in claims.items() if value is not ...}

    def token(self, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A token with these claims and members of the header; those that are `...` are left out."""
        members = {"alg": self.algorithm, "kid": "k1", "typ": "JWT", **(header or {})}
        members = {name: value for name, value in members.items() if value is not ...}
        return sign(self.key, members, self.claims(**claims), self.algorithm)

    def jwk(self, **members: Any) -> dict[str, Any]:
        """Its key as a JWKS lists it."""
        return jwk_of(self.key, **{"kid": "k1", "alg": self.algorithm, **members})

    def settings(self, folder: Path, rules: Sequence[ClaimRule] = (ANYBODY,), **changes: Any) -> IssuerSettings:
        """It in the configuration, with its keys in a file that is there already or is written here."""
        path = folder / "jwks.json"
        if not path.exists():
            path.write_bytes(key_set(self.jwk()))
        values = {"issuer": self.name, "audience": AUDIENCE, "jwks": str(path), "rules": list(rules)}
        return IssuerSettings(**{**values, **changes})

    async def jwts(self, folder: Path, rules: Sequence[ClaimRule] = (ANYBODY,), **changes: Any) -> Jwts:
        """What knows its tokens, by its own clock."""
        jwts = Jwts(self.clock)
        jwts.reconfigure([self.settings(folder, rules, **changes)])
        await jwts.open()
        return jwts
