"""The terminal: whether there is one, how wide it is, and lines with colours for it."""

import sys
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text


def is_there() -> bool:
    """Return whether people read the output. A pipe or a file gets whole lines instead of tables."""
    return sys.stdout.isatty()


def width() -> int:
    """Return the columns of the window."""
    return Console().width


def show(lines: Iterable[Text]) -> None:
    """Print lines as they are, with colours where the terminal has them."""
    console = Console()
    for line in lines:
        console.print(line, soft_wrap=True)
