"""The public keys of an issuer of JWTs, as a JWKS document lists them. A signature fits one key and one algorithm.

What a token says of keys beyond the `kid` of one in the set (`jku`, `x5u`, `jwk`) is never looked at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import structlog
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt.algorithms import Algorithm, ECAlgorithm, OKPAlgorithm, RSAAlgorithm, RSAPSSAlgorithm
from jwt.exceptions import PyJWTError

log = structlog.get_logger(__name__)

MAX_BYTES: Final = 262_144
MAX_KEYS: Final = 200
MAX_KID_CHARS: Final = 512
LEAST_RSA_BITS: Final = 2048
MOST_RSA_BITS: Final = 8192
USES: Final = (None, "sig", "jwt-svid")
"""`use` of keys that sign; `jwt-svid` is SPIFFE's."""

RSA_ALGORITHMS: Final[Mapping[str, Algorithm]] = {
    "RS256": RSAAlgorithm(RSAAlgorithm.SHA256),
    "RS384": RSAAlgorithm(RSAAlgorithm.SHA384),
    "RS512": RSAAlgorithm(RSAAlgorithm.SHA512),
    "PS256": RSAPSSAlgorithm(RSAPSSAlgorithm.SHA256),
    "PS384": RSAPSSAlgorithm(RSAPSSAlgorithm.SHA384),
    "PS512": RSAPSSAlgorithm(RSAPSSAlgorithm.SHA512),
}
"""By the `alg` of a key; one that names none is for RS256."""
EC_ALGORITHMS: Final[Mapping[str, tuple[str, Algorithm]]] = {
    "P-256": ("ES256", ECAlgorithm(ECAlgorithm.SHA256)),
    "P-384": ("ES384", ECAlgorithm(ECAlgorithm.SHA384)),
    "P-521": ("ES512", ECAlgorithm(ECAlgorithm.SHA512)),
}
EDDSA: Final = "EdDSA"
MEMBERS: Final = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""The members of public keys. No other is read, least of all those of private ones."""


class KeySetError(Exception):
    """A text that is no key set; it is a part of a line."""


class _UnusableKey(Exception):
    pass


class VerificationKey:
    """A public key and the one algorithm that it is for."""

    __slots__ = ("_key", "_verifier", "algorithm")

    def __init__(self, algorithm: str, verifier: Algorithm, key: Any) -> None:
        self.algorithm = algorithm
        self._verifier = verifier
        self._key = key

    def verifies(self, signed: bytes, signature: bytes) -> bool:
        """True if this key made the signature."""
        return self._verifier.verify(signed, self._key, signature)


class KeySet:
    """Keys by `kid` and algorithm."""

    def __init__(self, keys: Mapping[tuple[str | None, str], VerificationKey]) -> None:
        self._keys = keys
        self._kids = frozenset(kid for kid, _ in keys)

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, kid: str) -> bool:
        """True if a key has this `kid`."""
        return kid in self._kids

    def find(self, kid: str | None, algorithm: str) -> VerificationKey | None:
        """The key of this `kid` if it is for this algorithm. Without `kid`, the only key that is."""
        if kid is not None:
            return self._keys.get((kid, algorithm))
        fitting = [key for (_, name), key in self._keys.items() if name == algorithm]
        return fitting[0] if len(fitting) == 1 else None


NO_KEYS: Final = KeySet({})


def read_key_set(document: bytes, location: str) -> KeySet:
    """The usable keys of the JWKS document at a location; the others are logged. Raises `KeySetError`."""
    if len(document) > MAX_BYTES:
        raise KeySetError(f"is longer than {MAX_BYTES} bytes")
    try:
        listed = json.loads(document)["keys"]
    except (ValueError, RecursionError, KeyError, TypeError):
        listed = None
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise KeySetError(f"is not a JWKS document: an object with up to {MAX_KEYS} `keys`")
    keys: dict[tuple[str | None, str], VerificationKey] = {}
    for number, jwk in enumerate(listed):
        try:
            kid, key = _key_of(jwk)
            if (kid, key.algorithm) in keys:
                raise _UnusableKey("another key has the same `kid`")
        except _UnusableKey as problem:
            log.warning("key_not_used", place=location, number=number, reason=str(problem))
        else:
            keys[kid, key.algorithm] = key
    return KeySet(keys)


def _key_of(jwk: Any) -> tuple[str | None, VerificationKey]:
    if not isinstance(jwk, dict):
        raise _UnusableKey("it is not an object")
    kid = jwk.get("kid")
    if kid is not None and (not isinstance(kid, str) or len(kid) > MAX_KID_CHARS):
        raise _UnusableKey(f"its `kid` is not a text of up to {MAX_KID_CHARS} characters")
    operations = jwk.get("key_ops", ["verify"])
    if jwk.get("use") not in USES or not isinstance(operations, list) or "verify" not in operations:
        raise _UnusableKey("it is not for signatures")
    algorithm, verifier = _algorithm_of(jwk)
    public = {member: jwk.get(member) for member in ("kty", *MEMBERS[jwk["kty"]])}
    if not all(isinstance(value, str) for value in public.values()):
        raise _UnusableKey("it lacks a part")
    try:
        key = verifier.from_jwk(public)
    except (PyJWTError, ValueError, UnsupportedAlgorithm):
        raise _UnusableKey("it is broken") from None
    if isinstance(key, RSAPublicKey) and not LEAST_RSA_BITS <= key.key_size <= MOST_RSA_BITS:
        raise _UnusableKey(f"it has fewer than {LEAST_RSA_BITS} or more than {MOST_RSA_BITS} bits")
    return kid, VerificationKey(algorithm, verifier, key)


def _algorithm_of(jwk: Mapping[str, Any]) -> tuple[str, Algorithm]:
    """The one algorithm that a key is for, by its type, its curve and its `alg`."""
    kind, curve, named = jwk.get("kty"), jwk.get("crv"), jwk.get("alg")
    if not isinstance(named, str | None):
        raise _UnusableKey("its `alg` is not a text")
    if kind == "RSA":
        name = named or "RS256"
        found = (name, RSA_ALGORITHMS[name]) if name in RSA_ALGORITHMS else None
    elif kind == "EC":
        found = EC_ALGORITHMS.get(curve) if isinstance(curve, str) else None
        if found is not None and named not in (None, found[0]):
            found = None
    elif kind == "OKP" and curve == "Ed25519" and named in (None, EDDSA, "Ed25519"):
        found = (EDDSA, OKPAlgorithm())
    else:
        found = None
    if found is None:
        raise _UnusableKey("it is not for an algorithm that is known: RS, PS, ES with its own curve, or EdDSA")
    return found
