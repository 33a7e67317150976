"""The `hivemem` command. What a subcommand needs is imported when it runs, so that help and completion are quick."""


def main() -> None:
    """The entry point of the installed command."""
    from hivemem.cli.app import app

    app(prog_name="hivemem")
