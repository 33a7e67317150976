"""`python -m hivemem_contracts docs/` writes the generated documents; `--check docs/` only compares them."""

import argparse
import sys
from pathlib import Path

from hivemem_contracts.documents.folder import BrokenPageError, stale, write


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m hivemem_contracts", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the documents")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 and name what is out of date")
    options = parser.parse_args(arguments)
    try:
        names = stale(options.folder) if options.check else write(options.folder)
    except BrokenPageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    verdict = "out of date" if options.check else "written"
    for name in names:
        sys.stdout.write(f"{verdict}: {options.folder / name}\n")
    return 1 if options.check and names else 0


if __name__ == "__main__":
    sys.exit(main())
