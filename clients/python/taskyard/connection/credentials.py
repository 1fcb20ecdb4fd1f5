"""How a caller reaches its server and shows who it is: found in arguments, the environment and a profile.

`find_credentials` is used by the clients, by hosts and by the command line (docs/rules.md, Credentials of callers).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypedDict

from .addresses import HTTPS, WITH_SCHEME, is_local, split_addresses
from .profiles import Profile, find_profile
from .tls import TlsFiles
from .tokens import FileToken, FixedToken, Token

if TYPE_CHECKING:
    import grpc

DEFAULT_ADDRESS: Final = "127.0.0.1:50051"
DEFAULT_NAMESPACE: Final = "default"
NAMESPACE_KEY: Final = "taskyard-namespace"
AUTHORIZATION_KEY: Final = "authorization"
PREFIX: Final = "TASKYARD_"
PARTS: Final = ("address", "namespace", "token", "token_file", "ca", "cert", "key")
"""The arguments that each source may set, under these names."""
WHO: Final = ("token", "token_file", "cert", "key")
"""The credentials of the caller."""

NOTHING: Final = "nothing"

Metadata = tuple[tuple[str, str], ...]
Addresses: TypeAlias = "str | Sequence[str] | None"
"""Where servers listen: one address, several in one text separated by commas, or several texts."""


class CredentialOptions(TypedDict, total=False):
    """Options of a program for how it reaches its server. What it leaves out is looked for elsewhere.

    Attributes:
        credentials: Credentials of gRPC that encrypt the connection, in place of `ca`, `cert` and `key`.
        token: A bearer token, sent with every call. An empty text means none at all.
        token_file: The path of a file with such a token, which is read anew when it changes.
        ca: The path of the certificates, in PEM, of which one signed the server's. With it the connection is encrypted.
        cert: The path of a client certificate, in PEM, for a server that asks for one.
        key: The path of the private key of `cert`.
        profile: The name of a profile in `~/.config/taskyard/config.toml`. It goes before the environment.
        insecure: Whether a token may be sent in the clear to another machine.
    """

    credentials: grpc.ChannelCredentials | None
    token: str | None
    token_file: str | os.PathLike[str] | None
    ca: str | os.PathLike[str] | None
    cert: str | os.PathLike[str] | None
    key: str | os.PathLike[str] | None
    profile: str | None
    insecure: bool


@dataclass(frozen=True, slots=True)
class Spelling:
    """How messages name arguments.

    Attributes:
        before: What stands before a name.
        after: What stands after it, where the message says what to give.
        joint: What stands in place of an underscore.
        address: The name of the argument for the address.
    """

    before: str
    after: str
    joint: str
    address: str

    def name(self, argument: str) -> str:
        """Name an argument.

        Args:
            argument: The argument.

        Returns:
            Its name for the one who gave it.
        """
        return self.before + (self.address if argument == "address" else argument.replace("_", self.joint))

    def given(self, argument: str) -> str:
        """Name an argument as it is written where it is given.

        Args:
            argument: The argument.

        Returns:
            Its name, such as `ca=` or `--ca`.
        """
        return self.name(argument) + self.after


IN_PYTHON: Final = Spelling("", "=", "_", "address")
AT_THE_TERMINAL: Final = Spelling("--", "", "-", "server")


class Credentials:
    """Where a server is, and how a caller shows who it is. It is never shown with its secrets.

    Attributes:
        address: The addresses of the servers as one text, separated by commas, without `https://`.
        addresses: The same, each a target for gRPC.
        namespace: The namespace to act in.
        token: The bearer token, or None.
        tls: The files of an encrypted connection, or None.
        spelling: How messages name arguments.

    Args:
        address: One address or several separated by commas, with or without `https://`.
        namespace: The namespace to act in.
        token: The bearer token, or None.
        tls: The files of an encrypted connection, or None.
        channel_credentials: Credentials of gRPC, in place of `tls`. Default none.
        insecure: Whether the token may be sent in the clear to another machine. Default False.
        spelling: How messages name arguments. Default as Python does.

    Raises:
        ValueError: The address or the namespace is malformed, or the token would be sent in the clear.
    """

    def __init__(
        self,
        address: str,
        namespace: str = DEFAULT_NAMESPACE,
        token: Token | None = None,
        tls: TlsFiles | None = None,
        channel_credentials: grpc.ChannelCredentials | None = None,
        insecure: bool = False,
        spelling: Spelling = IN_PYTHON,
    ) -> None:
        try:
            self.addresses, with_https = split_addresses(address)
        except ValueError as error:
            raise ValueError(f"{spelling.name('address')}: {error}") from None
        self.address = ",".join(self.addresses)
        self.namespace = namespace
        self.token = token
        self.spelling = spelling
        if not (namespace.isascii() and namespace.isprintable()):
            raise ValueError(f"{spelling.name('namespace')}: must be printable ASCII, on one line")
        self.tls = TlsFiles() if tls is None and with_https and channel_credentials is None else tls
        self._channel_credentials = channel_credentials
        self._namespace_alone: Metadata = ((NAMESPACE_KEY, namespace),)
        self._with_token: Metadata = ()
        self._sent_token: str | None = None
        remote = next((each for each in self.addresses if not is_local(each)), None)
        if token is not None and not self.is_encrypted and not insecure and remote is not None:
            raise ValueError(
                f"{spelling.name('address')}: {token.origin} is not sent in the clear to {remote}: encrypt the "
                f"connection ({self.address_with_tls} or {spelling.given('ca')}), or allow it by "
                f"{'insecure=True' if spelling is IN_PYTHON else spelling.name('insecure')}"
            )

    def __repr__(self) -> str:
        return f"Credentials({self.address!r}, {self.namespace!r}: {self.tried})"

    @property
    def is_encrypted(self) -> bool:
        """True if the connection is encrypted."""
        return self.tls is not None or self._channel_credentials is not None

    @property
    def address_with_tls(self) -> str:
        """How to write the addresses of the same servers with TLS."""
        return HTTPS + ("HOST:PORT" if any(map(WITH_SCHEME.fullmatch, self.addresses)) else self.address)

    @property
    def tried(self) -> str:
        """The ways in which the caller shows who it is, for people; never what is sent."""
        ways = [] if self.token is None else [self.token.origin]
        if self.tls is not None and self.tls.cert:
            ways.append(f"the client certificate {self.tls.cert}")
        return " and ".join(ways) or NOTHING

    def metadata(self) -> Metadata:
        """Build what is sent with a call or stream that begins now.

        Returns:
            The metadata of gRPC.
        """
        if self.token is None:
            return self._namespace_alone
        token = self.token.current()
        if token != self._sent_token:
            self._sent_token = token
            bearer = ((AUTHORIZATION_KEY, f"Bearer {token}"),) if token else ()
            self._with_token = (*self._namespace_alone, *bearer)
        return self._with_token

    def changed_since(self, sent: Metadata) -> bool:
        """Read a token file anew after a refusal.

        Args:
            sent: What was sent with the refused call.

        Returns:
            Whether another try would send something else.
        """
        if self.token is None or not self.token.may_change:
            return False
        self.token.reread()
        return self.metadata() != sent

    def for_channel(self) -> grpc.ChannelCredentials | None:
        """Build the credentials of a channel that is opened now. Files are read anew.

        Returns:
            The credentials, None for a connection that is not encrypted.

        Raises:
            ValueError: A file cannot be read, or does not hold what it should.
        """
        return self._channel_credentials or (self.tls.credentials() if self.tls is not None else None)

    def check_files(self) -> None:
        """Check the files of an encrypted connection, without gRPC, so that a process may be forked afterwards.

        Raises:
            ValueError: A file cannot be read, or does not hold what it should.
        """
        if self.tls is not None:
            self.tls.check()


class Renewal:
    """The rule by which a refused stream is worth another try.

    The server ends a stream so when its token has expired, which may be renewed in its file, or has other grants now.

    Args:
        credentials: The credentials of the stream.
    """

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._has_worked = False

    def worked(self) -> None:
        """Note that the server took the credentials."""
        self._has_worked = True

    def is_worth_it(self, sent: Metadata) -> bool:
        """Read the token file anew after a stream ended as `unauthenticated`.

        Args:
            sent: What was sent with the stream.

        Returns:
            Whether to try again: the token has changed, or the credentials have worked. Each success is good for one
            more try.
        """
        has_worked, self._has_worked = self._has_worked, False
        return self._credentials.changed_since(sent) or has_worked


def find_credentials(
    address: Addresses = None,
    namespace: str | None = None,
    *,
    credentials: grpc.ChannelCredentials | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    ca: str | os.PathLike[str] | None = None,
    cert: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    profile: str | None = None,
    insecure: bool = False,
    environment: Mapping[str, str] | None = None,
    spelling: Spelling = IN_PYTHON,
) -> Credentials:
    """Find out how to reach the server.

    Each part comes from arguments, else from a profile that an argument names, else from the environment, else from the
    profile that the environment names, else from the default profile. So that no token reaches another server than its
    own, the default profile counts only where neither arguments nor environment give an address, and the environment
    shows nobody who the caller is beside a profile that an argument names and that does.

    Args:
        address: Where the server listens, or several servers that do the same work do, of which any will do. Default
            TASKYARD_ADDRESS, that of the profile, or `127.0.0.1:50051`.
        namespace: The namespace to act in. Default TASKYARD_NAMESPACE, that of the profile, or `default`.
        credentials: Credentials of gRPC that encrypt the connection. Default none.
        token: A bearer token; an empty text means none at all. Default TASKYARD_TOKEN, or that of the profile.
        token_file: The path of a file with a token. Default TASKYARD_TOKEN_FILE, or that of the profile.
        ca: The path of the certificates that may sign the server's. Default TASKYARD_CA, or that of the profile.
        cert: The path of a client certificate. Default TASKYARD_CERT, or that of the profile.
        key: The path of its key. Default TASKYARD_KEY, or that of the profile.
        profile: The name of a profile. Default TASKYARD_PROFILE, or the default of the file of profiles.
        insecure: Whether a token may be sent in the clear to another machine. Default False.
        environment: The environment variables. Default those of the process.
        spelling: How messages name arguments. Default as Python does.

    Returns:
        The credentials.

    Raises:
        ValueError: The address, the namespace or a token is malformed, a file cannot be read, two arguments exclude one
            another, or the token would be sent in the clear to another machine. No text shows a secret.
    """
    variables = os.environ if environment is None else environment
    place_given = address if address is None or isinstance(address, str) else ",".join(address)
    arguments = (place_given, namespace, token, token_file, ca, cert, key)
    given = {name: os.fspath(value) for name, value in zip(PARTS, arguments, strict=True) if value is not None}
    if credentials is not None and (both := [name for name in ("ca", "cert", "key") if name in given]):
        raise ValueError(f"{spelling.name('credentials')}: stand in place of {spelling.name(both[0])}, not beside it")
    set_names = {name: value for name in PARTS if (value := variables.get(_variable(name)))}
    sources = [_Source(given, spelling.name, spelling.given), _Source(set_names, _variable, _variable)]
    if (chosen := profile or variables.get(PREFIX + "PROFILE") or None) is not None:
        named = _source_of(find_profile(chosen, variables))
        if profile:
            # It was asked for, and the environment happens to be so.
            left = {} if any(name in named.values for name in WHO) else set_names
            rest = {name: value for name, value in set_names.items() if name not in WHO} | left
            sources[1:] = [named, _Source(rest, _variable, _variable)]
        else:
            sources.append(named)
    elif not any("address" in source.values for source in sources):
        sources.append(_source_of(find_profile(None, variables)))
    place = _first(sources, "address")
    space = _first(sources, "namespace")
    tls = None if credentials is not None else _tls(sources, spelling)
    return Credentials(
        place.values["address"] if place else DEFAULT_ADDRESS,
        space.values["namespace"] if space else DEFAULT_NAMESPACE,
        _token(sources),
        tls,
        credentials,
        insecure,
        spelling,
    )


@dataclass(frozen=True, slots=True)
class _Source:
    """The settings of one place, by argument; how messages name what it says, and how it is written there."""

    values: Mapping[str, str]
    name: Callable[[str], str]
    written: Callable[[str], str]


def _source_of(profile: Profile | None) -> _Source:
    if profile is None:
        return _Source({}, str, str)
    values = {name: value for name in PARTS if (value := getattr(profile, name)) is not None}
    return _Source(values, lambda name: f"profiles.{profile.name}.{name}", lambda _: f"the profile {profile.name}")


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _first(sources: Sequence[_Source], *names: str) -> _Source | None:
    """The first source that says any of these."""
    return next((source for source in sources if any(name in source.values for name in names)), None)


def _token(sources: Sequence[_Source]) -> Token | None:
    source = _first(sources, "token", "token_file")
    if source is None:
        return None
    if source.values.get("token") == "" and "token_file" not in source.values:
        return None
    if source.values.get("token") and "token_file" in source.values:
        raise ValueError(f"{source.name('token')} and {source.name('token_file')}: one of them, not both")
    name = "token" if source.values.get("token") else "token_file"
    value = source.values[name]
    try:
        if name == "token":
            return FixedToken(value, f"the token given by {source.written('token')}")
        return FileToken(value, f"the token in the file {value} given by {source.written('token_file')}")
    except ValueError as error:
        raise ValueError(f"{source.name(name)}: {error}") from None


def _tls(sources: Sequence[_Source], spelling: Spelling) -> TlsFiles | None:
    authority, pair = _first(sources, "ca"), _first(sources, "cert", "key")
    if authority is None and pair is None:
        return None
    found = {
        name: source.values.get(name, "")
        for source, name in ((authority, "ca"), (pair, "cert"), (pair, "key"))
        if source
    }
    try:
        return TlsFiles(**found)
    except ValueError as error:
        raise ValueError(f"{spelling.before}{error}") from None
