"""The certificates of Envoy: files that it reads again when others take their places."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

from taskyard_server.net.certificates import CertificateFiles

TLS: Final = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
OWN_SECRET: Final = "server"
AUTHORITIES_SECRET: Final = "clients"
GATEWAYS: Final = "spiffe://taskyard/gateway/"
"""The beginning of a replica's URI."""


class Secrets:
    """The files from which Envoy takes its certificates. They lie in a folder and name the files of the settings.

    Envoy reads a file again when another one was renamed to its name. What that names must be new as well, so that each
    set of certificates is named by links of its own. No key is copied. With `is_required` a caller needs a certificate,
    where there are authorities.
    """

    def __init__(self, folder: Path, files: CertificateFiles, *, is_required: bool = False) -> None:
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._files = files
        self._generation = 0
        self._has_authorities = files.client_ca is not None
        self._is_required = is_required and self._has_authorities

    @property
    def yaml(self) -> str:
        """The text of envoy.yaml instead of `transport_socket: null`, for a listener."""
        common: dict[str, Any] = self._common(["h2", "http/1.1"])
        if self._has_authorities:
            common["validation_context_sds_secret_config"] = self._source(AUTHORITIES_SECRET)
        context = {
            "@type": f"{TLS}.DownstreamTlsContext",
            "common_tls_context": common,
            # One that comes is verified.
            "require_client_certificate": self._is_required,
        }
        return "transport_socket: " + json.dumps(_socket(context))

    @property
    def towards_replicas(self) -> dict[str, Any]:
        """The transport socket of the clusters of other replicas, which must show a URI of theirs."""
        uri = {"san_type": "URI", "matcher": {"prefix": GATEWAYS}}
        common = self._common(["h2"])
        common["combined_validation_context"] = {
            "default_validation_context": {"match_typed_subject_alt_names": [uri]},
            "validation_context_sds_secret_config": self._source(AUTHORITIES_SECRET),
        }
        return _socket({"@type": f"{TLS}.UpstreamTlsContext", "common_tls_context": common})

    def _common(self, protocols: list[str]) -> dict[str, Any]:
        return {
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
            "alpn_protocols": protocols,
            "tls_certificate_sds_secret_configs": [self._source(OWN_SECRET)],
        }

    def write(self) -> None:
        """Make Envoy read the certificates, which are known to fit together."""
        self._generation += 1
        links = self._folder / f"certificates-{self._generation}"
        links.mkdir()
        pair = {
            "certificate_chain": _link(links / "cert.pem", self._files.cert),
            "private_key": _link(links / "key.pem", self._files.key),
        }
        if self._files.client_ca is not None:
            clients = {"trusted_ca": _link(links / "clients.pem", self._files.client_ca)}
            self._write(AUTHORITIES_SECRET, {"validation_context": clients})
        self._write(OWN_SECRET, {"tls_certificate": pair})
        # Envoy may still be about to read the ones before.
        shutil.rmtree(self._folder / f"certificates-{self._generation - 2}", ignore_errors=True)

    def _source(self, name: str) -> dict[str, Any]:
        source = {"path": str(self._file(name)), "watched_directory": {"path": str(self._folder)}}
        return {"name": name, "sds_config": {"path_config_source": source, "resource_api_version": "V3"}}

    def _write(self, name: str, secret: dict[str, Any]) -> None:
        new = self._folder / f"{name}.new"
        new.write_text(json.dumps({"resources": [{"@type": f"{TLS}.Secret", "name": name, **secret}]}))
        new.rename(self._file(name))

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.yaml"


def _link(link: Path, target: Path) -> dict[str, str]:
    link.symlink_to(target)
    return {"filename": str(link)}


def _socket(context: dict[str, Any]) -> dict[str, Any]:
    return {"name": "envoy.transport_sockets.tls", "typed_config": context}
