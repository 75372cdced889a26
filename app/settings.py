"""Settings of the service, from the environment (`ANTECAST_...`) or the command line."""

import ipaddress
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import AwareDatetime, Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class AuthMode(StrEnum):
    """Who may use the service: holders of API keys, or everyone on this machine."""

    KEYS = "keys"
    OFF = "off"


class ServiceSettings(BaseSettings):
    """What can be set; each as an environment variable, `ANTECAST_` and the name in upper case.

    Attributes:
        host, port: where the service listens.
        database_url: `sqlite:///path/to/file` or `postgresql://user@host/name`.
        auth: `off` on loopback only.
        max_failed_logins: of one peer within a minute; more are answered 429.
        max_body_kib: largest body of a request.
        max_upload_mib: largest file of job history.
        clock_speed: seconds of cluster time per real second; other than 1 for demonstrations only.
        clock_origin: from when on a faster clock counts; all processes have to agree on it.
        decide_limit_s: how long whoever asks for a decision waits for it.
        plan_limit_s, import_limit_s: how long a child process may take.
        worker_slots: replans that one worker carries out at a time, as many what-ifs, and as many other runs.
        worker_lease_s: after how long a silent worker counts as gone, and its runs are taken over.
        lease_s: after how long a silent executor's node counts as lost.
        poll_wait_s: how long an executor's poll is held open.
        status_every_s: how often executors report.
        models_dir: where the processes that decide keep trained forecasters, so that one that starts again
            need not train; None: nowhere.
    """

    model_config = SettingsConfigDict(env_prefix="ANTECAST_", frozen=True, allow_inf_nan=False)

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    database_url: str = Field(default="sqlite:///var/antecast.db", repr=False)
    auth: AuthMode = AuthMode.KEYS
    max_failed_logins: int = Field(default=20, ge=1, le=10_000)
    max_body_kib: int = Field(default=1024, ge=1, le=65_536)
    max_upload_mib: int = Field(default=256, ge=1, le=256)
    clock_speed: float = Field(default=1.0, gt=0.0, le=100_000.0)
    clock_origin: AwareDatetime | None = None
    decide_limit_s: float = Field(default=30.0, gt=0.0, le=600.0)
    plan_limit_s: float = Field(default=60.0, gt=0.0, le=3600.0)
    import_limit_s: float = Field(default=600.0, gt=0.0, le=3600.0)
    worker_slots: int = Field(default=2, ge=1, le=64)
    worker_lease_s: float = Field(default=30.0, gt=0.0, le=3600.0)
    lease_s: float = Field(default=30.0, gt=0.0, le=3600.0)
    poll_wait_s: float = Field(default=25.0, ge=0.0, le=60.0)
    status_every_s: float = Field(default=5.0, gt=0.0, le=600.0)
    models_dir: Path | None = None

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.auth is AuthMode.OFF and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} is not on loopback; without API keys (auth off) "
                "only 127.0.0.1 and ::1 will do"
            )
        return self


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own and reachable from nowhere else."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
