"""The parts of settings: the types of their values, and sections of keys."""

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    HttpUrl,
    PlainSerializer,
    SecretStr,
    SerializationInfo,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

MAX_PORT: Final = 65_535
MASK: Final = "**********"
"""The text that is shown of a secret."""
SCHEMES: Final = frozenset({"unix", "unix-abstract", "vsock", "dns", "ipv4", "ipv6", "xds", "passthrough"})
BEARER_TOKEN: Final = re.compile("[!-~]+")
PASSWORD: Final = re.compile(r"(?<=://)([^/?#:]*):[^/?#]*@")


def _refuse_boolean(value: Any) -> Any:
    # In Python `True` is an integer, so pydantic would take it for 1.
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "must be a number, not a boolean")
    return value


def _check_port(address: str) -> str:
    # grpc takes these for other kinds of addresses. Anyone who calls by a unix socket is taken for the gateway.
    if address.partition(":")[0].lower() in SCHEMES:
        raise ValueError("must be a host and a port")
    # A port that the system chooses is of no use: clients could not know it.
    if not 1 <= int(address.rpartition(":")[2]) <= MAX_PORT:
        raise ValueError(f"the port must be from 1 to {MAX_PORT}")
    return address


def _check_token(token: SecretStr) -> SecretStr:
    text = token.get_secret_value()
    # A line end would begin another header, and headers are ASCII.
    if not BEARER_TOKEN.fullmatch(text):
        raise PydanticCustomError("token", "must be visible ASCII characters, without spaces and line ends")
    if text == MASK:
        raise PydanticCustomError("token", "must be the token, not the mask that is shown in its place")
    return token


def expand_home(path: Path) -> Path:
    """A path without `~` at its beginning. Raises ValueError."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("no such home directory") from None


def is_here(host: str) -> bool:
    """True if a host of a URL is this machine by its address, or `localhost`."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def shown_url(url: object) -> str:
    """A URL with a mask in the place of its password."""
    return PASSWORD.sub(rf"\1:{MASK}@", str(url))


def _dump_url(url: HttpUrl, info: SerializationInfo) -> Any:
    return shown_url(url) if info.mode == "json" else url


def secret(value: SecretStr | None) -> str | None:
    """The secret itself."""
    return None if value is None else value.get_secret_value()


Integer = Annotated[int, BeforeValidator(_refuse_boolean)]
Float = Annotated[float, BeforeValidator(_refuse_boolean)]
PositiveInt = Annotated[Integer, Field(gt=0)]
Count = Annotated[Integer, Field(gt=0, lt=2**32)]
CountOrZero = Annotated[Integer, Field(ge=0, lt=2**32)]
PositiveSeconds = Annotated[Float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[Float, Field(ge=0, allow_inf_nan=False)]
HomePath = Annotated[Path, AfterValidator(expand_home)]
"""A path that may begin with `~`."""
Address = Annotated[str, Field(pattern=r"^[^:/\s]+:\d{1,5}$"), AfterValidator(_check_port)]
UrlWithPassword = Annotated[HttpUrl, PlainSerializer(_dump_url)]
"""A URL that may hold a user and a password, which is never shown."""
BearerToken = Annotated[SecretStr, AfterValidator(_check_token)]


class Section(BaseModel):
    """Keys are camelCase in files; unknown ones are errors."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)
