"""Settings: from the environment (`HIVEMEM_…`) and a TOML file named by `HIVEMEM_CONFIG`, checked at the start."""

import os
import tomllib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import pydantic
from pydantic import AfterValidator, Field
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource
from pydantic_settings import SettingsError as UnreadableSetting

from hivemem_contracts.nearest_name import nearest_name
from hivemem_contracts.servers import server_list, shown_servers
from hivemem_runtime.bus.streams import StreamSettings
from hivemem_runtime.policy import Policy
from hivemem_runtime.setting_names import OF_COMPOSE, OF_WORKERS

CONFIG_VARIABLE = "HIVEMEM_CONFIG"
PREFIX = "HIVEMEM_"
OF_CLIENTS: Final = ("url", "tenant", "agent")
"""What the `hivemem` command reads under the same prefix."""
OF_TESTS: Final = (f"{PREFIX}TEST_", f"{PREFIX}BENCH_")
"""How the variables of the tests and the benchmarks begin."""

_OF_OTHERS: Final = ContextVar("settings of other workers", default=frozenset[str]())
"""While settings are loaded: the names in the file that are settings of other workers."""

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
    """Read and check the settings, or raise `SettingsError` naming the first wrong one.

    The environment and the file may hold settings of the other workers of Hivemem, and of the kinds `beside`."""
    file = os.environ.get(CONFIG_VARIABLE)
    if file and not Path(file).is_file():
        raise SettingsError(f"{CONFIG_VARIABLE}={file}: there is no such file")
    _refuse_unknown((kind, *beside))
    of_others = {*OF_WORKERS, *(name for other in beside for name in other.model_fields)} - kind.model_fields.keys()
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


def _refuse_unknown(kinds: Sequence[type[WorkerSettings]]) -> None:
    """Raise `SettingsError` for a variable that nobody reads: a misspelt one would otherwise change nothing in silence.

    Workers, clients and the compose file may share one environment, so the names of all of them are known here."""
    shared = {CONFIG_VARIABLE, *(PREFIX + name.upper() for name in (*OF_WORKERS, *OF_CLIENTS, *OF_COMPOSE))}
    known = shared.union(*(dict(variables(kind)) for kind in kinds))
    for variable in sorted(os.environ):
        name = variable.upper()
        if name.startswith(PREFIX) and not name.startswith(OF_TESTS) and name not in known:
            nearest = nearest_name(name, sorted(known), similarity=0.0)
            raise SettingsError(f"{variable}: there is no such setting; the nearest name is {nearest}")


def variables(kind: type[pydantic.BaseModel], prefix: str = PREFIX) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the variables that set the fields of `kind`, with the fields, and the same for the models in them."""
    for name, field in kind.model_fields.items():
        variable = prefix + name.upper()
        yield variable, field
        if isinstance(field.annotation, type) and issubclass(field.annotation, pydantic.BaseModel):
            yield from variables(field.annotation, f"{variable}__")
