"""`hivemem up`: the fleet from one command."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from hivemem_contracts.errors import HiveError
from hivemem_embedded.fleet import DEFAULT_HTTP_PORT, DEFAULT_NATS_PORT, Fleet, FolderInUse, FolderNotMade, PortTaken
from hivemem_embedded.nats_server import ServerFailed
from hivemem_runtime import logs, loop
from hivemem_runtime.program import WorkerNotLoaded
from hivemem_runtime.worker import NOT_OTHERS, UNFIT

Level = Literal["debug", "info", "warning", "error"]


def up(
    data: Annotated[Path, typer.Option(help="The folder of all data.")] = Path("hivemem-data"),
    nats_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port for agents; 0 for any free port.")
    ] = DEFAULT_NATS_PORT,
    http_port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port for health pages; 0 for any free port.")
    ] = DEFAULT_HTTP_PORT,
    log_level: Annotated[Level, typer.Option(help="Which messages of the log are shown.")] = "warning",
) -> None:
    """Run the whole fleet in one process: its own nats-server, every worker, SQLite and files under one folder.

    Prints one line when it accepts requests. Ctrl-C stops it cleanly.
    """
    logs.configure(log_level, "console" if sys.stderr.isatty() else "json")
    os.umask(NOT_OTHERS)
    try:
        loop.run(_run(Fleet(data, nats_port, http_port)))
    except (*UNFIT, FolderInUse, FolderNotMade, PortTaken, ServerFailed, WorkerNotLoaded, HiveError, OSError) as error:
        typer.echo(f"hivemem up: {error}", err=True)
        raise typer.Exit(1) from error


async def _run(fleet: Fleet) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        addresses = await fleet.start()
        typer.echo(addresses.line())
        sys.stdout.flush()
        loop.settle()
        await stopped.wait()
    finally:
        await fleet.stop()
