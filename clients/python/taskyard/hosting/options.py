"""What a host is and how it works. `Host` documents the options."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from taskyard.credentials import Credentials


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What a host is and how it works. `Host` documents the options."""

    credentials: Credentials
    host_id: str
    slots: int
    capabilities: Sequence[str] = ()
    project: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    lease_secs: int | None = None
    display_name: str | None = None
    drain_grace_secs: float = 30.0
    machine_figures: bool = True
