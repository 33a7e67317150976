"""The `hivemem` command. A subcommand imports its modules when it runs, so that help and completion are quick."""

import os


def main() -> None:
    """Run the installed command, or answer the shell that asks how to complete it."""
    shell = os.environ.get("_HIVEMEM_SHELL")
    if shell is not None:
        from hivemem.cli.completion import answer

        answer(shell)
        return
    from hivemem.cli.app import app

    app(prog_name="hivemem")
