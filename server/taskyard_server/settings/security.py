"""The settings of who may do what, of encryption, and of the audit log (docs/operate/security.md)."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator
from pydantic_core import PydanticCustomError, Url

from .setting_types import BearerToken, Count, HomePath, PositiveSeconds, Section, expand_home, is_here

MIN_TOKEN_CHARS = 20

RoleWord = Literal["agent", "host", "viewer", "operator", "admin"]
Pattern = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^*\s]*\*?$")]
"""A name, or a beginning of names with `*` at its end."""
EVERY = ["*"]


class GrantSettings(Section):
    """A role, and what it is for. Names may end with `*`."""

    role: RoleWord = Field(description="`agent`, `host`, `viewer`, `operator` or `admin`.")
    namespaces: list[Pattern] = Field(default=EVERY, description="Namespaces in which it holds.")
    agents: list[Pattern] = Field(default=EVERY, description="Agents of the role `agent`.")
    hosts: list[Pattern] = Field(default=EVERY, description="Hosts of the role `host`.")
    projects: list[Pattern] = Field(default=EVERY, description="Projects that these hosts may serve.")
    actions: list[Pattern] = Field(default=EVERY, description="Actions that these hosts may run.")
    payloads: bool = Field(default=False, description="Whether a `viewer` is shown params and results.")


def is_url(text: str) -> bool:
    """True if this is a URL; else it is the path of a file."""
    return "://" in text


def _check_jwks_source(text: str) -> str:
    return _check_url(text, "a file, an https URL") if is_url(text) else str(expand_home(Path(text)))


def _check_url(text: str, kinds: str = "an https URL") -> str:
    try:
        url = Url(text)
    except ValueError:
        raise PydanticCustomError("url", "must be {kinds}", {"kinds": kinds}) from None
    if url.scheme != "https" and not (url.scheme == "http" and is_here(url.host or "")):
        raise PydanticCustomError("url", "must be {kinds}, or an http one on loopback", {"kinds": kinds})
    if url.username or url.password:
        raise PydanticCustomError("url", "must not hold a password, since it is shown")
    if url.fragment is not None:
        raise PydanticCustomError("url", "must not have a fragment")
    return text


SafeUrl = Annotated[str, AfterValidator(_check_url)]
"""An address that nobody on the way can change: an https URL, or an http one on loopback."""


class ClaimRule(Section):
    """Which JWTs of an issuer get which grants: those that have all of `claims`."""

    claims: dict[str, Annotated[str, Field(pattern=r"^[^*]*\*?$")]] = Field(
        description="Claims by name, each with its value; `*` at its end is any rest. `a.b` is the claim `b` within "
        "`a`. Of a list, one entry must have the value."
    )
    grants: list[GrantSettings] = Field(min_length=1, description="What they are granted.")


class SignInSettings(Section):
    """How people sign in to the console with an issuer: by the authorization code flow of OpenID Connect, with PKCE."""

    name: str = Field(min_length=1, max_length=100, description="What people call the issuer.")
    client_id: str = Field(min_length=1, max_length=512, description="The client that this server is there.")
    client_secret: BearerToken | None = Field(
        default=None, description="The secret of that client, if it has one. Never shown."
    )
    secret_in: Literal["header", "body"] = Field(
        default="header", description="How the secret is sent: by HTTP Basic, or in the form."
    )
    authorization_url: SafeUrl = Field(description="Where browsers are sent to sign in.")
    token_url: SafeUrl = Field(description="Where this server exchanges the code that they come back with.")
    scopes: str = Field(
        default="openid profile email",
        pattern=r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$",
        description="What to ask for, `openid` among it; `offline_access` is what many issuers renew tokens for.",
    )

    @field_validator("scopes")
    @classmethod
    def _has_openid(cls, scopes: str) -> str:
        if "openid" not in scopes.split():
            raise PydanticCustomError("scopes", "must have openid")
        return scopes


class IssuerSettings(Section):
    """An issuer of JWTs that are taken as credentials."""

    issuer: str = Field(min_length=1, description="The claim `iss` of its tokens.")
    audience: str = Field(min_length=1, description="What the claim `aud` of its tokens must hold.")
    jwks: Annotated[str, AfterValidator(_check_jwks_source)] = Field(
        min_length=1, description="Its keys: a file, or an https URL, in the format of JWKS."
    )
    rules: list[ClaimRule] = Field(default=[], description="Which of its tokens get which grants.")
    sign_in: SignInSettings | None = Field(
        default=None, description="How people sign in to the console with it, at most once for each issuer."
    )


class CertificateRule(Section):
    """Which client certificates get which grants: those with this URI as a subject alternative name."""

    uri: Annotated[str, Field(pattern=r"^spiffe://taskyard/[^*\s]*\*?$")] = Field(
        description="`spiffe://taskyard/...`; `*` at its end is any rest."
    )
    grants: list[GrantSettings] = Field(min_length=1, description="What they are granted.")


class LimitSettings(Section):
    """How much one principal may ask for."""

    requests_per_sec: PositiveSeconds | None = Field(default=None, description="Calls a second.")
    burst: Count | None = Field(default=None, description="Calls at once above that; default twice as many.")
    streams: Count | None = Field(default=None, description="Streams that are open at once.")


def _check_length(token: SecretStr) -> SecretStr:
    if len(token.get_secret_value()) < MIN_TOKEN_CHARS:
        raise PydanticCustomError("token", f"must have {MIN_TOKEN_CHARS} characters or more")
    return token


LongToken = Annotated[BearerToken, AfterValidator(_check_length)]
"""A token that cannot be guessed."""


class AuthSettings(Section):
    """Who may call. Authentication is on with `required`, or with any of `tls`, `auth.jwt` and `auth.adminToken`."""

    required: bool = Field(default=False, description="Whether every call needs a credential.")
    admin_token: LongToken | None = Field(
        default=None,
        description="A token with the role admin, of 20 characters or more, such as `openssl rand -hex 20` makes. "
        "Never shown.",
    )
    jwt: list[IssuerSettings] = Field(default=[], description="Issuers of JWTs that are taken as credentials.")
    certificates: list[CertificateRule] = Field(default=[], description="The grants of client certificates.")
    limits: dict[RoleWord, LimitSettings] = Field(
        default={}, description="How much one principal may ask for, by its strongest role."
    )

    @field_validator("jwt")
    @classmethod
    def _sign_in_once(cls, issuers: list[IssuerSettings]) -> list[IssuerSettings]:
        names = [each.issuer for each in issuers if each.sign_in is not None]
        if len(set(names)) < len(names):
            raise PydanticCustomError("sign_in", "must have signIn once for each issuer")
        return issuers

    def is_on(self, tls: "TlsSettings") -> bool:
        """True if a call needs a credential."""
        return self.required or self.admin_token is not None or bool(self.jwt) or tls.cert is not None


class TlsSettings(Section):
    """Encryption of the gRPC server. New files are in force for new connections without a restart."""

    cert: HomePath | None = Field(default=None, description="The certificate and its chain, as PEM.")
    key: HomePath | None = Field(default=None, description="Its private key, as PEM.")
    client_ca: HomePath | None = Field(
        default=None, description="The authorities of client certificates, as PEM; then every client needs one."
    )


class GatewayTlsSettings(Section):
    """Encryption of the gateway. New files are in force for new connections without a restart."""

    cert: HomePath | None = Field(default=None, description="The certificate and its chain, as PEM.")
    key: HomePath | None = Field(default=None, description="Its private key, as PEM.")
    client_ca: HomePath | None = Field(
        default=None, description="The authorities of client certificates, as PEM; clients may come without one."
    )


class AuditSettings(Section):
    """The audit log: who changed what by the role operator or admin (docs/operate/security.md, Audit)."""

    file: HomePath | None = Field(default=None, description="The file, of JSON lines. Without it nothing is written.")
    max_bytes: Annotated[int, Field(ge=65_536, lt=2**40)] = Field(
        default=10_485_760, description="Bytes after which the file is rotated: FILE becomes FILE.1."
    )
    backups: Annotated[int, Field(ge=1, le=1_000)] = Field(default=20, description="Rotated files that are kept.")
