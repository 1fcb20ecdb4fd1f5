"""tools/rest_styles.py says how each path is spelled, as the routes of gateway/envoy.yaml have it."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.rest_styles import style_of

GATEWAY = Path(__file__).parents[2] / "gateway"
OPERATIONS = [
    (verb, path) for path, item in json.loads((GATEWAY / "openapi.json").read_text())["paths"].items() for verb in item
]


class Loader(yaml.SafeLoader):
    """Takes Envoy's `!ignore`, which marks what is only referred to."""


Loader.add_constructor("!ignore", lambda loader, node: loader.construct_scalar(node))


@cache
def connections() -> dict[str, Any]:
    """How the gateway treats HTTP: its routes and filters."""
    envoy = yaml.load((GATEWAY / "envoy.yaml").read_text(), Loader)
    return envoy["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]


def print_options(verb: str, path: str) -> dict[str, bool]:
    """How the route that takes a plain request prints its answer."""
    filters = {each["name"]: each["typed_config"] for each in connections()["http_filters"] if "typed_config" in each}
    route = next(
        route
        for route in connections()["route_config"]["virtual_hosts"][0]["routes"]
        if takes(route["match"], verb, path)
    )
    return route.get("typed_per_filter_config", {}).get("transcoder", filters["transcoder"])["print_options"]


def takes(match: dict[str, Any], verb: str, path: str) -> bool:
    """True if a route takes a request without headers; what else routes look at are those of browsers and of gRPC."""
    by_verb = {"name": ":method", "string_match": {"exact": verb.upper()}}
    if "connect_matcher" in match or any(header != by_verb for header in match.get("headers", ())):
        return False
    if "safe_regex" in match:
        return re.fullmatch(match["safe_regex"]["regex"], path) is not None
    if "path_separated_prefix" in match:
        return f"{path}/".startswith(f"{match['path_separated_prefix']}/")
    return path.startswith(match["prefix"])


@pytest.mark.parametrize(("verb", "path"), OPERATIONS)
def test_a_path_is_spelled_as_its_route_prints(verb: str, path: str) -> None:
    options = print_options(verb, re.sub(r"{\w+}", "x", path))
    style = style_of(path)
    assert style.snake == options.get("preserve_proto_field_names", False)
    assert style.shows_empty == options.get("always_print_primitive_fields", False)
