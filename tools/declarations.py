"""Writes what follows from the declarations of the workers: parts of the client, names of settings, lists of members.

`python tools/declarations.py` writes it, `--check` only says which lines are out of date, and where.
"""

import sys
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Final

import client_code
import member_lists

ROOT: Final = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    checking = arguments == ["--check"]
    stale = {name: text for name, text in expected(ROOT).items() if read(ROOT / name) != text}
    for name, text in stale.items():
        if checking:
            print(*differences(ROOT, name, text), sep="\n")
        else:
            (ROOT / name).write_text(text, encoding="utf-8", newline="\n")
            print(f"written: {name}")
    return 1 if checking and stale else 0


def expected(root: Path) -> Mapping[str, str]:
    """Return the files, by their path in the repository, as they have to be."""
    return {**client_code.files(root), **member_lists.files(root)}


def differences(root: Path, name: str, text: str) -> Iterator[str]:
    """Yield a line for each line of a file that is missing (`+`) or wrong (`-`)."""
    found = unified_diff(read(root / name).splitlines(), text.splitlines(), lineterm="", n=0)
    changed = [line for line in found if not line.startswith(("---", "+++", "@@"))]
    yield from (f"{name}: {line[0]} {line[1:].strip()}" for line in changed)
    yield f"{name}: out of date; write it again with `make docs`"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
