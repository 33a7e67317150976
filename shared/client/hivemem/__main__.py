"""`python -m hivemem` is the `hivemem` command."""

from hivemem.cli import main

if __name__ == "__main__":
    main()
