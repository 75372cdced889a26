"""Settings of the service, from the environment (`ANTECAST_...`) or the command line."""

import ipaddress
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class ServiceSettings(BaseSettings):
    """Where the service listens.

    There are no API keys yet, so it listens on loopback only.
    """

    model_config = SettingsConfigDict(env_prefix="ANTECAST_", frozen=True)

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)

    @model_validator(mode="after")
    def _is_loopback(self) -> Self:
        if self.host != "localhost" and not _is_loopback_address(self.host):
            raise ValueError(
                f"host {self.host} is not on loopback; without API keys only 127.0.0.1 and ::1 will do"
            )
        return self


def _is_loopback_address(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
