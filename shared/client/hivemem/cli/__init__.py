"""The `hivemem` command. A subcommand imports its modules when it runs, so that help and completion are quick."""


def main() -> None:
    """Run the installed command."""
    from hivemem.cli.app import app

    app(prog_name="hivemem")
