"""The `hivemem` command. A subcommand imports its modules when it runs, so that help and completion are quick."""

import io
import os
import sys


def main() -> None:
    """Run the installed command, or answer the shell that asks how to complete it."""
    for stream in (sys.stdout, sys.stderr):
        # Where a terminal or a pipe is not UTF-8, a character that it lacks is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    shell = os.environ.get("_HIVEMEM_SHELL")
    if shell is not None:
        from hivemem.cli.completion import answer

        answer(shell)
        return
    from hivemem.cli.app import app

    app(prog_name="hivemem")
