"""The settings of pages that browsers show: the console, and which others may call the gateway."""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from .setting_types import Section, is_here

CONSOLE_URL: Final = re.compile(r"(https?)://(\[[0-9a-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?/ui/")

ORIGIN: Final = re.compile(
    r"\*|(?!https:.*:443$|http:.*:80$)[a-z][a-z0-9+.-]*://(\*\.)?([a-z0-9._-]+|\[[0-9a-f:.]+\])(:(\d{1,5}|\*))?"
)


def is_console_url(url: str) -> bool:
    """True if a URL is that of a console, and nobody on the way to it can read what is sent there."""
    found = CONSOLE_URL.fullmatch(url)
    return found is not None and (found[1] == "https" or is_here(found[2]))


def _check_origin(origin: str) -> str:
    if not ORIGIN.fullmatch(origin):
        raise ValueError("must be an origin as browsers send it: https://app.example, without a path or a default port")
    return origin


def _check_console_url(url: str) -> str:
    if not is_console_url(url):
        raise ValueError("must be an https URL, or an http one on loopback, that ends with /ui/")
    return url


HostName = Annotated[str, Field(pattern=r"^(\*|(\*\.)?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9a-fA-F:.]+\])$")]
Origin = Annotated[str, AfterValidator(_check_origin)]


class CorsSettings(Section):
    """Which browser pages may call the gateway."""

    origins: list[Origin] = Field(
        default=[],
        description="Origins of pages that may call, such as `https://app.example`; `https://*.example` is every name "
        "below, `http://localhost:*` every port, `*` every page. Other pages read nothing and change nothing.",
    )
    hosts: list[HostName] = Field(
        default=[],
        description="Names by which a gateway on loopback may be called besides those of this machine, such as that "
        "of a proxy in front; `*` is every name.",
    )


class ConsoleSettings(Section):
    """The console, a page at `/ui/` of the gateway."""

    enabled: bool = Field(default=True, description="Whether the gateway serves the console.")
    url: Annotated[str, AfterValidator(_check_console_url)] | None = Field(
        default=None,
        description="The address by which people open it: `https://yard.example/ui/`. An issuer sends them back "
        "there alone; without it, to `/ui/` of any host by https, or of this machine.",
    )
