"""Settings: from the environment (`HIVEMEM_…`) and a TOML file named by `HIVEMEM_CONFIG`, checked at the start."""

import os
import tomllib
from collections.abc import Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import pydantic
from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings import SettingsError as UnreadableSetting

from hivemem_contracts.servers import server_list, shown_servers
from hivemem_runtime.bus.streams import StreamSettings
from hivemem_runtime.policy import Policy

CONFIG_VARIABLE = "HIVEMEM_CONFIG"
PREFIX = "HIVEMEM_"

_OF_OTHERS: Final = ContextVar("settings of other workers", default=frozenset[str]())
"""While settings are loaded: what the file may hold for workers that share it."""

Port = Annotated[int, Field(ge=0, le=65_535)]


class SettingsError(Exception):
    """A setting that cannot be used; the text names it, its value and what is wanted."""


def _checked_servers(urls: str) -> str:
    return ",".join(server_list(urls))


class WorkerSettings(BaseSettings):
    """What every worker reads. The environment goes before the file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True, validate_default=True
    )

    nats_url: Annotated[str, AfterValidator(_checked_servers)] = Field(
        default="nats://127.0.0.1:4222", description="The servers of the bus, separated by commas."
    )
    nats_monitor_url: str = Field(
        default="", description="The nats-server's monitoring, such as http://127.0.0.1:8222, where it has any."
    )
    store: Literal["sqlite", "mongo"] = Field(default="sqlite", description="Where documents are kept.")
    data: Path = Field(default=Path("hivemem-data"), description="The folder of the SQLite files.")
    mongo_url: str = Field(
        default="mongodb://127.0.0.1:27017/?replicaSet=rs0", description="A replica set, of one node at least."
    )
    mongo_database: str = Field(default="hivemem", pattern=r"^[A-Za-z0-9_-]{1,38}$")
    http_host: str = Field(default="127.0.0.1", description="Where health is served.")
    http_port: Port = Field(default=8222, description="0: any free one.")
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["json", "console"] = "json"
    requests_under_way: int = Field(
        default=4_096, ge=2, le=100_000, description="More at once are answered with Overloaded; half for one tenant."
    )
    request_bytes_under_way: int = Field(
        default=64 * 1024 * 1024, ge=8 * 1024 * 1024, description="The same for the bytes of requests and answers."
    )
    own_inboxes: bool = Field(
        default=False, description="Answer only to inboxes below the caller's own prefix, not to plain ones."
    )
    request_memory_seconds: int = Field(
        default=7 * 86_400, ge=60, description="How long the id of a write is remembered at least."
    )
    streams: StreamSettings = StreamSettings()

    def policy(self) -> Policy:
        """Return the policy of the worker's service."""
        return Policy(own_inboxes=self.own_inboxes)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del dotenv_settings, file_secret_settings
        named = os.environ.get(CONFIG_VARIABLE)
        if not named:
            return init_settings, env_settings
        return init_settings, env_settings, _File(settings_cls, Path(named))


class _File(TomlConfigSettingsSource):
    def __call__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__call__().items() if name not in _OF_OTHERS.get()}


SettingsT = TypeVar("SettingsT", bound=WorkerSettings)


def load(kind: type[SettingsT], beside: Sequence[type[WorkerSettings]] = (), **given: Any) -> SettingsT:
    """Read and check the settings, or raise `SettingsError` naming the first wrong one. Workers of the kinds `beside`
    read the same file, which may hold what is theirs."""
    file = os.environ.get(CONFIG_VARIABLE)
    if file and not Path(file).is_file():
        raise SettingsError(f"{CONFIG_VARIABLE}={file}: there is no such file")
    _refuse_unknown(kind)
    of_others = {name for other in beside for name in other.model_fields} - kind.model_fields.keys()
    token = _OF_OTHERS.set(frozenset(of_others))
    try:
        return kind(**given)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{CONFIG_VARIABLE}={file}: not TOML: {error}") from error
    except UnreadableSetting as error:
        raise SettingsError(f"{PREFIX}…: {error}: {error.__cause__}") from error
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = PREFIX + "__".join(str(part) for part in first["loc"]).upper()
        value = first.get("input")
        if isinstance(value, str) and "://" in value:
            # The causes quote it whole, with its password.
            raise SettingsError(f"{name}={shown_servers(value)!r}: {first['msg']}") from None
        raise SettingsError(f"{name}={value!r}: {first['msg']}") from error
    finally:
        _OF_OTHERS.reset(token)


def _refuse_unknown(kind: type[WorkerSettings]) -> None:
    """A misspelt variable would otherwise change nothing and say nothing. Clients share the prefix for theirs."""
    known = {PREFIX + name.upper() for name in kind.model_fields} | {CONFIG_VARIABLE}
    for variable in sorted(os.environ):
        top = variable.partition("__")[0]
        if variable.startswith(f"{PREFIX}STREAMS") and top not in known:
            raise SettingsError(f"{variable}: there is no such setting")
