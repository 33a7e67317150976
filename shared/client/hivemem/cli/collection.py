"""`hivemem artifacts gc`: deletes unused bytes, request by request until none are left."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hivemem.cli.confirmation import Yes, confirm
from hivemem.cli.counts import counted
from hivemem.cli.progress import counter
from hivemem.cli.rendering import print_json, print_reply
from hivemem.cli.settings import Json, Settings, interrupted, run

if TYPE_CHECKING:
    from hivemem.hive import Hive
    from hivemem_contracts.artifacts.replies import GarbageCollected


def gc_command(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing, only report.")] = False,
    grace_seconds: Annotated[
        int | None,
        typer.Option(min=0, help="Keep bytes that became unused more recently; the worker's setting if left out."),
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete unused bytes, or report which would be deleted."""
    settings = Settings.of(ctx, json)

    async def collect(hive: "Hive", *, dry: bool) -> "GarbageCollected":
        fields = {} if grace_seconds is None else {"grace_seconds": grace_seconds}
        removed = size = 0
        with counter("looking for unused bytes") as shown:
            while True:
                part = await hive.artifacts.gc(dry_run=dry, **fields)
                removed, size = removed + part.removed, size + part.bytes
                # A dry run deletes nothing, so it would find the same bytes again.
                if part.done or dry:
                    return part.model_copy(update={"removed": removed, "bytes": size})
                shown(f"deleted {counted(removed, 'unused blob')}, {counted(size, 'byte')}")

    async def loss(hive: "Hive") -> str:
        found = await collect(hive, dry=True)
        least = "" if found.done else "at least "
        return f"{least}{counted(found.removed, 'unused blob')} of {counted(found.bytes, 'byte')} will go.".capitalize()

    if not dry_run and not yes:
        confirm(settings, loss)
    try:
        collected = run(settings, lambda hive: collect(hive, dry=dry_run))
    except KeyboardInterrupt:
        interrupted("stopped; the same command deletes the rest")
    if settings.json:
        print_json(collected)
    else:
        print_reply(collected)
    sys.stdout.flush()
