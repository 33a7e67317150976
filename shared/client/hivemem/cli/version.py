"""`hivemem version`: the installed versions."""

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

from hivemem.cli.rendering import print_fields, print_json
from hivemem.cli.settings import Json, Settings

PACKAGES = ("hivemem", "hivemem-contracts", "hivemem-embedded", "nats-py")

app = typer.Typer(add_completion=False)


@app.command()
def show(ctx: typer.Context, json: Json = False) -> None:
    """Show the installed versions."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found["python"] = platform.python_version()
    if Settings.of(ctx, json).json:
        print_json(found)
    else:
        print_fields(found)
