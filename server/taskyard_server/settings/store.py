"""The settings of what is kept (docs/operate/durability.md)."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from .setting_types import Float, Integer, PositiveSeconds, Section
from .store_url import (
    DOCUMENTED_DEFAULT,
    FOLDER,
    OBJECTS_IN_MEMORY,
    checked_artifacts_url,
    checked_store_url,
    default_store_url,
    is_postgres,
    shown_store_url,
    sqlite_path,
)

FINDING_SECS: Final = 5.0
"""How long a host may take to find the replica that has taken over its namespace."""


def _check_store_url(url: str) -> str:
    try:
        return checked_store_url(url)
    except ValueError as error:
        raise PydanticCustomError("store_url", "{problem}", {"problem": str(error)}) from None


def _check_artifacts_url(url: str) -> str:
    try:
        return checked_artifacts_url(url)
    except ValueError as error:
        raise PydanticCustomError("artifacts_url", "{problem}", {"problem": str(error)}) from None


ArtifactsUrl = Annotated[str, AfterValidator(_check_artifacts_url)]
StoreUrl = Annotated[str, AfterValidator(_check_store_url), PlainSerializer(shown_store_url, when_used="json")]


class StoreSettings(Section):
    """Where tasks are kept, and for how long (docs/operate/durability.md)."""

    url: StoreUrl = Field(
        default_factory=default_store_url,
        description="`sqlite:///PATH` keeps in a file, "
        "`postgresql://USER@HOST/DATABASE` in PostgreSQL (the `PG*` "
        "variables say what it leaves out), `memory://` keeps nothing. PATH may begin with `~`; an absolute one makes "
        "four slashes. Where `XDG_STATE_HOME` is set, it takes the place of `~/.local/state` in the default.",
        json_schema_extra={"default": DOCUMENTED_DEFAULT, "type": "URL"},
    )
    artifacts: ArtifactsUrl | None = Field(
        default=None,
        description="Where the bytes of artifacts stand: `file:///FOLDER`, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or "
        "`az://ACCOUNT/CONTAINER/PATH`, whose credentials come from the environment. Default: beside the file of "
        "SQLite the folder of its name with `.artifacts` behind it, in memory with `memory://`, and none with "
        "PostgreSQL.",
    )
    synchronous: Literal["full", "normal"] = Field(
        default="full",
        description="`normal` does not wait for the disk: a power cut may take the last seconds. Of SQLite only.",
    )
    patience_secs: PositiveSeconds = Field(
        default=10,
        description="Seconds that a call waits while what it did cannot be kept; then it gets `unavailable`.",
    )
    failover_secs: Annotated[Float, Field(ge=2, le=3600)] = Field(
        default=10,
        description="Seconds after which others take over what a replica owns that has stopped answering. With "
        "PostgreSQL only; the same at all replicas.",
    )
    min_free_bytes: Annotated[Integer, Field(ge=0, lt=2**63)] = Field(
        default=67_108_864, description="Free bytes on the disk of SQLite below which new tasks are refused."
    )
    history_days: Annotated[Float, Field(ge=0, le=36_500)] = Field(
        default=7,
        description="Days for which an ended task can be looked up once memory has dropped it; 0 is none.",
    )

    @property
    def artifacts_url(self) -> str | None:
        """The URL of the objects that artifacts are; None where none are kept."""
        if self.artifacts is not None:
            return self.artifacts
        path = sqlite_path(self.url)
        if path is not None:
            return f"{FOLDER}{path}.artifacts"
        return None if is_postgres(self.url) else OBJECTS_IN_MEMORY

    def reconnect_grace_secs(self, asked: float) -> float:
        """Seconds for which leases outlive a broken stream: another replica must have taken over by then."""
        return max(asked, self.failover_secs + FINDING_SECS) if is_postgres(self.url) else asked
