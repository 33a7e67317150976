"""The files of a workspace: their shape on the wire, and the rules that no list of files may break.

A list that passes these rules can be restored below any folder, on any system, without a path that leads out of it.
Workers check lists before they store them, and clients check them again before they write a file.
"""

import hashlib
import unicodedata
from collections.abc import Sequence
from typing import Annotated, Final, Protocol

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from hivemem_contracts.artifacts.models import Sha256, Size
from hivemem_contracts.artifacts.names import ArtifactName, check_name
from hivemem_contracts.errors import InvalidRequest
from hivemem_contracts.limits import ARTIFACT_NAME_BYTES, WORKSPACE_FILES
from hivemem_contracts.model import ReplyBody, RequestBody
from hivemem_contracts.named_types import NamedType
from hivemem_contracts.sizes import check_size

UP: Final = "../"
PLAIN_MODE: Final = 0o644
RESTORE_PREFIX: Final = ".hivemem-restore-"
"""The start of the names of folders in which clients prepare a restore. No path of a workspace begins with it."""


def check_target(target: str) -> str:
    """Return the target of a link if it is valid: a way up, then a way down, as the names of files."""
    down = target
    while down.startswith(UP):
        down = down.removeprefix(UP)
    if down not in ("", "."):
        check_name(down)
    elif target != ".":
        raise PydanticCustomError("link_target", "a way up ends at a name, such as '../a'")
    return target


LinkTarget = Annotated[
    str,
    StringConstraints(min_length=1, max_length=ARTIFACT_NAME_BYTES),
    AfterValidator(check_target),
    NamedType(
        "LinkTarget",
        "The target of a symbolic link, relative to the folder of the link: any number of `../`, but not out of the "
        "workspace, and then a name as that of a file, without a `..`.",
        {"pattern": r"^(?:\.|(?:\.\./)*[^/\\:\x00-\x1f\x7f-\x9f]+(?:/[^/\\:\x00-\x1f\x7f-\x9f]+)*)$"},
    ),
]
Mode = Annotated[int, Field(ge=0, le=0o777, description="The permission bits, as a decimal number: 420 is 0644.")]


class WorkspaceFile(RequestBody):
    """A file of a workspace: its path and the hash of its bytes, or a symbolic link."""

    path: ArtifactName
    sha256: Sha256 = Field(description="Of the bytes; of the text of its target for a link, which needs no upload.")
    size: Size
    mode: Mode = PLAIN_MODE
    target: LinkTarget | None = Field(default=None, description="Where the link leads, if it is one.")


class WorkspaceEntry(ReplyBody):
    """A file of a version of a workspace."""

    path: str
    sha256: str
    size: int
    mode: int = Field(description="The permission bits, as a decimal number: 420 is 0644.")
    target: str | None = Field(default=None, description="Where the link leads, if it is one.")


class FileOfWorkspace(Protocol):
    """What the rules need to know of a file."""

    @property
    def path(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def target(self) -> str | None: ...


def folded(path: str) -> str:
    """Return a path as file systems compare it that ignore case and normalise characters."""
    return path.casefold() if path.isascii() else unicodedata.normalize("NFKC", path.casefold())


def check_files(files: Sequence[FileOfWorkspace], field: str = "files") -> None:
    """Raise `InvalidRequest`, with the field and the value, unless one folder can hold all of the files."""
    check_size(field, len(files), WORKSPACE_FILES)
    paths = {file.path for file in files}
    spellings: dict[str, str] = {}
    seen: set[str] = set()
    for number, file in enumerate(files):
        place = f"{field}.{number}.path"
        if file.path in seen:
            raise refusal(place, "another file of the list has this path", file.path)
        seen.add(file.path)
        if file.path.startswith(RESTORE_PREFIX):
            raise refusal(place, "folders of this name are those of restores", file.path)
        spelled = spellings.setdefault(folded(file.path), file.path)
        if spelled != file.path:
            raise refusal(place, f"some systems cannot tell it from {spelled!r}", file.path)
        _check_folders(place, file.path, paths, spellings)
        if file.target is not None:
            check_link(file, f"{field}.{number}")


def _check_folders(place: str, path: str, paths: set[str], spellings: dict[str, str]) -> None:
    end = path.rfind("/")
    while end > 0:
        folder = path[:end]
        if folder in paths:
            raise refusal(place, f"{folder!r} is a file, and no folder", path)
        spelled = spellings.setdefault(folded(folder), folder)
        if spelled != folder:
            raise refusal(place, f"some systems cannot tell its folder from {spelled!r}", path)
        end = path.rfind("/", 0, end)


def check_link(file: FileOfWorkspace, place: str) -> None:
    """Raise `InvalidRequest` if a link leads out of the workspace, or its hash is not that of its target."""
    target = file.target or ""
    if target.count(UP) > file.path.count("/"):
        raise refusal(f"{place}.target", "it leads out of the workspace", target)
    if (file.sha256, file.size) != link_content(target):
        raise refusal(f"{place}.sha256", "it is not that of the target of the link", file.sha256)


def link_content(target: str) -> tuple[str, int]:
    """Return the hash and the size of a link."""
    data = target.encode()
    return hashlib.sha256(data).hexdigest(), len(data)


def refusal(field: str, reason: str, value: object) -> InvalidRequest:
    """Return the refusal of a value in a list of files."""
    return InvalidRequest(f"{field}: {reason}, got {value!r}", field=field)
