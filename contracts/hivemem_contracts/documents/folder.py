"""Writes the generated documents into their folder, and compares the folder with them."""

import json
import re
from pathlib import Path
from typing import Final

from hivemem_contracts.documents.asyncapi import asyncapi_document
from hivemem_contracts.documents.portable import Schema
from hivemem_contracts.documents.schemas import schema_files
from hivemem_contracts.documents.tables import generated_parts
from hivemem_contracts.documents.typescript import declarations

_PAGE: Final = "contract.md"
_SCHEMAS: Final = "schemas"
_TYPES: Final = "types/hivemem.d.ts"
_PART: Final = re.compile(r"(<!-- generated: (\w+) -->\n)(.*?)(<!-- end of \2 -->)", re.DOTALL)


class BrokenPageError(Exception):
    """Raised when the wire page or a pair of its markers is missing."""


def stale(folder: Path) -> list[str]:
    """Return the paths of missing, outdated and leftover files in the folder."""
    expected = _expected(folder)
    different = [path for path, text in expected.items() if _read(folder / path) != text]
    return sorted([*different, *_left_over(folder, expected)])


def write(folder: Path) -> list[str]:
    """Update the folder and return the changed files."""
    expected = _expected(folder)
    changed = stale(folder)
    for path in changed:
        file = folder / path
        if path in expected:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(expected[path], encoding="utf-8", newline="\n")
        else:
            file.unlink()
    return changed


def _expected(folder: Path) -> dict[str, str]:
    files = {f"{_SCHEMAS}/{name}": _json(schema) for name, schema in schema_files().items()}
    files |= {"asyncapi.json": _json(asyncapi_document()), _TYPES: declarations()}
    return files | {_PAGE: _page(folder / _PAGE)}


def _left_over(folder: Path, expected: dict[str, str]) -> list[str]:
    paths = [f"{_SCHEMAS}/{file.name}" for file in (folder / _SCHEMAS).glob("*.json")]
    return [path for path in paths if path not in expected]


def _page(file: Path) -> str:
    text = _read(file)
    if text is None:
        raise BrokenPageError(f"{file} is missing: its prose is written by hand, only its tables are generated")
    parts = generated_parts()
    found = [match[2] for match in _PART.finditer(text)]
    if sorted(found) != sorted(parts):
        raise BrokenPageError(f"{file} has the generated parts {sorted(found)}, and needs {sorted(parts)} once each")
    return _PART.sub(lambda match: f"{match[1]}\n{parts[match[2]]}\n\n{match[4]}", text)


def _read(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


def _json(document: Schema) -> str:
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
