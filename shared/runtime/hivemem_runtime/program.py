"""The declaration of a worker, the program that runs one, and the workers that are installed."""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeGuard

import pydantic

from hivemem_contracts.operations import ServiceContract
from hivemem_runtime.distribution import version_of, worker_entries
from hivemem_runtime.settings import CONFIG_VARIABLE, SettingsT, load, variables
from hivemem_runtime.worker import UNFIT, Worker, run


class WorkerNotLoaded(Exception):
    """An installed worker cannot be loaded; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class WorkerKind(Generic[SettingsT]):
    """One kind of worker: the service it serves, its settings, and the function that builds it from them."""

    contract: ServiceContract
    settings: type[SettingsT]
    build: Callable[[SettingsT], Worker]


def main(kind: WorkerKind[SettingsT], arguments: Sequence[str] | None = None) -> int:
    """Run one worker until a signal ends it, and return the exit code: 2 if its environment is unfit.

    The arguments, by default those of the process, may ask for the help or the version instead."""
    _command_line(kind).parse_args(arguments)
    try:
        settings = load(kind.settings)
        run(settings, lambda: kind.build(settings))
    except UNFIT as error:
        sys.stderr.write(f"hivemem-{kind.contract.name}: {error}\n")
        return 2
    return 0


def _command_line(kind: WorkerKind[Any]) -> ArgumentParser:
    parser = ArgumentParser(
        prog=f"python -m hivemem_{kind.contract.name}",
        description=f"Run one {kind.contract.name} worker, until Ctrl-C or SIGTERM. {kind.contract.summary}",
        epilog="\n".join(_settings_help(kind.settings)),
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    name = f"hivemem-{kind.contract.name}"
    parser.add_argument("--version", action="version", version=f"{name} {version_of(kind.contract.name)}")
    return parser


def _settings_help(kind: type[pydantic.BaseModel]) -> Iterator[str]:
    yield f"settings, from the environment or from the TOML file that {CONFIG_VARIABLE} names, and their defaults:"
    for variable, field in variables(kind):
        if not isinstance(field.default, pydantic.BaseModel):
            yield f"  {variable}={field.default}"
            if field.description:
                yield f"      {field.description}"


def installed_workers() -> list[WorkerKind[Any]]:
    """Return the installed kinds of worker, sorted by name. Raises `WorkerNotLoaded`."""
    return [_load(entry.name, entry.load) for entry in worker_entries()]


def _load(name: str, load: Callable[[], object]) -> WorkerKind[Any]:
    try:
        found = load()
    except Exception as error:
        raise WorkerNotLoaded(f"the worker {name} cannot be loaded: {error!r}") from error
    if not _is_kind(found):
        raise WorkerNotLoaded(f"the worker {name} cannot be loaded: {found!r} is no WorkerKind")
    if found.contract.name != name:
        raise WorkerNotLoaded(f"the worker {name} cannot be loaded: it serves {found.contract.name}")
    return found


def _is_kind(found: object) -> TypeGuard[WorkerKind[Any]]:
    return isinstance(found, WorkerKind)
