"""Window resources in YAML or JSON files: read, checked and declared."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from hivemem.definition_files import Definition, read_definitions
from hivemem_contracts.error_values import shown
from hivemem_contracts.errors import HiveError, InvalidRequest, NotFound
from hivemem_contracts.windows.models import WindowResource

if TYPE_CHECKING:
    from hivemem.hive import Hive

SUFFIXES: Final = (".yaml", ".yml", ".json")

Outcome = Literal["created", "updated", "unchanged"]


@dataclass(frozen=True, slots=True)
class Applied:
    """A resource, and what became of it. A dry run leaves the `version` as it was."""

    id: str
    outcome: Outcome
    version: int
    file: str


def read_resources(paths: Iterable[str | Path]) -> list[Definition[WindowResource]]:
    """Return the resources of files, and of all files below folders. A file may have several documents.

    Raises `InvalidRequest` with the file, line and column of the first error, also if two resources have one id, and
    `OSError` if a file cannot be read.
    """
    found: dict[str, Definition[WindowResource]] = {}
    for file in dict.fromkeys(file for path in paths for file in _files(Path(path))):
        for definition in read_definitions(file, WindowResource):
            id = definition.body.id
            place = definition.positions["id"]
            if id in found:
                raise InvalidRequest(
                    f"{place}: id: {shown(id)} is there twice, first at {found[id].positions['id']}",
                    file=place.file,
                    line=place.line,
                    column=place.column,
                    field="id",
                )
            found[id] = definition
    return list(found.values())


def _files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not files:
        raise InvalidRequest(f"{path}: there is no file with the ending {', '.join(SUFFIXES)}", file=str(path))
    return files


async def apply_resources(
    hive: "Hive", definitions: Iterable[Definition[WindowResource]], *, dry_run: bool = False
) -> AsyncIterator[Applied]:
    """Declare resources one after the other, and yield each; a dry run only compares.

    Raises the errors of `hive.windows.resource_put`, with the place in the file. Those before it stay declared.
    """
    for definition in definitions:
        resource = definition.body
        before = await _declared(hive, resource.id)
        version = 0 if before is None else before[0]
        same = before is not None and before[1].model_dump() == resource.model_dump()
        if not dry_run and not same:
            try:
                written = await hive.windows.resource_put(resource=resource, expect_version=version)
            except HiveError as error:
                raise definition.located(error, "resource") from error
            version = written.version
        outcome: Outcome = "created" if before is None else "unchanged" if same else "updated"
        yield Applied(resource.id, outcome, version, definition.positions["id"].file)


async def _declared(hive: "Hive", id: str) -> tuple[int, WindowResource] | None:
    try:
        found = await hive.windows.resource_get(id=id)
    except NotFound:
        return None
    return found.version, found.resource
