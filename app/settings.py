"""Settings of the service: from the command line, the environment (`ANTECAST_...`), a file, in this order."""

import ipaddress
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import AwareDatetime, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from app.setting_sources import (
    FILE,
    OTHER_VARIABLES,
    PREFIX,
    SECRET,
    ConfigFile,
    SecretFiles,
    is_secret,
    require_known_variables,
)

STOP_LIMIT_S: Final = 30.0
"""How long `antecast serve` waits for its processes to end before it kills them."""


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
        webhook_key_file: the key that secrets of webhooks are made from, mode 0600, the same for all
            processes; None: beside the database's file.
        webhook_private: whether webhooks may go to private networks and to this machine.
        rate_per_s, rate_burst: requests of one key a second in the long run, and at once.
        heavy_rate_per_s, heavy_burst: the same for requests for long work (uploads, replans, what-ifs).
        body_limit_s, upload_limit_s: how long a client may take to send a body, and a file of job history.
        head_limit_s: how long a client may take from connecting to the end of its request's headers.
        stop_wait_s: how long requests under way may still take once the service is told to stop.
        database_wait_s: how long a writer waits for its turn on SQLite, and anyone for a connection.
        metrics_every_s: `/metrics` asks the database at most so often.
        log_format: `auto` is text on a terminal and JSON elsewhere.
        log_level: what is less important than this is not logged.
    """

    model_config = SettingsConfigDict(env_prefix="ANTECAST_", frozen=True, allow_inf_nan=False)

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    database_url: str = Field(
        default="sqlite:///var/antecast.db", repr=False, json_schema_extra={SECRET: True}
    )
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
    webhook_key_file: Path | None = None
    webhook_private: bool = False
    rate_per_s: float = Field(default=500.0, gt=0.0, le=1e6)
    rate_burst: int = Field(default=1_000, ge=1, le=1_000_000)
    heavy_rate_per_s: float = Field(default=2.0, gt=0.0, le=1e6)
    heavy_burst: int = Field(default=60, ge=1, le=1_000_000)
    body_limit_s: float = Field(default=30.0, gt=0.0, le=3600.0)
    upload_limit_s: float = Field(default=900.0, gt=0.0, le=86_400.0)
    head_limit_s: float = Field(default=10.0, gt=0.0, le=600.0)
    stop_wait_s: float = Field(default=8.0, ge=0.0, le=600.0)
    database_wait_s: float = Field(default=30.0, gt=0.0, le=600.0)
    metrics_every_s: float = Field(default=5.0, gt=0.0, le=3600.0)
    log_format: Literal["auto", "json", "text"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The command line before the environment before files.

        Raises:
            SettingError: for a variable that looks like a setting and is none.
        """
        del dotenv_settings, file_secret_settings
        known = all_settings()
        require_known_variables(known_variables(known), os.environ)
        return init_settings, env_settings, SecretFiles(settings_cls), ConfigFile(settings_cls, known)

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        if self.auth is AuthMode.OFF and not is_loopback(self.host):
            raise ValueError(
                f"host {self.host} is not on loopback; without API keys (auth off) "
                "only 127.0.0.1 and ::1 will do"
            )
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Each message names both sides: which of them is wrong, only the operator knows."""
        if self.decide_limit_s > self.plan_limit_s:
            raise ValueError(
                f"decide_limit_s ({self.decide_limit_s:g}) is longer than plan_limit_s "
                f"({self.plan_limit_s:g}), at which the deciding process is killed: nobody can wait that long"
            )
        if 2 * self.status_every_s > self.lease_s:
            raise ValueError(
                f"status_every_s ({self.status_every_s:g}) is more than half of lease_s ({self.lease_s:g}): "
                "one report that is lost would make a node count as lost"
            )
        if self.stop_wait_s >= STOP_LIMIT_S:
            raise ValueError(
                f"stop_wait_s ({self.stop_wait_s:g}) has to be less than the {STOP_LIMIT_S:g} s after which "
                "`antecast serve` kills its processes"
            )
        if self.max_body_kib > self.max_upload_mib * 1024:
            raise ValueError(
                f"max_body_kib ({self.max_body_kib}) is more than max_upload_mib ({self.max_upload_mib}): "
                "an upload is the largest body there is"
            )
        return self


def all_settings() -> Mapping[str, FieldInfo]:
    """All settings by name, those that only workers have too: a file is shared by all processes."""
    from app.runs.settings import WorkerSettings  # noqa: PLC0415 - it builds on this module

    return WorkerSettings.model_fields


def known_variables(settings: Mapping[str, FieldInfo]) -> frozenset[str]:
    """Names of all environment variables that are ours."""
    plain = {f"{PREFIX}{name.upper()}" for name in settings}
    files = {f"{PREFIX}{name.upper()}{FILE}" for name, field in settings.items() if is_secret(field)}
    return OTHER_VARIABLES | plain | files


def as_variables(given: Mapping[str, Any]) -> dict[str, str]:
    """Settings as environment variables for another process; None is left out.

    A secret that is handed on this way is not looked for in a file as well.
    """
    settings = all_settings()
    made: dict[str, str] = {}
    for name, value in given.items():
        if value is not None:
            made[f"{PREFIX}{name.upper()}"] = str(value)
            if is_secret(settings[name]):
                made[f"{PREFIX}{name.upper()}{FILE}"] = ""
    return made


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own and reachable from nowhere else."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
