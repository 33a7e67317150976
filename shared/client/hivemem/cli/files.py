"""`hivemem artifacts upload` and `download`: whole files of any size, with a progress bar."""

import sys
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, cast

import typer

from hivemem.cli.counts import counted
from hivemem.cli.fields import read_json
from hivemem.cli.positional_fields import BY_POSITION
from hivemem.cli.settings import Json, Settings, interrupted, run
from hivemem_contracts.identifiers import new_id

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem.uploading import Progress
    from hivemem_contracts.artifacts.models import Artifact

STANDARD: Final = "-"
SCHEME: Final = "hive://"
_PIECE_BYTES: Final = 256 * 1024


def upload_command(
    ctx: typer.Context,
    session_id: Annotated[
        str,
        typer.Option(metavar="SESSION_ID", rich_help_panel=BY_POSITION, help="The session that the file belongs to."),
    ],
    file: Annotated[
        str, typer.Option(metavar="FILE", rich_help_panel=BY_POSITION, help="The file to send; - is standard input.")
    ],
    name: Annotated[
        str | None, typer.Option(help="The name to save it under; the file's own name if left out.")
    ] = None,
    content_type: Annotated[str | None, typer.Option(help="The type, if the bytes do not reveal it.")] = None,
    metadata: Annotated[str | None, typer.Option(help="JSON, or @FILE.")] = None,
    presigned: Annotated[bool, typer.Option("--presigned", help="Send it directly to the object store.")] = False,
    message_id: Annotated[
        str | None, typer.Option(help="The idempotency key: under the same key, an interrupted upload is resumed.")
    ] = None,
    json: Json = False,
) -> None:
    """Save a file of any size as the next version of its name."""
    settings = Settings.of(ctx, json)
    if name is None and file == STANDARD:
        raise typer.BadParameter("standard input has no name: give one with --name", param_hint="--name")
    key = message_id or new_id()
    fields = None if metadata is None else read_json(metadata, "--metadata")

    async def work(hive: "Hive") -> "Artifact":
        source = standard_input() if file == STANDARD else Path(file)
        with shown_progress(f"uploading {name or Path(file).name}") as progress:
            return await hive.with_options(message_id=key).artifacts.upload(
                session_id,
                name or Path(file).name,
                source,
                content_type=content_type,
                metadata=cast("dict[str, Any] | None", fields),
                presigned=presigned,
                progress=progress,
            )

    if file != STANDARD and not Path(file).is_file():
        raise typer.BadParameter(f"{file} is not a readable file", param_hint="--file")
    try:
        artifact = run(settings, work)
    except KeyboardInterrupt:
        if file == STANDARD:
            interrupted("stopped; no version was saved")
        interrupted(f"stopped; go on with: {settings.again('--message-id', key)}")
    show(settings, artifact, sys.stdout)


def download_command(
    ctx: typer.Context,
    session_id: Annotated[
        str,
        typer.Option(
            metavar="SESSION_ID",
            rich_help_panel=BY_POSITION,
            help="The session of the file, or the URL of the file alone: hive://…",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", rich_help_panel=BY_POSITION, help="The name of the file, unless you give its URL."
        ),
    ] = None,
    version: Annotated[int | None, typer.Option(min=1, help="The newest if left out.")] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="The target; if left out, the last part of its name in this folder; - is standard output.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Download a file. It appears when it is complete; an interrupted download resumes where it was."""
    settings = Settings.of(ctx, json)
    if (name is None) != session_id.startswith(SCHEME):
        raise typer.BadParameter("give a session and a name, or only a URL", param_hint="--name")
    target = output or (name or session_id.partition("?")[0]).rpartition("/")[2]

    async def work(hive: "Hive") -> "Artifact":
        with shown_progress(f"downloading {target}") as progress:
            to = sys.stdout.buffer if target == STANDARD else target
            return await hive.artifacts.download(session_id, name, to=to, version=version, progress=progress)

    try:
        artifact = run(settings, work)
    except KeyboardInterrupt:
        interrupted("stopped" if target == STANDARD else "stopped; the same command resumes the download")
    except OSError as error:
        _cannot_be_written(target, error)
    if target == STANDARD:
        sys.stdout.buffer.flush()
    show(settings, artifact, sys.stderr if target == STANDARD else sys.stdout)


def show(settings: Settings, artifact: "Artifact", told: Any) -> None:
    if settings.json:
        from hivemem.cli.rendering import print_json

        print_json(artifact, told)
    elif told.isatty():
        told.write(f"{artifact.url}  {counted(artifact.size, 'byte')}  {artifact.content_type}\n")
    else:
        told.write(f"{artifact.url}\t{artifact.size}\t{artifact.content_type}\n")


async def standard_input() -> AsyncIterator[bytes]:
    import asyncio

    while piece := await asyncio.to_thread(sys.stdin.buffer.read, _PIECE_BYTES):
        yield piece


@contextmanager
def shown_progress(what: str) -> "Generator[Progress | None, None, None]":
    """Show a bar on standard error, if it is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _cannot_be_written(name: str, error: OSError) -> NoReturn:
    if isinstance(error, BrokenPipeError):
        raise error
    raise typer.BadParameter(f"{name} cannot be written: {error.strerror or error}", param_hint="--output") from error


COMMANDS: Final[dict[str, Callable[..., None]]] = {"upload": upload_command, "download": download_command}
