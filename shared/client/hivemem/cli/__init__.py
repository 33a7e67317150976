"""The `hivemem` command. A subcommand imports its modules when it runs, so that help and completion are quick."""

import io
import os
import sys
from pathlib import Path
from typing import TextIO, cast


def main() -> None:
    """Run the installed command, or answer the shell that asks how to complete it."""
    if cast("TextIO | None", sys.stdout) is None:  # a shell closed it with `>&-`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - it stays open to the end
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

    try:
        try:
            app(prog_name="hivemem")
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest when it exits
        if not isinstance(error, BrokenPipeError):  # a reader such as `head` has enough
            sys.stderr.write(f"standard output: {error.strerror}\n")
        sys.exit(1)
