"""The content of the repository's pages: fenced blocks, tables and links."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

ROOT: Final = Path(__file__).resolve().parents[2]
SHELL: Final = "sh"
"""The language of the commands that the tests run; those in `bash` need what the tests do not have."""

_FENCE: Final = re.compile(r"^```(\S*)\s*$")
_LINK: Final = re.compile(r"\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} +(.+?) *$")
_CODE: Final = re.compile(r"`([^`]+)`")
_CELL_BORDER: Final = re.compile(r"(?<!\\)\|")


@dataclass(frozen=True)
class Block:
    """A fenced block; `line` is the number of its first line of text. The block `text` right after a block of commands
    is the screen of the last of them."""

    source: str
    line: int
    language: str
    text: str
    screen: str | None = None


def pages() -> list[Path]:
    """Return all markdown files of the repository, without its environments."""
    own = [folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
    return sorted([*ROOT.glob("*.md"), *(page for folder in own for page in folder.rglob("*.md"))])


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    language, lines, start, follows = "", list[str](), 0, False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence is None:
            lines.append(line)
        elif start:
            found.append(Block(name_of(page), start, language, "\n".join(lines)))
            lines, start = [], 0
            if language == "text" and follows:
                screen = found.pop()
                found[-1] = replace(found[-1], screen=screen.text)
        else:
            follows = bool(found) and found[-1].language == SHELL and not any(lines)
            language, lines, start = fence[1], [], number + 1
    assert not start, f"{name_of(page)}: the block that begins at line {start} has no end"
    return found


def docstring_blocks(where: str, documented: object) -> list[Block]:
    """Return the indented examples of a docstring."""
    found: list[Block] = []
    lines: list[str] = []
    for line in [*(inspect.getdoc(documented) or "").splitlines(), "end"]:
        if line.startswith("    ") or (lines and not line):
            lines.append(line)
        elif lines:
            found.append(Block(where, 1, "python", textwrap.dedent("\n".join(lines))))
            lines = []
    return found


def _prose(page: Path) -> Iterator[tuple[int, str]]:
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if _FENCE.match(line):
            inside = not inside
        elif not inside:
            yield number, line


def links(page: Path) -> list[tuple[int, str]]:
    """Return the line and the target of each link that leads into the repository."""
    return [
        (number, target)
        for number, line in _prose(page)
        for target in _LINK.findall(_CODE.sub("", line))
        if "://" not in target and not target.startswith("mailto:")
    ]


def anchors(page: Path) -> set[str]:
    """Return the fragments that a web page gives to the headings."""
    found: dict[str, int] = {}
    for _, line in _prose(page):
        if heading := _HEADING.match(line):
            slug = re.sub(r"[^\w\- ]", "", heading[1].lower()).replace(" ", "-")
            found[slug] = found.get(slug, -1) + 1
    return {slug if not again else f"{slug}-{again}" for slug, times in found.items() for again in range(times + 1)}


def broken(page: Path, target: str) -> str | None:
    """Return the fault of a link, or None."""
    path, _, anchor = target.partition("#")
    file = (page.parent / unquote(path)).resolve() if path else page
    if not file.exists():
        return f"{path} is not there"
    if anchor and (file.suffix != ".md" or anchor not in anchors(file)):
        return f"{name_of(file)} has no heading #{anchor}"
    return None


def rows(page: Path, first: re.Pattern[str]) -> list[list[str]]:
    """Return the cells of the table rows whose first cell matches."""
    found: list[list[str]] = []
    for _, line in _prose(page):
        if line.startswith("|"):
            cells = [cell.strip().replace("\\|", "|") for cell in _CELL_BORDER.split(line)[1:-1]]
            if first.match(cells[0]):
                found.append(cells)
    return found


def codes(cell: str) -> list[str]:
    """Return the code spans of a text, without their backticks."""
    return _CODE.findall(cell)
